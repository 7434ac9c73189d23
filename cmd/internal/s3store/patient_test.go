package s3store

import (
	"context"
	"net"
	"net/http/httptrace"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/answertime"
)

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

// A connection that was asked while nothing was answered waits for longer, and no more once
// something is answered: the store is back, and that request is lost.
func TestTheFirstAnswerEndsWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{silent: make(chan struct{})}
		s := wired(t, store)
		t.Cleanup(func() { close(store.silent) })
		hang := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if _, err := s.General().Get(t.Context(), "p/slow"); port.ClassOf(err) != port.Timeout || time.Since(began) != want {
				t.Errorf("ended after %s, want %s: %v", time.Since(began), want, err)
			}
		}
		given, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if _, err := s.General().Get(given, "p/slow"); err == nil {
			t.Error("it was answered")
		}
		hang(15 * time.Second) // what the node gave up says nothing of the store
		hang(30 * time.Second)
		time.AfterFunc(20*time.Second, func() {
			if err := put(t.Context(), s.General(), "p/quick", []byte("x")); err != nil {
				t.Error(err)
			}
		})
		hang(20 * time.Second) // and not a minute
	})
}

// What was sent has to be made durable first: a large request is given time for that.
func TestALargeRequestIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := &deadlines{at: time.Now()}
		c := &conn{Conn: raw, pool: &pool{}}
		trace := patient(64 << 20)
		trace.GotConn(httptrace.GotConnInfo{Conn: c})
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: net.ErrClosed})
		if len(raw.set) != 0 {
			t.Fatalf("what was not sent waits until %v", raw.set)
		}
		trace.WroteRequest(httptrace.WroteRequestInfo{})
		c.pool.lost(time.Minute)
		c.hurry(answertime.Least)
		must(t, c.moved())
		if want := []time.Duration{31 * time.Second, 31 * time.Second, 76 * time.Second}; !slices.Equal(raw.set, want) {
			t.Errorf("deadlines %v, want %v", raw.set, want)
		}
	})
}
