package supervision_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"millrace/actors"
	"millrace/supervision"
)

// Streams are started, stopped, killed and broken from all sides at once. Every call is
// answered, whoever is listed afterwards runs, and nothing outlives the stop.
func TestStorm(t *testing.T) {
	const streams, stormers, each = 12, 4, 400
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		work := child("w", script{handle: func(c *actors.Context, msg any) *actors.Reason {
			switch msg {
			case "normal":
				return actors.Exit(actors.Normal, "")
			case "goexit":
				runtime.Goexit()
			case "task":
				c.Task("t", func(context.Context) any { panic("in a task") })
				return nil
			}
			panic(msg)
		}})
		work.Restart, work.Significant = supervision.Transient, true
		sup := factory(t, w, supervision.Child{ID: "s", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(any) actors.Process {
				return supervision.New(auto(three5, supervision.AnySignificant), []supervision.Child{work}, w.observe)
			}})
		storm := func(r *rand.Rand) {
			for range each {
				id := fmt.Sprint(r.IntN(streams))
				stream := supervision.Find(sup, id)
				worker := supervision.Find(sup, id, "w")
				var err error
				switch n := r.IntN(10); n {
				case 0, 1, 2:
					_, err = supervision.StartChild(ctx, sup, id, nil)
				case 3:
					err = supervision.TerminateChild(ctx, sup, id)
				case 4:
					if stream != nil {
						stream.Kill()
					}
				case 5:
					if worker != nil {
						worker.Kill()
					}
				default:
					worker.Send([]string{"normal", "goexit", "task", "panic"}[n-6])
				}
				var started *supervision.AlreadyStarted
				var killed *actors.StartError // while it started
				if err != nil && !errors.As(err, &started) && !errors.As(err, &killed) && !errors.Is(err, supervision.ErrNotFound) {
					t.Errorf("a call gave %v", err)
				}
			}
		}
		var wg sync.WaitGroup
		for i := range stormers {
			wg.Go(func() { storm(rand.New(rand.NewPCG(uint64(i), 1))) })
		}
		wg.Wait()
		synctest.Wait()
		listed := supervision.Tree(sup).Children
		for _, n := range listed {
			if n.State != "running" || !n.Handle.Alive() || n.MailboxLen != 0 || len(n.Children) != 1 || n.Children[0].State != "running" || !n.Children[0].Handle.Alive() {
				t.Errorf("stream %+v", n)
			}
		}
		if n, err := supervision.CountChildren(ctx, sup); err != nil || n.Active != len(listed) {
			t.Errorf("%d listed, counted %+v, %v", len(listed), n, err)
		}
		parked := 0
		for _, line := range w.take() {
			if line[:6] == "parked" {
				parked++
			}
		}
		if parked == 0 || !sup.Alive() {
			t.Errorf("%d parked, alive %v", parked, sup.Alive())
		}
		sup.Stop(stop)
		<-sup.Done()
		synctest.Wait()
		if n := w.sys.Zombies(); n != 0 {
			t.Errorf("%d zombies", n)
		}
		for _, n := range listed {
			if n.Handle.Alive() || n.Children[0].Handle.Alive() {
				t.Errorf("%s outlives the factory", n.Path)
			}
		}
	})
}
