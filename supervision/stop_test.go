package supervision_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/supervision"
)

// A brutal child has no time to stop in, and none to come up in either: an init of it that
// hangs does not hold up the stop of its supervisor.
func TestABrutalInitThatHangsDoesNotHoldUpTheStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		defer close(free)
		hangs := child("hangs", script{init: func(*actors.Context) error { <-free; return nil }})
		hangs.Shutdown = supervision.Brutal
		h := w.supervise(t, three5)
		asker := make(chan error, 1)
		go func() {
			_, err := supervision.AddChild(context.Background(), h, hangs)
			asker <- err
		}()
		synctest.Wait()
		h.Stop(stop)
		pass(time.Second)
		if !isDone(h) || <-asker == nil {
			t.Fatal("the supervisor waits for the init")
		}
	})
}

// How a child may end while it is told to stop, and what of that its supervisor reports, as
// OTP does: a transient or temporary one any way that is not abnormal; a supervisor with a
// shutdown, whatever its words for why it gave up; a permanent worker with a plain one only.
func TestWhatIsAFaultOfAStop(t *testing.T) {
	normal, plain := actors.Exit(actors.Normal, ""), actors.Exit(actors.Shutdown, "")
	worded, crash := actors.Exit(actors.Shutdown, "more than 3 restarts"), actors.Exit(actors.Crash, "boom")
	for _, tc := range []struct {
		restart supervision.Restart
		kind    supervision.Kind
		why     *actors.Reason
		fault   bool
	}{
		{supervision.Permanent, supervision.Worker, plain, false},
		{supervision.Permanent, supervision.Worker, normal, true},
		{supervision.Permanent, supervision.Worker, worded, true},
		{supervision.Permanent, supervision.Supervisor, worded, false},
		{supervision.Permanent, supervision.Supervisor, normal, true},
		{supervision.Transient, supervision.Worker, normal, false},
		{supervision.Transient, supervision.Worker, worded, false},
		{supervision.Transient, supervision.Worker, crash, true},
		{supervision.Temporary, supervision.Worker, normal, false},
		{supervision.Temporary, supervision.Worker, crash, true},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			free := make(chan struct{})
			c := child("w", script{handle: func(*actors.Context, any) *actors.Reason { <-free; return tc.why }})
			c.Restart, c.Kind = tc.restart, tc.kind
			h := w.supervise(t, three5, c)
			at(h, "w").Handle.Send("end as you were told to")
			synctest.Wait()
			w.take()
			h.Stop(stop)
			synctest.Wait()
			close(free)
			<-h.Done()
			got := w.take()
			if fault := len(got) == 1 && got[0] == "shutdown_error w"; fault != tc.fault || !fault && len(got) != 0 {
				t.Errorf("%v %v that ends with %v while it is stopped: events %q", tc.restart, tc.kind, tc.why, got)
			}
		})
	}
}

func isDone(h *actors.Handle) bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}
