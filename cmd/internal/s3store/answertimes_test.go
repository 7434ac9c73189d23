package s3store

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
)

// The time for an answer follows the longest of late, is doubled by one that did not come, and
// stays within its bounds.
func TestAnswersAreGivenTheTimeTheyTook(t *testing.T) {
	var a answerTimes
	answered := func(d time.Duration) func() { return func() { a.answered(d) } }
	lost := func(d time.Duration) func() { return func() { a.lost(d) } }
	for i, c := range []struct {
		learn func()
		times int
		want  time.Duration
	}{
		{answered(0), 1, 15 * time.Second},
		{answered(time.Second), 1, 15 * time.Second},
		{answered(10 * time.Second), 1, 40 * time.Second},
		{answered(time.Second), 1, 37500 * time.Millisecond},
		{answered(time.Second), 20, 15 * time.Second},
		{lost(15 * time.Second), 20, 30 * time.Second}, // given up together
		{lost(30 * time.Second), 1, time.Minute},
		{lost(time.Minute), 1, time.Minute},
		{lost(time.Second), 1, time.Minute}, // of a connection that was asked earlier
		{answered(50 * time.Second), 1, time.Minute},
		{answered(0), 40, 15 * time.Second},
	} {
		for range c.times {
			c.learn()
		}
		if got := a.bound(); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
}

// A store that thinks for most of a minute is given the time at the third try, and at once from
// then on; one whose answer was lost with its connection costs a quarter of that.
func TestASlowStoreIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(t, &slow{think: 50 * time.Second})
		for i, want := range []time.Duration{15 * time.Second, 30 * time.Second, 50 * time.Second, 50 * time.Second} {
			began := time.Now()
			err := put(t.Context(), s.Uploads(), "p/slow", []byte("x"))
			if took := time.Since(began); took != want || (err == nil) != (i > 1) || err != nil && port.ClassOf(err) != port.Timeout {
				t.Errorf("try %d ended after %s: %v", i+1, took, err)
			}
		}
	})
}
