package renew

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

const (
	second = pos.Millis(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// rig steps a machine, checks it after every step, and keeps what the shell would.
type rig struct {
	t       testing.TB
	m       *Machine
	wake    pos.Millis
	fetches []pos.Millis
	notes   []NoteKind
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, m: New(Config{})}
	r.play(Start{Now: 0}, Fetch{})
	return r
}

// play steps and demands the effects, but for the wake and the notes, which are kept.
func (r *rig) play(in Input, want ...Effect) {
	r.t.Helper()
	var got []Effect
	for _, e := range r.step(in) {
		switch e.(type) {
		case Wake, Note:
		case Drop, Fetch, Use:
			got = append(got, e)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%+v: got %+v, want %+v", in, got, want)
	}
}

func (r *rig) step(in Input) []Effect {
	r.t.Helper()
	out := r.m.Step(in, nil)
	if err := r.m.check(); err != nil {
		r.t.Fatalf("after %+v: %v", in, err)
	}
	for _, e := range out {
		switch e := e.(type) {
		case Fetch:
			r.fetches = append(r.fetches, r.m.now)
		case Wake:
			r.wake = e.At
		case Note:
			r.notes = append(r.notes, e.Kind)
		case Drop, Use:
		}
	}
	return out
}

// until ticks as woken until there is an effect other than a wake or a note, and returns when.
func (r *rig) until(last pos.Millis) (pos.Millis, Effect) {
	r.t.Helper()
	for r.wake <= last {
		for _, e := range r.step(Tick{Now: r.wake}) {
			switch e.(type) {
			case Wake, Note:
			case Drop, Fetch, Use:
				return r.m.now, e
			}
		}
	}
	r.t.Fatalf("nothing happens up to %d", last)
	return 0, nil
}

func (r *rig) state(want string) {
	r.t.Helper()
	if s := r.m.Status(); s.State != want {
		r.t.Fatalf("state %+v, want %s", s, want)
	}
}

func got(now, expires pos.Millis, random uint64) Fetched {
	return Fetched{Now: now, Random: random, Source: "instance role", AccessKeyID: "A", Expires: expires}
}

func TestRenewedFiveMinutesBeforeTheEnd(t *testing.T) {
	r := newRig(t)
	r.state(StateFetching)
	r.play(got(second, hour, 0), Use{})
	r.state(StateValid)
	at, e := r.until(hour)
	if at != 55*minute || e != (Fetch{}) {
		t.Fatalf("%+v at %d", e, at)
	}
	// The jitter makes it later, by half a minute at most.
	r = newRig(t)
	r.play(got(second, hour, 1<<63-1), Use{})
	if at, _ := r.until(hour); at <= 55*minute || at > 55*minute+30*second {
		t.Fatalf("with jitter at %d", at)
	}
}

func TestAShortLifeIsRenewedAtItsHalf(t *testing.T) {
	r := newRig(t)
	r.play(got(0, 2*minute, 0), Use{})
	if at, _ := r.until(hour); at != minute {
		t.Fatalf("at %d", at)
	}
	// Whoever hands out lives of a blink is not asked without pause.
	r = newRig(t)
	now := pos.Millis(0)
	for now < minute {
		r.step(got(now, now+200, 0))
		at, e := r.until(hour)
		if _, dropped := e.(Drop); dropped {
			at, _ = r.until(hour)
		}
		now = at
	}
	if n := len(r.fetches); n > 62 {
		t.Fatalf("%d fetches in a minute", n)
	}
}

func TestWhatNeverExpiresIsNotRenewed(t *testing.T) {
	r := newRig(t)
	r.play(got(0, 0, 0), Use{})
	for range 600 {
		r.play(Tick{Now: r.wake})
	}
	if len(r.fetches) != 1 || r.m.Status().Until != 0 {
		t.Fatalf("%d fetches, %+v", len(r.fetches), r.m.Status())
	}
}

// A source that is down for long costs nothing until the end of what is in use.
func TestTheOldOnesSignUntilTheyExpire(t *testing.T) {
	r := newRig(t)
	r.play(got(0, hour, 0), Use{})
	r.until(hour)
	var dropped pos.Millis
	for now := 55 * minute; now < hour+10*minute; {
		r.step(Failed{Now: now, Random: 1 << 40, Why: "the source is down"})
		if dropped == 0 {
			r.state(StateExpiring)
		} else {
			r.state(StateNone)
		}
		at, e := r.until(2 * hour)
		if d, ok := e.(Drop); ok {
			if dropped != 0 || at != hour || !strings.Contains(d.Why, "expired at") || !strings.Contains(d.Why, "the source is down") {
				t.Fatalf("dropped at %d: %s", at, d.Why)
			}
			dropped = at
			at, _ = r.until(2 * hour)
		}
		now = at
	}
	if dropped == 0 {
		t.Fatal("they sign on after their end")
	}
	if want := []NoteKind{Obtained, Failing, Lost}; !slices.Equal(r.notes, want) {
		t.Fatalf("noted %v, want %v: transitions only", r.notes, want)
	}
	for i := 2; i < len(r.fetches); i++ {
		if pause := r.fetches[i] - r.fetches[i-1]; pause > minute || pause < 500 {
			t.Fatalf("a pause of %d ms", pause)
		}
	}
	r.play(got(r.m.now+1, 3*hour, 0), Use{})
	r.state(StateValid)
}

func TestBackOffDoublesToAMinute(t *testing.T) {
	for i, want := range []pos.Millis{1, 2, 4, 8, 16, 32, 60, 60} {
		r := newRig(t)
		r.m.failures = i
		r.play(Failed{Now: 0, Random: 0, Why: "x"})
		low := r.m.Status().Until
		r = newRig(t)
		r.m.failures = i
		d := uint64(want * second * 1_000_000 / 2)
		r.play(Failed{Now: 0, Random: d, Why: "x"})
		if high := r.m.Status().Until; low != want*second/2 || high != want*second {
			t.Errorf("failure %d: %d to %d ms, want up to %d s", i+1, low, high, want)
		}
	}
}

func TestARefusalFetchesAtOnceAndAtMostEveryFiveSeconds(t *testing.T) {
	r := newRig(t)
	r.play(Rejected{Now: 0}) // of nothing that is in use
	r.play(got(0, 0, 0), Use{})
	r.play(Rejected{Now: minute}, Fetch{})
	r.play(Rejected{Now: minute})
	r.state(StateRefused)
	if got, want := r.m.Status().String(), "instance role, key A, never expires, refused: the object store refuses them as expired or unknown"; got != want {
		t.Fatalf("shown as %q", got)
	}
	r.play(got(minute+second, 0, 0), Use{}) // the same ones again
	r.play(Rejected{Now: minute + 2*second})
	if at, _ := r.until(hour); at != minute+5*second {
		t.Fatalf("fetched again at %d", at)
	}
	other := got(minute+6*second, 0, 0)
	other.AccessKeyID = "B"
	r.play(other, Use{})
	r.state(StateValid)
	if want := []NoteKind{Obtained, Refused, Obtained}; !slices.Equal(r.notes, want) {
		t.Fatalf("noted %v, want %v", r.notes, want)
	}
}

func TestARefusalIsForgottenAfterAMinuteWithoutOne(t *testing.T) {
	r := newRig(t)
	r.play(got(0, 0, 0), Use{})
	r.play(Rejected{Now: minute}, Fetch{})
	r.play(got(minute+second, 0, 0), Use{})
	r.play(Tick{Now: 2 * minute})
	r.state(StateRefused)
	r.play(Tick{Now: 2*minute + 1})
	r.state(StateValid)
}

func TestWhatHasExpiredIsNotUsed(t *testing.T) {
	r := newRig(t)
	r.play(got(hour, hour, 0))
	if s := r.m.Status(); s.State != StateNone || !strings.Contains(s.Why, "clock") {
		t.Fatalf("status %+v", s)
	}
}

func TestAnAnswerToNothingChangesNothing(t *testing.T) {
	r := newRig(t)
	r.play(got(0, hour, 0), Use{})
	r.play(got(1, 2*hour, 0))
	r.play(Failed{Now: 1, Why: "late"})
	if s, c := r.m.Status(), r.m.Counts(); s.Expires != hour || s.Why != "" || c != (Counts{Refreshes: 1}) {
		t.Fatalf("status %+v, counts %+v", s, c)
	}
}

// A clock that is set back keeps no retry waiting; one that is set forward renews.
func TestTheClockIsSet(t *testing.T) {
	r := newRig(t)
	r.play(Failed{Now: 10 * hour, Random: 0, Why: "x"})
	r.play(Tick{Now: hour})
	if at, e := r.until(hour + minute); e != (Fetch{}) {
		t.Fatalf("%+v at %d", e, at)
	}
	r.play(got(2*hour, 3*hour, 0), Use{})
	if r.wake > 2*hour+minute {
		t.Fatalf("the clock is looked at in %d ms", r.wake-2*hour)
	}
	r.play(Tick{Now: 2*hour + 58*minute}, Fetch{})
}

func TestWords(t *testing.T) {
	for want, s := range map[string]Status{
		"none: no source has any": {State: StateNone, Why: "no source has any"},
		"fetching":                {State: StateFetching},
		"environment, key A, never expires, valid":                             {State: StateValid, Source: "environment", AccessKeyID: "A"},
		"role, key A, expires 1970-01-01T01:00:00Z, expiring: it is not there": {State: StateExpiring, Source: "role", AccessKeyID: "A", Expires: hour, Why: "it is not there"},
	} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}

// Whatever comes in whatever order: the invariants hold, there is never more than one
// fetch, something is always going on or planned, what is used is dropped at its end, and
// the same inputs give the same effects.
func TestPropertiesAndDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := New(Config{}), New(Config{})
		now, wake := pos.Millis(rapid.Int64Range(0, int64(hour)).Draw(t, "start")), pos.Millis(0)
		open, used, expires := 0, false, pos.Millis(0)
		step := func(in Input) {
			_, answered := in.(Fetched)
			_, failed := in.(Failed)
			if answered || failed {
				open = 0
			}
			out := m.Step(in, nil)
			if again := twin.Step(in, nil); !reflect.DeepEqual(out, again) {
				t.Fatalf("%+v: %+v and %+v", in, out, again)
			}
			if err := m.check(); err != nil {
				t.Fatalf("after %+v: %v", in, err)
			}
			wake = 0
			for _, e := range out {
				switch e := e.(type) {
				case Fetch:
					open++
				case Use:
					used, expires = true, in.(Fetched).Expires
				case Drop:
					if !used || expires > now {
						t.Fatalf("dropped at %d what ends at %d", now, expires)
					}
					used = false
				case Wake:
					wake = e.At
				case Note:
				}
			}
			if open > 1 || wake <= now || used && expires != 0 && (expires <= now || wake > expires) || wake > now+minute {
				t.Fatalf("%d fetches are open, woken at %d of %d, in use %v until %d", open, wake, now, used, expires)
			}
		}
		step(Start{Now: now})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "time") {
			case 0:
				now = wake
			case 1:
				now += pos.Millis(rapid.Int64Range(0, int64(2*hour)).Draw(t, "jump"))
			case 2:
				now = max(0, now-pos.Millis(rapid.Int64Range(0, int64(hour)).Draw(t, "back")))
			}
			random := rapid.Uint64().Draw(t, "random")
			switch rapid.IntRange(0, 3).Draw(t, "input") {
			case 0:
				step(Tick{Now: now})
			case 1:
				step(Rejected{Now: now})
			case 2:
				if open > 0 {
					step(Failed{Now: now, Random: random, Why: "x"})
				}
			case 3:
				if open > 0 {
					end := pos.Millis(0)
					if rapid.Bool().Draw(t, "ends") {
						end = max(1, now+pos.Millis(rapid.Int64Range(-1000, int64(2*hour)).Draw(t, "life")))
					}
					step(Fetched{Now: now, Random: random, Source: "s", AccessKeyID: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "key"), Expires: end})
				}
			}
		}
	})
}

func TestDefaults(t *testing.T) {
	if c := New(Config{Early: time.Minute}).cfg; c.Early != time.Minute || c.Retry != time.Second || c.MaxRetry != time.Minute || c.RejectedPause != 5*time.Second {
		t.Errorf("%+v", c)
	}
}
