package answertime

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The time for an answer follows the longest of late, is doubled by each that does not come, up
// to the first that does, and stays within its bounds.
func TestAnswersAreGivenTheTimeTheyTook(t *testing.T) {
	var a times
	answered := func(d time.Duration) func() bool { return func() bool { return a.answered(d) } }
	back := func() bool { a.back(); return false }
	lost := func(d time.Duration) func() bool { return func() bool { a.lost(d); return false } }
	for i, c := range []struct {
		learn func() bool
		times int
		want  time.Duration
		ends  bool
	}{
		{answered(0), 1, 15 * time.Second, false},
		{answered(time.Second), 1, 15 * time.Second, false},
		{answered(10 * time.Second), 1, 40 * time.Second, false},
		{answered(time.Second), 1, 30 * time.Second, false},
		{answered(-time.Second), 20, 15 * time.Second, false}, // sooner than its size allows
		{lost(15 * time.Second), 20, 30 * time.Second, false}, // given up together
		{lost(30 * time.Second), 1, time.Minute, false},
		{lost(time.Second), 1, time.Minute, false}, // of a connection that was asked earlier
		{answered(0), 1, 15 * time.Second, true},
		{answered(0), 1, 15 * time.Second, false},
		{lost(15 * time.Second), 1, 30 * time.Second, false},
		{answered(50 * time.Second), 1, time.Minute, true},
		{lost(time.Minute), 1, time.Minute, false},
		{answered(0), 10, 15 * time.Second, true},
		{answered(6 * time.Second), 1, 24 * time.Second, false},
		{lost(24 * time.Second), 1, 48 * time.Second, false},
		{back, 1, 24 * time.Second, false}, // it was slow before
		{answered(0), 1, 18 * time.Second, false},
		{answered(10 * time.Minute), 1, time.Minute, false},
		{answered(0), 5, 56953125 * time.Microsecond, false}, // of a minute at most
	} {
		ended := false
		for range c.times {
			ended = c.learn() || ended
		}
		if got := a.bound(); got != c.want || ended != c.ends {
			t.Errorf("step %d: %s, want %s; ended a spell: %v", i, got, c.want, ended)
		}
	}
}

// Reads and writes have times of their own: a write is given no less than a read, only the end of a
// spell of reads says that the store is back, and that ends one of writes.
func TestReadsAndWrites(t *testing.T) {
	var a Answers
	for i, c := range []struct {
		learn         func() bool
		reads, writes time.Duration
		back          bool
	}{
		{func() bool { a.Lost(true, 15*time.Second); return false }, 15 * time.Second, 30 * time.Second, false},
		{func() bool { return a.Answered(false, 0) }, 15 * time.Second, 30 * time.Second, false}, // no spell of reads
		{func() bool { return a.Answered(true, 0) }, 15 * time.Second, 15 * time.Second, false},
		{func() bool { a.Lost(false, 20*time.Second); return false }, 40 * time.Second, 40 * time.Second, false},
		{func() bool { a.Lost(true, 30*time.Second); return false }, 40 * time.Second, time.Minute, false},
		{func() bool { return a.Answered(false, 0) }, 15 * time.Second, 15 * time.Second, true},
		{func() bool { return a.Answered(true, 6*time.Second) }, 15 * time.Second, 24 * time.Second, false},
		{func() bool { a.Lost(true, 20*time.Second); return false }, 15 * time.Second, 40 * time.Second, false},
		{func() bool { a.Lost(false, 20*time.Second); return false }, 40 * time.Second, 40 * time.Second, false},
		{func() bool { return a.Answered(false, 0) }, 15 * time.Second, 24 * time.Second, true}, // they were slow before
	} {
		back := c.learn()
		if read, write := a.Bound(false), a.Bound(true); read != c.reads || write != c.writes || back != c.back {
			t.Errorf("step %d: %s and %s, back %v", i, read, write, back)
		}
	}
}

// One request that fails again and again is given more each time, whatever others are answered.
func TestWhatFailedIsGivenMore(t *testing.T) {
	for tries, want := range map[int]time.Duration{-1: 15 * time.Second, 0: 15 * time.Second, 1: 30 * time.Second, 2: time.Minute, 3: time.Minute, 99: time.Minute} {
		if got := After(tries); got != want {
			t.Errorf("%d tries: %s, want %s", tries, got, want)
		}
	}
}

func TestWhatIsLargeIsAllowedMore(t *testing.T) {
	for bytes, want := range map[int64]time.Duration{-1: 0, 0: 0, 4<<20 - 1: 0, 4 << 20: time.Second, 64 << 20: 16 * time.Second, 5 << 30: 1280 * time.Second} {
		if got := Allowance(bytes); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
}

func TestAWholeRequestIsGivenItsBytes(t *testing.T) {
	for bytes, want := range map[int64]time.Duration{-1: time.Minute, 0: time.Minute, 1: 61 * time.Second, 1 << 20: 61 * time.Second, 4<<20 + 1: 65 * time.Second} {
		if got := Whole(bytes); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
}

// Whatever comes: the bounds hold; waiting in vain never shortens the time, and an answer that was
// slow gives the next one at least as long.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a times
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			before := a.bound()
			after := time.Duration(rapid.Int64Range(-int64(time.Second), int64(2*time.Minute)).Draw(t, "after"))
			if rapid.Bool().Draw(t, "lost") {
				a.lost(after)
				if a.bound() < before {
					t.Fatalf("%s after %s", a.bound(), before)
				}
			} else if a.answered(after); a.bound() < min(after, Most) {
				t.Fatalf("%s after an answer in %s", a.bound(), after)
			}
			if b := a.bound(); b < Least || b > Most {
				t.Fatalf("%s", b)
			}
		}
	})
}
