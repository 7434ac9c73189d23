package s3store

import (
	"context"
	"net"
	"net/http/httptrace"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
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
// something like it is answered: the store is back, and that request is lost. So is one of
// another sort, and in another pool.
func TestTheFirstAnswerEndsWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{silent: make(chan struct{})}
		s := wired(t, store)
		t.Cleanup(func() { close(store.silent) })
		get := func() error { _, err := s.General().Get(t.Context(), "p/slow"); return err }
		upload := func() error { return put(t.Context(), s.Uploads(), "p/taken", []byte("x")) }
		hang := func(what string, do func() error, want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := do(); port.ClassOf(err) != port.Timeout || time.Since(began) != want {
				t.Errorf("%s ended after %s, want %s: %v", what, time.Since(began), want, err)
			}
		}
		given, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if _, err := s.General().Get(given, "p/slow"); err == nil {
			t.Error("it was answered")
		}
		hang("a get", get, 15*time.Second) // what the node gave up says nothing of the store
		hang("a get", get, 30*time.Second)
		hang("an upload", upload, time.Minute) // no less than a get
		var all sync.WaitGroup
		all.Go(func() { hang("an upload", upload, 20*time.Second) }) // and not a minute
		all.Go(func() {
			<-time.After(10 * time.Second)
			hang("a get", get, 15*time.Second) // its time from when it was asked
		})
		all.Go(func() {
			<-time.After(20 * time.Second)
			if _, err := s.General().Get(t.Context(), "p/quick"); port.ClassOf(err) == port.Timeout {
				t.Error(err)
			}
		})
		all.Wait()
		hang("an upload", upload, 30*time.Second) // for the get; the upload that was asked before taught nothing
	})
}

// A store that answers what reads at once, and needs long for what writes, is given the time.
func TestReadsSayNothingOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(t, &slow{think: 40 * time.Second})
		for i, want := range []time.Duration{15 * time.Second, 30 * time.Second, 40 * time.Second} {
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				for range 3 {
					if _, err := s.General().Get(t.Context(), "p/quick"); port.ClassOf(err) == port.Timeout {
						t.Error(err)
					}
					<-time.After(3 * time.Second)
				}
			}()
			err := put(t.Context(), s.General(), "p/slow", []byte("x"))
			if took := time.Since(began); took != want || (err == nil) != (i == 2) {
				t.Errorf("try %d ended after %s: %v", i+1, took, err)
			}
			<-done
		}
	})
}

// What was sent has to be made durable first: a large request is given time for that.
func TestALargeRequestIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := &deadlines{at: time.Now()}
		c := &conn{Conn: raw, pool: newPool(1, nil)}
		trace := patient(64<<20, true)
		trace.GotConn(httptrace.GotConnInfo{Conn: c})
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: net.ErrClosed})
		if len(raw.set) != 0 {
			t.Fatalf("what was not sent waits until %v", raw.set)
		}
		trace.WroteRequest(httptrace.WroteRequestInfo{})
		c.hurry()
		c.pool.patience.lost(true, time.Minute)
		must(t, c.moved())
		if want := []time.Duration{31 * time.Second, 31 * time.Second, 76 * time.Second}; !slices.Equal(raw.set, want) {
			t.Errorf("deadlines %v, want %v", raw.set, want)
		}
	})
}
