package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

func TestStartReturnsAfterInit(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		began := time.Now()
		h := start(t, sys, "a", &script{init: func(*actors.Context) error { pass(time.Second); return nil }})
		if got := time.Since(began); got != time.Second {
			t.Errorf("Start returned after %v, want 1s", got)
		}
		if !h.Alive() || h.Path() != "a" || h.Nonce() != 7 {
			t.Errorf("alive %v path %q nonce %v", h.Alive(), h.Path(), h.Nonce())
		}
	})
}

func TestStartReportsTheInit(t *testing.T) {
	cause := errors.New("no luck")
	cases := map[string]struct {
		init func(*actors.Context) error
		is   error
		kind actors.Kind
	}{
		"error":                       {func(*actors.Context) error { return cause }, cause, actors.Crash},
		"panic":                       {func(*actors.Context) error { panic("boom") }, nil, actors.Crash},
		"goexit":                      {func(*actors.Context) error { runtime.Goexit(); return nil }, nil, actors.Crash},
		"stopped":                     {func(c *actors.Context) error { c.Self().Stop(actors.Reason{Kind: actors.Shutdown}); return nil }, nil, actors.Shutdown},
		"stopped, and fails for that": {func(c *actors.Context) error { c.Self().Stop(actors.Reason{Kind: actors.Shutdown}); return cause }, cause, actors.Shutdown},
		"killed":                      {func(c *actors.Context) error { c.Self().Kill(); return nil }, nil, actors.Killed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, sys *actors.System) {
				var self *actors.Handle
				parent := start(t, sys, "parent", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
					t.Errorf("the parent got %T for a start that failed", msg)
					return nil
				}})
				_, err := sys.Start(context.Background(), actors.Spec{Path: "a", Parent: parent, New: func() actors.Process {
					return &script{init: func(c *actors.Context) error { self = c.Self(); return tc.init(c) }}
				}})
				var failed *actors.StartError
				if !errors.As(err, &failed) || failed.Reason.Kind != tc.kind || failed.Path != "a" {
					t.Fatalf("Start gave %v, want a StartError of kind %v", err, tc.kind)
				}
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("Start gave %v, want it to wrap %v", err, tc.is)
				}
				if !isDone(self.Done()) || !isDone(self.Gone()) {
					t.Error("the process is not done and gone")
				}
			})
		})
	}
	t.Run("ignore", func(t *testing.T) {
		inBubble(t, func(t *testing.T, sys *actors.System) {
			_, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process {
				return &script{init: func(*actors.Context) error { return fmt.Errorf("not here: %w", actors.ErrIgnore) }}
			}})
			if _, failed := errors.AsType[*actors.StartError](err); failed || !errors.Is(err, actors.ErrIgnore) {
				t.Errorf("Start gave %v, want ErrIgnore", err)
			}
		})
	})
}

// A start whose Spawned fails leaves no process that never runs and never ends.
func TestSpawnedFails(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		var h *actors.Handle
		parent := start(t, sys, "parent", &script{handle: func(c *actors.Context, _ any) *actors.Reason {
			_, err := sys.Start(c.Done(), actors.Spec{Path: "a", Parent: c.Self(), New: func() actors.Process { return &script{} }, Spawned: func(own *actors.Handle) {
				h = own
				panic("boom")
			}})
			t.Errorf("Start returned %v", err)
			return nil
		}, terminate: func(*actors.Context, actors.Reason) {
			if h.Alive() || h.Zombie() {
				t.Error("the process is not done and gone")
			}
		}})
		parent.Send("go")
		if !isDone(parent.Done()) || parent.Reason().Detail != "boom" {
			t.Errorf("the parent ended with %v", parent.Reason())
		}
	})
}

func TestStartCancelled(t *testing.T) {
	obedient := func(c *actors.Context) error { <-c.Done().Done(); return c.Done().Err() }
	inBubble(t, func(t *testing.T, sys *actors.System) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := sys.Start(ctx, actors.Spec{Path: "a", New: func() actors.Process { return &script{init: obedient} }})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start gave %v, want the context's error", err)
		}
	})
	inBubble(t, func(t *testing.T, sys *actors.System) {
		free := make(chan struct{})
		blocked := func(*actors.Context) error { <-free; return nil }
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := sys.Start(ctx, actors.Spec{Path: "b", InitGrace: time.Second, New: func() actors.Process { return &script{init: blocked} }})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start gave %v, want the context's error", err)
		}
		if got := time.Since(began); got != 2*time.Second {
			t.Errorf("it took %v, want 2s", got)
		}
		if sys.Zombies() != 1 {
			t.Errorf("%d zombies, want 1", sys.Zombies())
		}
		close(free)
		synctest.Wait()
		if sys.Zombies() != 0 {
			t.Errorf("%d zombies are left", sys.Zombies())
		}
	})
}

// Whoever is told of a process before its Init runs may talk to it: what it is sent waits
// for the Init, and a stop or a kill is heeded.
func TestTalkBeforeInit(t *testing.T) {
	for name, c := range map[string]struct {
		talk func(h *actors.Handle)
		want []string
	}{
		"send": {func(h *actors.Handle) { h.Send("one"); h.Send("two") }, []string{"init", "one", "two"}},
		"stop": {func(h *actors.Handle) { h.Send("one"); h.Stop(actors.Reason{Kind: actors.Shutdown}) }, []string{"init", "terminate shutdown"}},
		"kill": {func(h *actors.Handle) { h.Send("one"); h.Kill() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, sys *actors.System) {
				var l log
				p := &script{
					init:      func(*actors.Context) error { l.add("init"); return nil },
					handle:    func(_ *actors.Context, msg any) *actors.Reason { l.add("%v", msg); return nil },
					terminate: func(_ *actors.Context, why actors.Reason) { l.add("terminate %v", why) },
				}
				_, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process { return p }, Spawned: func(h *actors.Handle) {
					c.talk(h)
					synctest.Wait()
				}})
				synctest.Wait()
				if (err == nil) != (name == "send") {
					t.Errorf("start gave %v", err)
				}
				l.want(t, c.want...)
			})
		})
	}
}
