package supervision_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/supervision"
)

// steps records what children did, and stops their supervisor at one of these steps.
type steps struct {
	mu    sync.Mutex
	lines []string
	at    string // the step to stop at: once it is noted, stop is called
	stop  func()
}

func (s *steps) note(line string) {
	s.mu.Lock()
	s.lines = append(s.lines, line)
	hit := s.at == line
	s.mu.Unlock()
	if hit {
		s.stop()
	}
}

func (s *steps) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// child notes its life. The incarnation n of it counts in its notes from the second on.
func (s *steps) child(id string) supervision.Child {
	var n atomic.Int64
	c := child(id, script{})
	c.Shutdown = supervision.Infinity
	c.New = func(any) actors.Process {
		name := id
		if n := n.Add(1); n > 1 {
			name = fmt.Sprint(id, n)
		}
		return &script{
			init:      func(*actors.Context) error { s.note("init " + name); s.note("up " + name); return nil },
			terminate: func(_ *actors.Context, why actors.Reason) { s.note("terminate " + name + " " + why.Kind.String()) },
		}
	}
	return c
}

func (s *steps) supervisor(w *world, id string, children ...supervision.Child) supervision.Child {
	return supervision.Child{ID: id, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
		New: func(any) actors.Process { return supervision.New(three5, children, s.observer(w)) }}
}

// observer notes what supervisors report, on their own goroutines: so a stop that is asked
// for there comes between two starts.
func (s *steps) observer(w *world) func(supervision.Event) {
	return func(ev supervision.Event) {
		w.observe(ev)
		s.note(ev.Kind.String() + " " + ev.ID)
	}
}

// orderly: nobody is started after the stop, those that came up are stopped, in the
// reverse order of their start, and no report tells of trouble.
func (s *steps) orderly(t *testing.T, w *world) {
	t.Helper()
	var up, down []string
	stopped := false
	for _, line := range s.taken() {
		verb, who, _ := strings.Cut(line, " ")
		who, why, _ := strings.Cut(who, " ")
		switch {
		case verb == "up":
			up = append(up, who)
		case verb == "init" && stopped:
			t.Errorf("%s is started after the stop: %q", who, s.taken())
		case verb == "terminate" && why != "shutdown":
			t.Errorf("%s", line)
		case verb == "terminate":
			down = append(down, who)
		}
		stopped = stopped || line == s.at
	}
	slices.Reverse(down)
	if !slices.Equal(up, down) {
		t.Errorf("stopped at %q: %q came up, and were stopped in the reverse of %q", s.at, up, down)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range w.events {
		if ev.Trouble() {
			t.Errorf("stopped at %q: %v of %s/%s: %s", s.at, ev.Kind, ev.Path, ev.ID, ev.Reason)
		}
	}
}

// A stop at any moment of the boot, also between two starts: what runs by then is stopped
// in reverse, what was not begun is no error, and the supervisor ends for the stop's reason.
func TestStopAmidTheBoot(t *testing.T) {
	boot := func(t *testing.T, at string, way func(*actors.Handle, context.CancelFunc)) (taken []string) {
		inBubble(t, func(t *testing.T, w *world) {
			s := &steps{at: at}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var top *actors.Handle
			s.stop = func() { way(top, cancel); pass(time.Microsecond) } // the inner one has heard of it
			last := s.child("e")
			last.Restart = supervision.Temporary
			h, err := w.sys.Start(ctx, actors.Spec{Path: "node", Spawned: func(h *actors.Handle) { top = h }, New: func() actors.Process {
				return supervision.New(three5, []supervision.Child{
					s.child("a"), s.supervisor(w, "inner", s.child("b"), s.child("c")), s.child("d"), last,
				}, s.observer(w))
			}})
			if at != "" {
				<-top.Done()
				if why := top.Reason(); why.Kind != actors.Shutdown || err == nil {
					t.Errorf("stopped at %q: it ended with %v, and Start gave %v", at, why, err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				h.Stop(stop)
				<-h.Done()
			}
			synctest.Wait()
			s.orderly(t, w)
			taken = s.taken()
		})
		return taken
	}
	for _, at := range boot(t, "", nil) {
		if strings.HasPrefix(at, "terminate") {
			continue
		}
		boot(t, at, func(_ *actors.Handle, cancel context.CancelFunc) { cancel() })
		boot(t, at, func(h *actors.Handle, _ context.CancelFunc) {
			h.Stop(actors.Reason{Kind: actors.Shutdown, Detail: "asked to"})
		})
	}
}

// The same between the restarts of a group: the one that ended by itself is back, the
// others are not.
func TestStopAmidARestart(t *testing.T) {
	for at, want := range map[string]string{
		"child_terminated b": "up a, up b, up c, terminate c shutdown, terminate a shutdown",
		"restarted a":        "up a, up b, up c, terminate c shutdown, terminate a shutdown, up a2, terminate a2 shutdown",
		"restarted b":        "up a, up b, up c, terminate c shutdown, terminate a shutdown, up a2, up b2, terminate b2 shutdown, terminate a2 shutdown",
	} {
		inBubble(t, func(t *testing.T, w *world) {
			s := &steps{at: at}
			var h *actors.Handle
			s.stop = func() { h.Stop(stop) }
			h, err := w.run("node", supervision.New(strategy(three5, supervision.OneForAll), []supervision.Child{s.child("a"), s.child("b"), s.child("c")}, s.observer(w)))
			if err != nil {
				t.Fatal(err)
			}
			supervision.Find(h, "b").Kill()
			<-h.Done()
			var lived []string
			for _, line := range s.taken() {
				if strings.HasPrefix(line, "up") || strings.HasPrefix(line, "terminate") {
					lived = append(lived, line)
				}
			}
			if got := strings.Join(lived, ", "); got != want || h.Reason() != stop {
				t.Errorf("stopped at %q: %s; want %s; ended with %v", at, got, want, h.Reason())
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, ev := range w.events {
				if ev.Trouble() && ev.Kind != supervision.EventChildTerminated {
					t.Errorf("stopped at %q: %v of %s: %s", at, ev.Kind, ev.ID, ev.Reason)
				}
			}
		})
	}
}

// A call that finds the supervisor stopping is answered so, whether its start was begun,
// was about to begin or never came up.
func TestStopAmidCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		slow := child("slow", script{terminate: func(*actors.Context, actors.Reason) { pass(time.Minute) }})
		slow.Shutdown = supervision.Infinity
		waits := child("waits", script{init: func(c *actors.Context) error { <-c.Done().Done(); return c.Done().Err() }})
		for _, busy := range []func(h *actors.Handle) error{
			func(h *actors.Handle) error { return supervision.TerminateChild(ctx, h, "slow") },
			func(h *actors.Handle) error { return second2(supervision.AddChild(ctx, h, waits)) },
		} {
			// Under Drain what was queued before the stop is still taken.
			h, err := w.sys.Start(ctx, actors.Spec{Path: "node", Drain: true, New: func() actors.Process {
				return supervision.New(three5, []supervision.Child{slow, child("idle", script{})}, w.observe)
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := supervision.TerminateChild(ctx, h, "idle"); err != nil {
				t.Fatal(err)
			}
			w.take()
			answers := make(chan error, 3)
			for _, ask := range []func() error{
				func() error { return busy(h) },
				func() error { return second2(supervision.AddChild(ctx, h, child("new", script{}))) },
				func() error { return supervision.RestartChild(ctx, h, "idle") },
			} {
				go func() { answers <- ask() }()
				synctest.Wait()
			}
			h.Stop(stop)
			<-h.Done()
			for range 3 {
				var dead *actors.DeadError
				if err := <-answers; err != nil && (!errors.As(err, &dead) || dead.Reason.Kind != actors.NoProc) {
					t.Errorf("a call was answered %v", err)
				}
			}
			wantEvents(t, w)
			if h.Reason() != stop {
				t.Errorf("it ended with %v", h.Reason())
			}
		}
	})
}

// A child that fails for its own reason while its supervisor is told to stop has failed.
func TestStopHidesNoCrash(t *testing.T) {
	for name, init := range map[string]func(c *actors.Context) error{
		"panics":     func(c *actors.Context) error { <-c.Done().Done(); panic("boom") },
		"is late":    func(*actors.Context) error { pass(time.Hour); return nil },
		"terminates": func(*actors.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				h := w.supervise(t, three5, child("a", script{}))
				asked := false
				add := child("b", script{
					init:      func(c *actors.Context) error { <-c.Done().Done(); return init(c) },
					terminate: func(*actors.Context, actors.Reason) { panic("in its end") },
				})
				go func() {
					_, err := supervision.AddChild(context.Background(), h, add)
					asked = err != nil
				}()
				synctest.Wait()
				h.Stop(stop)
				<-h.Done()
				synctest.Wait()
				if h.Reason() != stop || !asked {
					t.Errorf("it ended with %v, answered %v", h.Reason(), asked)
				}
				want := []string{"started a", "start_error b"}
				if name == "is late" {
					want = []string{"started a", "zombie b", "start_error b"}
				}
				wantEvents(t, w, want...)
				pass(time.Hour)
			})
		})
	}
}

// A stop that comes at any moment while children are added and fail, for real: whoever came
// up and did not fail was stopped in good order, and the supervisor did not fail.
func TestStopAmidAStorm(t *testing.T) {
	const rounds, adders = 150, 3
	inBubble(t, func(t *testing.T, w *world) {
		r := rand.New(rand.NewPCG(1, 2))
		for round := range rounds {
			var ups, ends atomic.Int64
			work := child("w", script{
				init:      func(*actors.Context) error { ups.Add(1); return nil },
				handle:    func(_ *actors.Context, msg any) *actors.Reason { return actors.Exit(actors.Crash, fmt.Sprint(msg)) },
				terminate: func(*actors.Context, actors.Reason) { ends.Add(1) },
			})
			work.Shutdown = supervision.Infinity
			flags := supervision.Flags{Intensity: 1 << 30, Period: time.Hour}
			if round%2 == 0 {
				flags.Strategy = supervision.SimpleOneForOne
			}
			h := w.supervise(t, flags, work)
			ctx := context.Background()
			var all sync.WaitGroup
			for a := range adders {
				all.Go(func() {
					for i := 0; ; i++ {
						id := fmt.Sprint(a, ".", i)
						var err error
						if round%2 == 0 {
							_, err = supervision.StartChild(ctx, h, id, nil)
						} else {
							c := work
							c.ID = id
							_, err = supervision.AddChild(ctx, h, c)
						}
						var dead *actors.DeadError
						if err != nil {
							if !errors.As(err, &dead) {
								t.Errorf("an add was answered %v", err)
							}
							return
						}
						if i%4 == 3 {
							supervision.Find(h, id).Send("boom")
						}
					}
				})
			}
			for enough := int64(5 + r.IntN(50)); ups.Load() < enough; {
			}
			h.Stop(stop)
			<-h.Done()
			all.Wait()
			if h.Reason() != stop || ups.Load() != ends.Load() {
				t.Fatalf("round %d: it ended with %v; %d came up, %d were ended in good order", round, h.Reason(), ups.Load(), ends.Load())
			}
		}
		for _, ev := range w.events {
			if ev.Trouble() && ev.Reason.Detail != "boom" {
				t.Errorf("%v of %s: %s", ev.Kind, ev.ID, ev.Reason)
			}
		}
	})
}
