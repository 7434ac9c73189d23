package admin

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/core/pos"
)

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// fakeServer fails a number of times, each after a while, and then serves.
type fakeServer struct {
	failures int
	after    time.Duration // how long a failing run lasts
	stubborn time.Duration // how long it takes to stop
	early    bool          // it returns nil although nobody stopped it
	calls    int
	starts   []time.Duration
	began    time.Time
	up       bool
}

func (s *fakeServer) Serve(ctx context.Context) error {
	s.calls++
	s.starts = append(s.starts, time.Since(s.began))
	if s.calls <= s.failures {
		pass(s.after)
		if s.early {
			return nil
		}
		return errors.New("port is busy")
	}
	s.up = true
	<-ctx.Done()
	pass(s.stubborn)
	s.up = false
	return nil
}

// run starts an admin process over srv in a bubble and hands it to story.
func run(t *testing.T, srv *fakeServer, story func(h *actors.Handle, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(pos.UID(1))
		defer sys.Close()
		srv.began = time.Now()
		var log bytes.Buffer
		h, err := sys.Start(t.Context(), actors.Spec{Path: "node/admin", New: func() actors.Process {
			return New(Config{Server: srv, Log: zerolog.New(&log)})
		}})
		if err != nil {
			t.Fatal(err)
		}
		story(h, &log)
	})
}

func stop(h *actors.Handle) {
	h.Stop(actors.Reason{Kind: actors.Shutdown})
	<-h.Done()
}

func TestServesUntilItIsStopped(t *testing.T) {
	srv := &fakeServer{stubborn: time.Second}
	run(t, srv, func(h *actors.Handle, _ *bytes.Buffer) {
		synctest.Wait()
		if st := h.Status().(Status); st.State != Serving || !srv.up {
			t.Errorf("status %+v, up %v", st, srv.up)
		}
		asked := time.Now()
		stop(h)
		if took := time.Since(asked); srv.up || took != srv.stubborn {
			t.Errorf("the process ended after %v, the server runs: %v", took, srv.up)
		}
		if h.Reason().Abnormal() {
			t.Errorf("ended with %v", h.Reason())
		}
	})
}

// A server that cannot run is waited for with a growing back-off, and no crash.
func TestAFailingServerIsAStateAndNotACrash(t *testing.T) {
	srv := &fakeServer{failures: 9}
	run(t, srv, func(h *actors.Handle, log *bytes.Buffer) {
		synctest.Wait()
		st := h.Status().(Status)
		if st.State != Waiting || st.Why != "port is busy" || st.Until == nil || !st.Until.Equal(time.Now().Add(firstDelay)) {
			t.Errorf("status %+v", st)
		}
		pass(2 * time.Minute)
		synctest.Wait()
		want := []time.Duration{0, 250, 750, 1750, 3750, 7750, 15750, 30750, 45750, 60750}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if len(srv.starts) != len(want) {
			t.Fatalf("started at %v", srv.starts)
		}
		for i, at := range want {
			if srv.starts[i] != at {
				t.Errorf("start %d at %v, want %v", i, srv.starts[i], at)
			}
		}
		if st := h.Status().(Status); st.State != Serving || st.Failures != 9 || !h.Alive() {
			t.Errorf("status %+v", st)
		}
		if strings.Count(log.String(), "port is busy") != 9 {
			t.Errorf("logged %s", log)
		}
		stop(h)
	})
}

func TestALongRunForgivesEarlierFailures(t *testing.T) {
	srv := &fakeServer{failures: 3, after: steady}
	run(t, srv, func(h *actors.Handle, _ *bytes.Buffer) {
		pass(2 * time.Minute)
		synctest.Wait()
		for i, at := range srv.starts {
			if want := time.Duration(i) * (steady + firstDelay); at != want {
				t.Errorf("start %d at %v, want %v", i, at, want)
			}
		}
		stop(h)
	})
}

func TestAServerThatEndsByItselfHasFailed(t *testing.T) {
	srv := &fakeServer{failures: 1, early: true}
	run(t, srv, func(h *actors.Handle, _ *bytes.Buffer) {
		synctest.Wait()
		if st := h.Status().(Status); st.State != Waiting || st.Why != errEarly.Error() {
			t.Errorf("status %+v", st)
		}
		stop(h) // during the back-off
		if srv.calls != 1 {
			t.Errorf("started %d times", srv.calls)
		}
	})
}

// A server that does not stop holds the stop up for a bounded time only.
func TestAStubbornServerIsWaitedForShortly(t *testing.T) {
	srv := &fakeServer{stubborn: 5 * linger}
	run(t, srv, func(h *actors.Handle, log *bytes.Buffer) {
		synctest.Wait()
		asked := time.Now()
		stop(h)
		if took := time.Since(asked); took != linger {
			t.Errorf("the stop took %v", took)
		}
		if !strings.Contains(log.String(), "did not stop in time") {
			t.Errorf("logged %s", log)
		}
		pass(5 * linger)
	})
}
