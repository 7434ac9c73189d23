package supervision_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/supervision"
)

// A child supervisor that spent its budget and stays down is parked. One that is
// restarted for it is not, nor one whose significant child ended.
func TestParked(t *testing.T) {
	for name, c := range map[string]struct {
		restart supervision.Restart
		way     any
		want    []string
	}{
		"temporary gives up": {supervision.Temporary, "boom", []string{"max_intensity w", "child_terminated inner", "parked inner"}},
		"transient gives up": {supervision.Transient, "boom", []string{"max_intensity w", "child_terminated inner", "parked inner"}},
		"permanent gives up": {supervision.Permanent, "boom", []string{"max_intensity w", "child_terminated inner", "started w", "restarted inner"}},
		"temporary ends":     {supervision.Temporary, "end", []string{"auto_shutdown w", "child_terminated inner"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				work := child("w", script{handle: func(_ *actors.Context, msg any) *actors.Reason {
					if msg == "end" {
						return actors.Exit(actors.Normal, "")
					}
					panic(msg)
				}})
				work.Restart, work.Significant = supervision.Transient, true
				flags := supervision.Flags{AutoShutdown: supervision.AnySignificant}
				root := w.supervise(t, three5, supervision.Child{
					ID: "inner", Restart: c.restart, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
					New: func(any) actors.Process { return supervision.New(flags, []supervision.Child{work}, w.observe) },
				})
				w.take()
				at(root, "inner/w").Handle.Send(c.way)
				last := w.last()
				wantEvents(t, w, append([]string{"child_terminated w"}, c.want...)...)
				if last.Kind == supervision.EventParked && (last.Path != "node" || last.Incarnation == 0 || last.Reason.Detail == "") {
					t.Errorf("event %+v", last)
				}
			})
		})
	}
}

// Whatever an observer does, its supervisor goes on; it is waited for as long as the limit.
func TestObserversAreNotTrusted(t *testing.T) {
	for name, tc := range map[string]struct {
		fails func(free <-chan struct{})
		took  time.Duration // for each event
	}{
		"panics":   {func(<-chan struct{}) { panic("boom") }, 0},
		"goexits":  {func(<-chan struct{}) { runtime.Goexit() }, 0},
		"blocks":   {func(free <-chan struct{}) { <-free }, 100 * time.Millisecond},
		"is slow":  {func(<-chan struct{}) { pass(time.Second) }, 100 * time.Millisecond},
		"is quick": {func(<-chan struct{}) { pass(time.Millisecond) }, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				free := make(chan struct{})
				began := time.Now()
				observe := func(ev supervision.Event) {
					w.observe(ev)
					tc.fails(free)
				}
				h, err := w.run("node", supervision.New(three5, []supervision.Child{child("w", script{})}, observe))
				if err != nil {
					t.Fatal(err)
				}
				first := at(h, "w").Handle
				first.Send("boom")
				pass(tc.took)
				synctest.Wait()
				if _, err := supervision.WhichChildren(context.Background(), h); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != 3*tc.took {
					t.Errorf("three events took %v, want %v", took, 3*tc.took)
				}
				if n := at(h, "w"); n.State != "running" || n.Handle == first {
					t.Errorf("the child is %+v", n)
				}
				wantEvents(t, w, "started w", "child_terminated w", "restarted w")
				h.Stop(stop)
				<-h.Done()
				close(free)
				pass(time.Second) // for who is slow
			})
		})
	}
}

// A start behind a zombie is told of once it has lasted, and not when the zombie goes in time.
func TestStuckEvent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		lease := make(chan struct{}, 1)
		h := w.supervise(t, three5, child("w", script{
			init: func(c *actors.Context) error {
				lease <- struct{}{}
				c.OnGone(func() { <-lease })
				return nil
			},
			handle: func(_ *actors.Context, msg any) *actors.Reason { <-msg.(chan struct{}); return nil },
		}))
		brief := make(chan struct{})
		block := func(on chan struct{}) {
			old := at(h, "w").Handle
			old.Send(on)
			synctest.Wait()
			old.Kill()
		}
		block(brief)
		pass(5 * time.Millisecond)
		close(brief)
		pass(time.Minute)
		wantEvents(t, w, "started w", "child_terminated w", "restarted w")
		block(free)
		pass(11 * time.Millisecond)
		stuck := w.last()
		wantEvents(t, w, "child_terminated w", "stuck w")
		if stuck.Path != "node" || stuck.Incarnation == 0 || stuck.Reason.Kind != actors.Killed || stuck.Restarts != 1 {
			t.Errorf("event %+v", stuck)
		}
		close(free)
		pass(time.Minute)
		// The supervisor was kept from looking at the zombie until it was gone.
		wantEvents(t, w, "restarted w")
	})
}

// A child that ends in good order and leaves a task behind is a zombie too, and so is one
// whose init failed, or wanted no process.
func TestZombieOfATask(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		leave := func(c *actors.Context) {
			c.Task("deaf", func(context.Context) any { <-free; return nil })
			c.Task("obedient", func(ctx context.Context) any { <-ctx.Done(); return nil })
		}
		w1 := child("w", script{handle: func(c *actors.Context, _ any) *actors.Reason {
			leave(c)
			return actors.Exit(actors.Normal, "")
		}})
		w1.Restart = supervision.Transient
		h := w.supervise(t, three5, w1, child("good", script{handle: func(c *actors.Context, _ any) *actors.Reason {
			c.Task("obedient", func(ctx context.Context) any { <-ctx.Done(); return nil })
			panic("boom")
		}}))
		at(h, "w").Handle.Send("end")
		at(h, "good").Handle.Send("end")
		pass(time.Millisecond) // so that they become zombies in this order
		bad := child("bad", script{init: func(c *actors.Context) error { leave(c); return context.Canceled }})
		if _, err := supervision.AddChild(context.Background(), h, bad); err == nil {
			t.Error("the bad child started")
		}
		pass(time.Millisecond)
		for _, restart := range []supervision.Restart{supervision.Permanent, supervision.Temporary} {
			needless := child("needless "+restart.String(), script{init: func(c *actors.Context) error { leave(c); return actors.ErrIgnore }})
			needless.Restart = restart
			if _, err := supervision.AddChild(context.Background(), h, needless); !errors.Is(err, actors.ErrIgnore) {
				t.Errorf("the needless child gave %v", err)
			}
			pass(time.Millisecond)
		}
		w.take()
		pass(time.Second)
		wantEvents(t, w, "zombie w", "zombie bad", "zombie needless permanent", "zombie needless temporary")
		states := map[string]string{}
		for _, n := range supervision.Tree(h).Children {
			states[n.ID] += n.State + " "
		}
		if states["w"] != "undefined zombie " || states["bad"] != "zombie " || states["good"] != "running " ||
			states["needless permanent"] != "undefined zombie " || states["needless temporary"] != "zombie " || w.sys.Zombies() != 4 {
			t.Errorf("tree %v, %d zombies", states, w.sys.Zombies())
		}
		close(free)
		synctest.Wait()
		if n := len(supervision.Tree(h).Children); n != 3 || w.sys.Zombies() != 0 {
			t.Errorf("%d children, %d zombies", n, w.sys.Zombies())
		}
	})
}
