package collect

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

var testConfig = Config{Linger: time.Second, Retry: time.Second, MaxRetry: time.Minute}

// play steps a machine and checks its invariants after every step.
func play(t testing.TB, m *Machine, in Input) []Effect {
	t.Helper()
	out := m.Step(in, nil)
	if err := m.check(); err != nil {
		t.Fatalf("after %+v: %v", in, err)
	}
	return out
}

func keys(prefix string, n int) []string {
	ks := make([]string, 0, n)
	for i := range n {
		ks = append(ks, fmt.Sprintf("%s%05d", prefix, i))
	}
	return ks
}

func request(t *testing.T, out []Effect) []string {
	t.Helper()
	for _, e := range out {
		if r, ok := e.(Request); ok {
			return r.Keys
		}
	}
	return nil
}

func TestNothingIsDeletedBeforeItsGrace(t *testing.T) {
	m := New(testConfig)
	out := play(t, m, Add{Now: 1_000, Delete: Delete{Keys: []string{"a"}, After: 10_000}})
	if want := []Effect{Wake{At: 10_000}}; !reflect.DeepEqual(out, want) {
		t.Fatalf("got %v, want %v", out, want)
	}
	if out = play(t, m, Tick{Now: 9_999}); request(t, out) != nil {
		t.Fatalf("deleted early: %v", out)
	}
	if got := request(t, play(t, m, Tick{Now: 10_000})); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("got %v", got)
	}
}

func TestKeysOfOneMomentShareRequestsOfAtMostAThousand(t *testing.T) {
	m := New(testConfig)
	play(t, m, Add{Now: 1, Delete: Delete{Keys: keys("a", 700)}})
	play(t, m, Add{Now: 2, Delete: Delete{Keys: keys("b", 700)}})
	first := request(t, play(t, m, Tick{Now: 1_000}))
	if len(first) != BatchKeys {
		t.Fatalf("first request has %d keys", len(first))
	}
	if out := play(t, m, Add{Now: 1_001, Delete: Delete{Keys: []string{"c"}}}); len(out) != 0 {
		t.Fatalf("a second request beside the first: %v", out)
	}
	second := request(t, play(t, m, Answered{Now: 1_500}))
	if len(second) != 400 {
		t.Fatalf("second request has %d keys", len(second))
	}
	if third := request(t, play(t, m, Answered{Now: 2_000})); !slices.Equal(third, []string{"c"}) {
		t.Fatalf("third request: %v", third)
	}
	play(t, m, Answered{Now: 2_001})
	if c := m.Counts(); c.Deleted != 1401 || c.Failed != 0 || m.Status() != (Status{}) {
		t.Fatalf("counted %+v, left %+v", c, m.Status())
	}
}

func TestAFailedRequestIsRepeatedWithGrowingPauses(t *testing.T) {
	m := New(testConfig)
	play(t, m, Add{Now: 0, Delete: Delete{Keys: []string{"a", "b"}}})
	now, pauses := pos.Millis(0), []pos.Millis(nil)
	for range 8 {
		out := play(t, m, Answered{Now: now, Failed: true})
		w, ok := out[0].(Wake)
		if !ok {
			t.Fatalf("got %v", out)
		}
		pauses = append(pauses, w.At-now)
		now = w.At
		if got := request(t, play(t, m, Tick{Now: now})); len(got) != 2 {
			t.Fatalf("repeated %v", got)
		}
	}
	want := []pos.Millis{1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000}
	if !slices.Equal(pauses, want) {
		t.Fatalf("pauses %v, want %v", pauses, want)
	}
}

func TestARefusedKeyIsTriedFiveTimesAndOthersCountAsDeleted(t *testing.T) {
	m := New(testConfig)
	got := request(t, play(t, m, Add{Now: 0, Delete: Delete{Keys: []string{"bad", "good"}}}))
	now := pos.Millis(0)
	for try := range MaxTries {
		if want := 1 + max(0, 1-try); len(got) != want {
			t.Fatalf("try %d asks for %v", try, got)
		}
		play(t, m, Answered{Now: now, Refused: []string{"bad"}})
		now += 60_000
		got = request(t, play(t, m, Tick{Now: now}))
	}
	if out := play(t, m, Tick{Now: now}); len(out) != 0 {
		t.Fatalf("tried once more: %v", out)
	}
	if c := m.Counts(); c != (Counts{Deleted: 1, Failed: MaxTries, GivenUp: 1}) {
		t.Fatalf("counted %+v", c)
	}
}

func TestWhatDoesNotFitIsGivenUpAndCounted(t *testing.T) {
	m := New(testConfig)
	many := keys("k", 100_000)
	for range 5 {
		play(t, m, Add{Now: 0, Delete: Delete{Keys: many, After: 1_000_000}})
	}
	play(t, m, Add{Now: 0, Delete: Delete{Keys: keys("x", 7), After: 5_000}})
	if c := m.Counts(); c.GivenUp != 7 || m.Status().Pending != PendingKeys {
		t.Fatalf("gave up %d, keeps %d", c.GivenUp, m.Status().Pending)
	}
}

// scenario draws inputs that a shell could send, and answers requests.
func scenario(t *rapid.T) []Input {
	var ins []Input
	now, n := pos.Millis(0), 0
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		now += pos.Millis(rapid.IntRange(0, 3_000).Draw(t, "ms"))
		switch rapid.IntRange(0, 3).Draw(t, "input") {
		case 0, 1:
			ks := keys(fmt.Sprintf("%d-", n), rapid.SampledFrom([]int{0, 1, 2, 50, 1_100}).Draw(t, "keys"))
			n++
			ins = append(ins, Add{Now: now, Delete: Delete{Keys: ks, After: now + pos.Millis(rapid.IntRange(-100, 5_000).Draw(t, "grace"))}})
		case 2:
			ins = append(ins, Tick{Now: now})
		case 3:
			ins = append(ins, Answered{Now: now, Failed: rapid.Bool().Draw(t, "failed")})
		}
	}
	return ins
}

func TestEveryKeyIsDeletedOnceAndNoneTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := New(testConfig), New(testConfig)
		after, deleted := map[string]pos.Millis{}, map[string]int{}
		var sent []string
		now := pos.Millis(0)
		step := func(in Input) {
			if a, ok := in.(Answered); ok {
				if sent == nil {
					return
				}
				for _, k := range sent {
					if !a.Failed {
						deleted[k]++
					}
				}
				sent = nil
			}
			out := m.Step(in, nil)
			if again := twin.Step(in, nil); !reflect.DeepEqual(out, again) {
				t.Fatalf("not deterministic: %v and %v", out, again)
			}
			if err := m.check(); err != nil {
				t.Fatal(err)
			}
			for _, e := range out {
				if r, ok := e.(Request); ok {
					sent = r.Keys
					for _, k := range r.Keys {
						if after[k] > now {
							t.Fatalf("%s is deleted at %d, not before %d", k, now, after[k])
						}
					}
				}
			}
		}
		for _, in := range scenario(t) {
			switch in := in.(type) {
			case Add:
				now = in.Now
				for _, k := range in.Delete.Keys {
					after[k] = in.Delete.After
				}
			case Tick:
				now = in.Now
			case Answered:
				now = in.Now
			}
			step(in)
		}
		for range 40 {
			now += 61_000
			step(Tick{Now: now})
			step(Answered{Now: now})
		}
		for k := range after {
			if deleted[k] != 1 {
				t.Fatalf("%s was deleted %d times", k, deleted[k])
			}
		}
	})
}
