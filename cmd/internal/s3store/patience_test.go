package s3store

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
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
		store := &slow{think: 50 * time.Second}
		s := wired(t, store)
		for i, want := range []time.Duration{15 * time.Second, 30 * time.Second, 50 * time.Second, 50 * time.Second} {
			began := time.Now()
			err := put(t.Context(), s.Uploads(), "p/slow", []byte("x"))
			if took := time.Since(began); took != want || (err == nil) != (i > 1) || err != nil && port.ClassOf(err) != port.Timeout {
				t.Errorf("try %d ended after %s: %v", i+1, took, err)
			}
		}
		store.think = 0
		for range 10 {
			must(t, put(t.Context(), s.Uploads(), "p/slow", []byte("x")))
		}
		if got := s.uploads.pool.patience.bound(&question{write: true}); got != answertime.Least {
			t.Errorf("a store that is quick again is given %s", got)
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
		again := func() error {
			return put(port.WithTries(t.Context(), 2), s.Uploads(), "p/taken", []byte("x"))
		}
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
		all.Go(func() { hang("an upload that has failed", again, 20*time.Second) })
		all.Go(func() {
			<-time.After(10 * time.Second)
			hang("a get", get, 15*time.Second) // its time from when it was asked
		})
		all.Go(func() {
			<-time.After(15 * time.Second)
			if _, err := s.General().Get(t.Context(), "p/busy"); port.ClassOf(err) != port.Unavailable { // no answer of the store
				t.Error(err)
			}
		})
		all.Go(func() {
			<-time.After(20 * time.Second)
			if _, err := s.General().Get(t.Context(), "p/refused"); err == nil || port.ClassOf(err) == port.Timeout {
				t.Error(err)
			}
		})
		all.Wait()
		hang("an upload", upload, 30*time.Second) // for the get; the upload that was asked before taught nothing
	})
}

// What is no answer of a store that does what it is asked teaches nothing, and ends no spell.
func TestWhatAnAnswerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			write bool
			tells []int
			not   []int
		}{
			{false, []int{200, 206, 307, 400, 403, 404, 408, 416}, []int{429, 500, 501, 502, 503, 504}},
			{true, []int{200, 204}, []int{307, 400, 403, 404, 429, 500, 503}},
		} {
			for i, status := range append(c.tells, c.not...) {
				shared := new(patience)
				shared.lost(c.write, 20*time.Second)
				trace, q := asked(shared, c.write)
				trace.WroteRequest(httptrace.WroteRequestInfo{})
				<-time.After(5 * time.Second)
				q.answered(status)
				want := 20 * time.Second // four times what this one took
				if i >= len(c.tells) {
					want = 40 * time.Second
				}
				if got := shared.bound(&question{write: c.write}); got != want {
					t.Errorf("after %d to a write (%v): %s, want %s", status, c.write, got, want)
				}
			}
		}
	})
}

// asked returns a question that has a connection of its own, and the trace of it.
func asked(shared *patience, write bool) (*httptrace.ClientTrace, *question) {
	q := &question{write: write}
	trace := q.trace()
	trace.GotConn(httptrace.GotConnInfo{Conn: &conn{Conn: &deadlines{at: time.Now()}, pool: newPool(1, nil, shared)}})
	return trace, q
}

// An answer that comes while the waiting for it is bounded anew has the time of a body to be read.
func TestAnAnswerIsNotHurried(t *testing.T) {
	shared := new(patience)
	trace, q := asked(shared, true)
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	c := q.conn.Load()
	var both sync.WaitGroup
	shared.mu.Lock()
	both.Go(c.hurry)
	eventually(t, "its time is being found", func() bool {
		if !c.set.TryLock() {
			return true
		}
		c.set.Unlock()
		return false
	})
	both.Go(func() { q.answered(http.StatusBadRequest) })
	eventually(t, "its answer is there", func() bool { return c.asked.Load() == nil })
	shared.mu.Unlock()
	both.Wait()
	if left := time.Until(time.Unix(0, c.until.Load())); left < stall-5*time.Second/2 {
		t.Errorf("its body is given %s", left)
	}
}

// A connection that is idle before its answer is taken may have the next question by then, whose
// answer is bounded all the same.
func TestTheNextQuestionIsNotForgotten(t *testing.T) {
	trace, q := asked(new(patience), false)
	c, next := q.conn.Load(), new(question)
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	next.trace().GotConn(httptrace.GotConnInfo{Conn: c})
	q.answered(http.StatusOK)
	if c.asked.Load() != next {
		t.Error("its answer is not waited for")
	}
}

// puts has a store that needs 40 s for each put to p/slow take one of some bytes, while it does
// something else before each try and every 3 s, and demands that the third try gets the time.
func puts(t *testing.T, size int, failed func(try int) int, beside func(ctx context.Context, s *Store) error) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(t, &slow{think: 40 * time.Second})
		for i, want := range []time.Duration{15 * time.Second, 30 * time.Second, 40 * time.Second} {
			began, done := time.Now(), make(chan struct{})
			quick := func() {
				if err := beside(t.Context(), s); port.ClassOf(err) == port.Timeout {
					t.Error(err)
				}
			}
			quick() // nothing that the try before this taught is left
			go func() {
				defer close(done)
				for time.Since(began) < want-4*time.Second {
					<-time.After(3 * time.Second)
					quick()
				}
			}()
			err := put(port.WithTries(t.Context(), failed(i)), s.General(), "p/slow", make([]byte, size))
			if took := time.Since(began); took != want || (err == nil) != (i == 2) {
				t.Errorf("try %d ended after %s: %v", i+1, took, err)
			}
			<-done
		}
	})
}

// A store that needs long for what it makes durable is given the time, also for a body that it is
// asked about first, whatever it answers at once meanwhile.
func TestALongWriteIsGivenTime(t *testing.T) {
	never, each := func(int) int { return 0 }, func(try int) int { return try }
	read := func(ctx context.Context, s *Store) error { _, err := s.General().Get(ctx, "p/quick"); return err }
	t.Run("reads", func(t *testing.T) { puts(t, 1, never, read) })
	t.Run("of a large body", func(t *testing.T) { puts(t, 3<<20, never, read) })
	t.Run("writes that are refused", func(t *testing.T) {
		puts(t, 1, never, func(ctx context.Context, s *Store) error { return put(ctx, s.General(), "p/refused", []byte("x")) })
	})
	t.Run("writes", func(t *testing.T) {
		puts(t, 1, each, func(ctx context.Context, s *Store) error { return put(ctx, s.Uploads(), "p/quick", []byte("x")) })
	})
}

// A store that needs long for all it is asked is read, too, within what a reader gives a request.
func TestAStoreThatIsSlowIsReadAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(t, &slow{think: 16 * time.Second})
		for i, want := range []time.Duration{15 * time.Second, 16 * time.Second, 16 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), answertime.Whole(1))
			began := time.Now()
			_, err := s.General().Get(ctx, "p/slow")
			if took := time.Since(began); took != want || (err == nil) != (i > 0) {
				t.Errorf("try %d ended after %s: %v", i+1, took, err)
			}
			cancel()
		}
	})
}

// A read that takes longer than others is answered, whatever these are meanwhile.
func TestALongReadIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wired(t, &slow{think: 20 * time.Second})
		get := func(tries int, key string) error {
			_, err := s.General().Get(port.WithTries(t.Context(), tries), key)
			return err
		}
		for try, want := range []time.Duration{15 * time.Second, 20 * time.Second} {
			must(t, get(0, "p/quick")) // nothing that the try before this taught is left
			began := time.Now()
			err := get(try, "p/slow")
			if took := time.Since(began); took != want || (err == nil) != (try > 0) {
				t.Errorf("try %d ended after %s: %v", try+1, took, err)
			}
		}
	})
}

// What a request is: one that reads, and is asked about, or one that writes.
func TestWhatIsAsked(t *testing.T) {
	for method, write := range map[string]bool{http.MethodGet: false, http.MethodHead: false, http.MethodPut: true, http.MethodPost: true, http.MethodDelete: true} {
		r, err := http.NewRequestWithContext(port.WithTries(t.Context(), 2), method, "http://store/p", nil)
		must(t, err)
		r.ContentLength = 64 << 20
		if q := questionOf(r); q.write != write || q.tries != 2 || q.allowance != 16*time.Second {
			t.Errorf("%s: %+v", method, q)
		}
	}
}

// What was sent has to be made durable first: a large request is given time for that.
func TestALargeRequestIsGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := &deadlines{at: time.Now()}
		c := &conn{Conn: raw, pool: newPool(1, nil, new(patience))}
		q := &question{write: true, allowance: answertime.Allowance(64 << 20)}
		trace := q.trace()
		trace.GotConn(httptrace.GotConnInfo{Conn: c})
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: net.ErrClosed})
		if len(raw.set) != 0 {
			t.Fatalf("what was not sent waits until %v", raw.set)
		}
		trace.WroteRequest(httptrace.WroteRequestInfo{})
		c.hurry()
		c.pool.patience.lost(true, time.Minute)
		must(t, c.moved())
		<-time.After(20 * time.Second)
		if took := q.waited(); took != 4*time.Second {
			t.Errorf("waited for %s beside what its size allows", took)
		}
		q.answered(http.StatusOK)
		if want := []time.Duration{31 * time.Second, 31 * time.Second, 76 * time.Second, 40 * time.Second}; !slices.Equal(raw.set, want) {
			t.Errorf("deadlines %v, want %v", raw.set, want)
		}
	})
}
