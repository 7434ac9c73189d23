package pace

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

var (
	alice = Owner{Stream: "alice", Incarnation: 1}
	bob   = Owner{Stream: "bob", Incarnation: 2}
)

// play steps a machine and checks its invariants after every step.
func play(t testing.TB, m *Machine, in Input) []Effect {
	t.Helper()
	out := m.Step(in, nil)
	if err := m.check(); err != nil {
		t.Fatalf("after %+v: %v", in, err)
	}
	return out
}

func ask(now pos.Millis, o Owner, ref Ref, bytes int64) Ask {
	return Ask{Now: now, Submit: Submit{Owner: o, Ref: ref, Bytes: bytes}}
}

func want(t *testing.T, got []Effect, wanted ...Effect) {
	t.Helper()
	if len(got) != len(wanted) || len(got) > 0 && !reflect.DeepEqual(got, wanted) {
		t.Fatalf("got %+v, want %+v", got, wanted)
	}
}

func TestWithoutALimitEveryTransferIsGrantedAtOnce(t *testing.T) {
	m := New(Config{}, 0)
	for ref := range Ref(5) {
		want(t, play(t, m, ask(0, alice, ref, 1<<40)), Grant{alice, ref})
	}
	if s := m.Status(); s.InFlight != 5 || s.InFlightBytes != 5<<40 || s.Waiting != 0 {
		t.Fatalf("status %+v", s)
	}
	play(t, m, End{Done: Done{alice, 3}})
	play(t, m, End{Done: Done{alice, 3}})
	if s := m.Status(); s.InFlight != 4 || s.InFlightBytes != 4<<40 {
		t.Fatalf("status after a double Done %+v", s)
	}
}

// Item 31 of the failure list: larger than the burst, a burst of 0, a very low rate.
func TestItem31(t *testing.T) {
	t.Run("larger than the burst", func(t *testing.T) {
		m := New(Config{BytesPerSecond: 100, Burst: 20}, 0)
		want(t, play(t, m, ask(0, alice, 1, 50)), Grant{alice, 1})
		if s, c := m.Status(), m.Counts(); s.FullAt != 500 || c.Oversized != 1 {
			t.Fatalf("status %+v, counts %+v", s, c)
		}
		// A full bucket: the debt of 30, and 20 on top.
		want(t, play(t, m, ask(0, alice, 2, 50)), Wake{500})
		want(t, play(t, m, Tick{499}), Wake{500})
		want(t, play(t, m, Tick{500}), Grant{alice, 2})
	})
	t.Run("no burst", func(t *testing.T) {
		m := New(Config{BytesPerSecond: 100}, 0)
		want(t, play(t, m, ask(0, alice, 1, 50)), Grant{alice, 1})
		want(t, play(t, m, ask(0, alice, 2, 10)), Wake{500})
		want(t, play(t, m, Tick{500}), Grant{alice, 2})
	})
	t.Run("three bytes a second", func(t *testing.T) {
		m := New(Config{BytesPerSecond: 3, Burst: DefaultBurst(3)}, 0)
		now, moved := pos.Millis(0), int64(0)
		out := play(t, m, ask(0, alice, 0, 1))
		for ref := Ref(1); now < 100_000; {
			switch e := out[0].(type) {
			case Grant:
				moved++
				out = play(t, m, ask(now, alice, ref, 1))
				ref++
			case Wake:
				now = e.At
				out = play(t, m, Tick{now})
			}
		}
		if moved < 299 || moved > 302 {
			t.Fatalf("%d bytes in 100 s at 3 bytes a second", moved)
		}
	})
}

// Item 30: what there are no connections for waits in the queue, and goes on in its
// order whichever way a place becomes free.
func TestItem30AtMostSoManyAreUnderWay(t *testing.T) {
	m := New(Config{MaxInFlight: 2}, 0)
	want(t, play(t, m, ask(0, alice, 1, 10)), Grant{alice, 1})
	want(t, play(t, m, ask(0, alice, 2, 10)), Grant{alice, 2})
	for ref := Ref(3); ref < 7; ref++ {
		want(t, play(t, m, ask(0, bob, ref, 10)))
	}
	if s := m.Status(); s.InFlight != 2 || s.Waiting != 4 || s.MaxInFlight != 2 {
		t.Fatalf("status %+v", s)
	}
	want(t, play(t, m, End{Done: Done{alice, 2}}), Grant{bob, 3})
	want(t, play(t, m, Withdraw{Cancel: Cancel{bob, []Ref{3}}}), Grant{bob, 4})
	want(t, play(t, m, OwnerDown{Owner: alice}), Grant{bob, 5})
	want(t, play(t, m, Tick{1}))
	// A free place is not enough: the tokens have to be there too.
	m = New(Config{MaxInFlight: 1, BytesPerSecond: 1000, Burst: 100}, 0)
	want(t, play(t, m, ask(0, alice, 1, 100)), Grant{alice, 1})
	want(t, play(t, m, ask(0, alice, 2, 100)))
	want(t, play(t, m, End{Now: 50, Done: Done{alice, 1}}), Wake{100})
	want(t, play(t, m, Tick{100}), Grant{alice, 2})
}

// Item 32: small ones do not overtake a large one, though their tokens would do.
func TestItem32(t *testing.T) {
	m := New(Config{BytesPerSecond: 1000, Burst: 200}, 0)
	want(t, play(t, m, ask(0, alice, 1, 150)), Grant{alice, 1})
	want(t, play(t, m, ask(0, bob, 1, 200)), Wake{150})
	for ref := Ref(2); ref < 6; ref++ {
		want(t, play(t, m, ask(0, alice, ref, 1)), Wake{150})
	}
	out := play(t, m, Tick{150})
	want(t, out[:1], Grant{bob, 1})
}

// Item 33: a requester that dies in the queue, one that is dead already, and a ref
// that is granted and queued at the same time.
func TestItem33(t *testing.T) {
	m := New(Config{BytesPerSecond: 1000, Burst: 200}, 0)
	play(t, m, ask(0, alice, 1, 200))
	play(t, m, ask(0, bob, 7, 200))
	play(t, m, ask(0, alice, 1, 200))
	dead := ask(0, bob, 8, 1)
	dead.Dead = true
	play(t, m, dead)
	if s := m.Status(); s.Waiting != 2 || s.InFlight != 1 {
		t.Fatalf("status %+v", s)
	}
	play(t, m, OwnerDown{Now: 0, Owner: bob})
	if s, c := m.Status(), m.Counts(); s.Waiting != 1 || c.Dropped != 2 || s.FullAt != 200 {
		t.Fatalf("status %+v, counts %+v", s, c)
	}
	want(t, play(t, m, Withdraw{Now: 0, Cancel: Cancel{alice, []Ref{1}}}))
	if s := m.Status(); s.Waiting != 0 || s.InFlight != 0 || s.WaitingBytes != 0 || s.InFlightBytes != 0 {
		t.Fatalf("status %+v", s)
	}
	// A Done from before the cancel changes nothing.
	play(t, m, End{Done: Done{alice, 1}})
}

// A ref that is granted twice is one transfer, of the size that it had last.
func TestARefThatIsGrantedTwiceIsOneTransfer(t *testing.T) {
	m := New(Config{MaxInFlight: 2}, 0)
	want(t, play(t, m, ask(0, alice, 1, 10)), Grant{alice, 1})
	want(t, play(t, m, ask(0, alice, 1, 30)), Grant{alice, 1})
	if s := m.Status(); s.InFlight != 1 || s.InFlightBytes != 30 {
		t.Fatalf("status %+v", s)
	}
	want(t, play(t, m, ask(0, bob, 1, 10)), Grant{bob, 1})
}

func TestAClockThatRunsBackwardsAddsNothing(t *testing.T) {
	m := New(Config{BytesPerSecond: 1000, Burst: 200}, 10_000)
	play(t, m, ask(10_000, alice, 1, 200))
	want(t, play(t, m, ask(5_000, alice, 2, 100)), Wake{5_100})
}

func TestTheBucketIsFullWhenItIs(t *testing.T) {
	m := New(Config{BytesPerSecond: 3, Burst: 1}, 0)
	play(t, m, ask(0, alice, 1, 2))
	if s := m.Status(); s.FullAt != 667 { // 2 bytes, 3 of them a second
		t.Fatalf("status %+v", s)
	}
	if s := New(Config{}, 7).Status(); s.FullAt != 7 {
		t.Fatalf("status %+v without a limit", s)
	}
}

func TestALongPauseFillsTheBucketAndNoMore(t *testing.T) {
	m := New(Config{BytesPerSecond: 1 << 40, Burst: 1 << 40}, 0)
	play(t, m, ask(0, alice, 1, 1<<40))
	play(t, m, Tick{1 << 50})
	if s := m.Status(); s.FullAt != 1<<50 {
		t.Fatalf("status %+v", s)
	}
}

func TestRateFairnessAndDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			BytesPerSecond: rapid.Int64Range(0, 5_000).Draw(t, "rate"), Burst: rapid.Int64Range(0, 2_000).Draw(t, "burst"),
			MaxInFlight: rapid.IntRange(0, 3).Draw(t, "at once"),
		}
		m, twin := New(cfg, 0), New(cfg, 0)
		var queue []Ref
		var granted, largest int64
		sizes, now, next := map[Ref]int64{}, pos.Millis(0), Ref(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += pos.Millis(rapid.IntRange(0, 500).Draw(t, "ms"))
			var in Input = Tick{now}
			switch rapid.IntRange(0, 3).Draw(t, "input") {
			case 0, 1:
				next++
				sizes[next] = rapid.Int64Range(0, 4_000).Draw(t, "bytes")
				largest = max(largest, sizes[next])
				queue = append(queue, next)
				in = ask(now, alice, next, sizes[next])
			case 2:
				in = End{Now: now, Done: Done{alice, Ref(rapid.IntRange(0, int(next)).Draw(t, "done"))}}
			}
			out := m.Step(in, nil)
			if again := twin.Step(in, nil); !reflect.DeepEqual(out, again) {
				t.Fatalf("not deterministic: %v and %v", out, again)
			}
			if err := m.check(); err != nil {
				t.Fatal(err)
			}
			for _, e := range out {
				if g, ok := e.(Grant); ok {
					if g.Ref != queue[0] {
						t.Fatalf("granted %d before %d", g.Ref, queue[0])
					}
					queue = queue[1:]
					granted += sizes[g.Ref]
				}
			}
			if n := m.Status().InFlight; cfg.MaxInFlight > 0 && n > cfg.MaxInFlight {
				t.Fatalf("%d are under way, at most %d may be", n, cfg.MaxInFlight)
			}
			bound := cfg.Burst + cfg.BytesPerSecond*int64(now)/1000 + largest
			if cfg.BytesPerSecond > 0 && granted > bound {
				t.Fatalf("granted %d bytes by %d ms, at most %d are allowed", granted, now, bound)
			}
		}
	})
}
