package storemonitor

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
)

// A store that needs most of a minute for each answer, from the start, is one that can be used.
func TestASlowStoreIsUnderstood(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 50 * time.Second }
		b.start()
		pass(timeout)
		if b.gate.owned() {
			t.Fatal("it has answered")
		}
		b.shows("unknown", 1, port.Unavailable)
		pass(10 * time.Minute) // its marker is looked for, put, and read back, each time as slowly
		if !b.gate.owned() {
			t.Errorf("not admitted: %+v", b.h.Status())
		}
		if err := b.put(b.t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A store that swallowed questions and answers again is found to be well within the time for one,
// though what it swallowed is still open.
func TestAStoreThatIsBackIsFoundSoon(t *testing.T) {
	inBubble(t, func(b *bench) {
		var silent atomic.Bool
		b.store.Latency = func(string, string) time.Duration {
			if silent.Load() {
				return time.Hour
			}
			return 0
		}
		b.start()
		b.shows("yes", 1, passes)
		silent.Store(true)
		pass(6*time.Minute + timeout/2)
		b.shows("unknown", 1, passes)
		silent.Store(false)
		pass(timeout)
		b.shows("yes", 1, passes)
	})
}

// Whatever answers first counts, but for one that gave up waiting while another has not; a
// question is asked so many times at most.
func TestAQuestionIsAskedAgain(t *testing.T) {
	for what, c := range map[string]struct {
		after []time.Duration // which is when the answers come, in the order of the questions
		class []port.Class
		want  port.Class
		at    time.Duration
	}{
		"at once":              {[]time.Duration{0}, []port.Class{port.Denied}, port.Denied, 0},
		"late":                 {[]time.Duration{45 * time.Second}, []port.Class{port.NotFound}, port.NotFound, 45 * time.Second},
		"to the second":        {[]time.Duration{time.Hour, time.Second}, []port.Class{0, port.Denied}, port.Denied, 11 * time.Second},
		"the first gives up":   {[]time.Duration{15 * time.Second, 20 * time.Second}, []port.Class{port.Timeout, port.Denied}, port.Denied, 30 * time.Second},
		"the first gives up 1": {[]time.Duration{5 * time.Second}, []port.Class{port.Timeout}, port.Timeout, 5 * time.Second},
		"never":                {nil, nil, port.Timeout, givenUpAt},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			began := time.Now()
			err := insist(t.Context(), func(ctx context.Context) error {
				i := int(asked.Add(1)) - 1
				after := time.Hour
				if i < len(c.after) {
					after = c.after[i]
				}
				select {
				case <-time.After(after):
					return c.class[i]
				case <-ctx.Done():
					return port.Timeout
				}
			})
			if took := time.Since(began); port.ClassOf(err) != c.want || took != c.at || asked.Load() > int64(givenUpAt/timeout) {
				t.Errorf("%s: %v after %s and %d questions, want %s after %s", what, err, took, asked.Load(), c.want, c.at)
			}
		})
	}
}
