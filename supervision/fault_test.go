package supervision_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/registry"
	"millrace/supervision"
)

// script is a process made of functions; nil ones do nothing.
type script struct {
	init      func(*actors.Context) error
	handle    func(*actors.Context, any) *actors.Reason
	terminate func(*actors.Context, actors.Reason)
}

func (s *script) Init(c *actors.Context) error {
	if s.init == nil {
		return nil
	}
	return s.init(c)
}

func (s *script) Handle(c *actors.Context, msg any) *actors.Reason {
	if s.handle == nil {
		panic(msg)
	}
	return s.handle(c, msg)
}

func (s *script) Terminate(c *actors.Context, why actors.Reason) {
	if s.terminate != nil {
		s.terminate(c, why)
	}
}

func child(id string, s script) supervision.Child {
	return supervision.Child{
		ID: id, Shutdown: supervision.After(time.Second),
		New: func(any) actors.Process { p := s; return &p },
	}
}

func (w *world) supervise(t *testing.T, f supervision.Flags, children ...supervision.Child) *actors.Handle {
	t.Helper()
	h, err := w.run("node", supervision.New(f, children, w.observe))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// at returns the tree's node at the path below the root, zombies last.
func at(root *actors.Handle, path string) supervision.Node {
	n := supervision.Tree(root)
	for id := range strings.SplitSeq(path, "/") {
		i := slices.IndexFunc(n.Children, func(c supervision.Node) bool { return c.ID == id })
		if i < 0 {
			return supervision.Node{State: "absent"}
		}
		n = n.Children[i]
	}
	return n
}

func wantEvents(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := w.take(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

var stop = actors.Reason{Kind: actors.Shutdown}

// Whatever way a child ends, its name is free when its successor's init runs.
func TestNameIsFreeBeforeTheRestart(t *testing.T) {
	ends := map[string]func(h *actors.Handle){
		"panic":  func(h *actors.Handle) { h.Send("panic") },
		"goexit": func(h *actors.Handle) { h.Send("goexit") },
		"kill":   (*actors.Handle).Kill,
		"normal": func(h *actors.Handle) { h.Send("normal") },
		"killed while blocked": func(h *actors.Handle) {
			h.Send("block")
			synctest.Wait()
			h.Kill()
		},
	}
	for way, end := range ends {
		t.Run(way, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				names := registry.New()
				name := registry.Name{Kind: "worker", Node: "n"}
				free := make(chan struct{})
				inits := 0
				w.supervise(t, three5, child("w", script{
					init: func(c *actors.Context) error {
						inits++
						if !names.Register(c, name) {
							return errors.New("the name is taken")
						}
						return nil
					},
					handle: func(_ *actors.Context, msg any) *actors.Reason {
						switch msg {
						case "goexit":
							runtime.Goexit()
						case "normal":
							return actors.Exit(actors.Normal, "")
						case "block":
							<-free
							return nil
						}
						panic(msg)
					},
				}))
				first, _ := names.WhereIs(name)
				end(first)
				synctest.Wait()
				second, ok := names.WhereIs(name)
				if !ok || second == first || inits != 2 {
					t.Errorf("holder %v, before %v; %d inits", second, first, inits)
				}
				close(free)
				synctest.Wait()
				if third, _ := names.WhereIs(name); third != second {
					t.Error("the zombie took its successor's name away")
				}
				wantEvents(t, w, "started w", "child_terminated w", "restarted w")
			})
		})
	}
}

// The event of a crash has its stack.
func TestEventsCarryTheStack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		h := w.supervise(t, three5, child("w", script{}))
		at(h, "w").Handle.Send("boom")
		synctest.Wait()
		ended, restarted := w.events[1], w.events[2]
		if ended.Kind != supervision.EventChildTerminated || ended.Reason.Detail != "boom" || !strings.Contains(ended.Reason.Stack, "fault_test.go") ||
			ended.Path != "node" || ended.Incarnation == 0 || ended.Intensity != 3 {
			t.Errorf("event %+v", ended)
		}
		if restarted.Restarts != 1 || restarted.Incarnation <= ended.Incarnation {
			t.Errorf("event %+v", restarted)
		}
	})
}

// A child that does not stop is killed and shown as a zombie; the others still stop.
func TestBlockedTerminate(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		stopped := false
		h := w.supervise(t, three5,
			child("first", script{terminate: func(*actors.Context, actors.Reason) { stopped = true }}),
			child("stuck", script{terminate: func(*actors.Context, actors.Reason) { <-free }}))
		if err := supervision.TerminateChild(context.Background(), h, "stuck"); err != nil {
			t.Fatal(err)
		}
		wantEvents(t, w, "started first", "started stuck", "zombie stuck", "shutdown_error stuck")
		states := map[string]int{}
		for _, n := range supervision.Tree(h).Children {
			states[n.ID+" "+n.State]++
		}
		if fmt.Sprint(states) != "map[first running:1 stuck undefined:1 stuck zombie:1]" {
			t.Errorf("tree %v", states)
		}
		h.Stop(stop)
		<-h.Done()
		if !stopped || h.Reason().Kind != actors.Shutdown || w.sys.Zombies() != 1 {
			t.Errorf("stopped %v, %v, %d zombies", stopped, h.Reason(), w.sys.Zombies())
		}
		close(free)
	})
}

// Under simple_one_for_one the time to stop runs for all at once.
func TestBlockedTerminatesOfAFactory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		h := factory(t, w, child("t", script{terminate: func(*actors.Context, actors.Reason) { <-free }}))
		for _, id := range []string{"b", "a", "c", "f", "e", "d"} {
			if _, err := supervision.StartChild(context.Background(), h, id, nil); err != nil {
				t.Fatal(err)
			}
		}
		var ids []string
		for _, n := range supervision.Tree(h).Children {
			ids = append(ids, n.ID)
		}
		if fmt.Sprint(ids) != "[b a c f e d]" {
			t.Errorf("shown in order %v", ids)
		}
		began := time.Now()
		h.Stop(stop)
		<-h.Done()
		if took := time.Since(began); took != time.Second+10*time.Millisecond || w.sys.Zombies() != 6 {
			t.Errorf("took %v, %d zombies", took, w.sys.Zombies())
		}
		close(free)
	})
}

// While an earlier incarnation's code holds what the new one needs, the child is stuck
// and the tree says so without waiting for the supervisor, which is blocked in its init.
func TestStuckBehindAZombie(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		lease := make(chan struct{}, 1)
		h := w.supervise(t, three5, child("w", script{
			init: func(c *actors.Context) error {
				select {
				case lease <- struct{}{}:
					c.OnGone(func() { <-lease })
					return nil
				case <-c.Done().Done():
					return c.Done().Err()
				}
			},
			handle: func(*actors.Context, any) *actors.Reason { <-free; return nil },
		}))
		old := at(h, "w").Handle
		old.Send("block")
		synctest.Wait()
		old.Kill()
		synctest.Wait()
		if n := at(h, "w"); n.State != "stuck" || n.LastExit != "killed" || n.Handle == old {
			t.Errorf("node %+v", n)
		}
		close(free)
		synctest.Wait()
		if n := at(h, "w"); n.State != "running" || n.Restarts != 1 || len(supervision.Tree(h).Children) != 1 {
			t.Errorf("node %+v", n)
		}
	})
}

// A stop that arrives while a child's init runs ends that init, at the boot as at a
// restart; an init that does not heed it has the child's shutdown time.
func TestStopCancelsAnInit(t *testing.T) {
	waits := func(c *actors.Context) error { <-c.Done().Done(); return c.Done().Err() }
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		terminated := false
		_, err := w.sys.Start(ctx, actors.Spec{Path: "node", New: func() actors.Process {
			return supervision.New(three5, []supervision.Child{
				child("first", script{terminate: func(*actors.Context, actors.Reason) { terminated = true }}),
				child("slow", script{init: waits}),
			}, w.observe)
		}})
		if !errors.Is(err, context.DeadlineExceeded) || !terminated {
			t.Errorf("start gave %v, first terminated %v", err, terminated)
		}
	})
	for name, init := range map[string]func(*actors.Context) error{
		"heeds": waits,
		"deaf":  func(*actors.Context) error { pass(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				inits := 0
				h := w.supervise(t, three5, child("w", script{init: func(c *actors.Context) error {
					if inits++; inits == 1 {
						return nil
					}
					return init(c)
				}}))
				at(h, "w").Handle.Send("boom")
				synctest.Wait()
				if n := at(h, "w"); n.State != "starting" {
					t.Errorf("state %s", n.State)
				}
				began := time.Now()
				h.Stop(stop)
				<-h.Done()
				want := map[string]time.Duration{"heeds": 0, "deaf": time.Second + 10*time.Millisecond}[name]
				if took := time.Since(began); took != want || h.Reason().Kind != actors.Shutdown {
					t.Errorf("stopped after %v, want %v: %v", took, want, h.Reason())
				}
				pass(time.Hour)
			})
		})
	}
}

// A child that crashes in its init at a restart, in any way, costs the budget like any.
func TestCrashingRestarts(t *testing.T) {
	for name, crash := range map[string]func(){"panic": func() { panic("boom") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				inits := 0
				h := w.supervise(t, three5, child("w", script{init: func(*actors.Context) error {
					if inits++; inits > 1 {
						crash()
					}
					return nil
				}}))
				at(h, "w").Handle.Send("boom")
				wantEvents(t, w, "started w", "child_terminated w", "start_error w", "start_error w", "start_error w", "max_intensity w")
				if h.Alive() || h.Reason().Kind != actors.Shutdown || inits != 4 {
					t.Errorf("%v after %d inits", h.Reason(), inits)
				}
			})
		})
	}
}

// A supervisor that is killed takes all below it along, and its parent starts it anew.
func TestKilledSupervisorLeavesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inner := supervision.Child{ID: "inner", Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(any) actors.Process {
				return supervision.New(three5, []supervision.Child{child("w", script{})}, w.observe)
			}}
		h := w.supervise(t, three5, inner)
		old := at(h, "inner/w").Handle
		at(h, "inner").Handle.Kill()
		synctest.Wait()
		if now := at(h, "inner/w"); old.Alive() || now.State != "running" || now.Handle == old {
			t.Errorf("old alive %v, now %+v", old.Alive(), now)
		}
	})
}

func TestBacklogAtStop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const backlog = 100_000
		var dropped atomic.Int64
		w.sys.OnDropped(func(n int64) { dropped.Add(n) })
		work := func(id string, drain bool) (c supervision.Child, free chan struct{}, handled *atomic.Int64) {
			free, handled = make(chan struct{}), &atomic.Int64{}
			c = child(id, script{handle: func(*actors.Context, any) *actors.Reason { <-free; handled.Add(1); return nil }})
			c.Drain = drain
			return c, free, handled
		}
		drains, freeDrains, drained := work("drains", true)
		drops, freeDrops, kept := work("drops", false)
		h := w.supervise(t, three5, drains, drops)
		for range backlog {
			at(h, "drains").Handle.Send("x")
			at(h, "drops").Handle.Send("x")
		}
		synctest.Wait()
		if n := at(h, "drains").MailboxLen; n != backlog-1 {
			t.Errorf("mailbox %d", n)
		}
		h.Stop(stop)
		synctest.Wait() // the supervisor waits for the last of its children
		close(freeDrops)
		synctest.Wait() // and now for the first
		close(freeDrains)
		<-h.Done()
		if drained.Load() != backlog || kept.Load() != 1 || dropped.Load() != backlog-1 {
			t.Errorf("drained %d, kept %d, dropped %d", drained.Load(), kept.Load(), dropped.Load())
		}
	})
}
