package supervision_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/registry"
	"millrace/supervision"
)

// brokenError panics when a typed nil of it is asked for its text.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// stubborn is an error whose text is got in a way of its own.
type stubborn func() string

func (s stubborn) Error() string { return s() }

// ways are the ways in which code fails; block never returns before free closes.
var ways = map[string]func(free <-chan struct{}){
	"panic":      func(<-chan struct{}) { panic("boom") },
	"panic(nil)": func(<-chan struct{}) { panic(nil) },
	"goexit":     func(<-chan struct{}) { runtime.Goexit() },
	"nil deref": func(<-chan struct{}) {
		var k *brokenError
		k.text = "x"
	},
	"block": func(free <-chan struct{}) { <-free },
	// What a panic's value does when it is asked for its text.
	"text panics":  func(<-chan struct{}) { panic(stubborn(func() string { panic("boom") })) },
	"text goexits": func(<-chan struct{}) { panic(stubborn(func() string { runtime.Goexit(); return "" })) },
	"text blocks":  func(free <-chan struct{}) { panic(stubborn(func() string { <-free; return "" })) },
}

// victim is a permanent child whose code fails once, in one place.
type victim struct {
	place  string
	broken func()
	spent  atomic.Bool // it has failed
	starts atomic.Int64
}

func (v *victim) failIn(place string) {
	if v.place == place && !v.spent.Swap(true) {
		v.broken()
	}
}

// child: the first incarnation comes up in any case. Told to end it crashes.
func (v *victim) child() supervision.Child {
	c := child("victim", script{
		init: func(c *actors.Context) error {
			c.OnExit(func() { v.failIn("on exit") })
			c.OnGone(func() { v.failIn("on gone") })
			if v.starts.Load() > 1 {
				v.failIn("init")
			}
			return nil
		},
		handle: func(c *actors.Context, msg any) *actors.Reason {
			v.failIn("handle")
			if v.place == "task" && !v.spent.Swap(true) {
				c.Task("broken", func(context.Context) any { v.broken(); return nil })
				return nil
			}
			panic(msg)
		},
		terminate: func(*actors.Context, actors.Reason) { v.failIn("terminate") },
	})
	make := c.New
	c.New = func(arg any) actors.Process {
		if v.starts.Add(1) > 1 {
			v.failIn("new")
		}
		return make(arg)
	}
	return c
}

// Whatever fails in a child, wherever: its neighbours notice nothing, its supervisor
// answers, it comes back, and the stop of all takes no longer than the times allow.
func TestFaultsStayWhereTheyAre(t *testing.T) {
	for _, place := range []string{"new", "init", "handle", "terminate", "task", "on exit", "on gone"} {
		for way, fails := range ways {
			if way == "block" && (place == "on exit" || place == "on gone") {
				continue // these must not block: see actors.Context
			}
			if way == "block" && (place == "new" || place == "init") {
				continue // the supervisor waits for it until it is told to stop: see TestStopCancelsAnInit
			}
			t.Run(place+", "+way, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					free := make(chan struct{})
					v := &victim{place: place, broken: func() { fails(free) }}
					flags := supervision.Flags{Intensity: 5, Period: time.Hour}
					root := w.supervise(t, flags, child("before", script{}), v.child(), child("after", script{}))
					before, after := at(root, "before").Handle, at(root, "after").Handle
					provoke(t, root, v)
					pass(5 * time.Second) // a stop has its second
					if !v.spent.Load() {
						t.Fatal("nothing failed")
					}
					if n := at(root, "victim"); n.State != "running" || !n.Handle.Alive() || n.Handle.MailboxLen() != 0 {
						t.Errorf("the victim is %+v", n)
					}
					if at(root, "before").Handle != before || at(root, "after").Handle != after || !before.Alive() || !after.Alive() {
						t.Error("a neighbour was touched")
					}
					blocked := 0
					if way == "block" {
						blocked = 1
					}
					checkZombies(t, w, root, blocked)
					began := time.Now()
					root.Stop(stop)
					<-root.Done()
					if took := time.Since(began); took > time.Second || root.Reason().Kind != actors.Shutdown {
						t.Errorf("the stop took %v and ended with %v", took, root.Reason())
					}
					close(free)
					synctest.Wait()
					if n := w.sys.Zombies(); n != 0 {
						t.Errorf("%d zombies are left", n)
					}
				})
			})
		}
	}
}

// provoke makes the victim come to the place where it fails, and back up.
func provoke(t *testing.T, root *actors.Handle, v *victim) {
	t.Helper()
	h := at(root, "victim").Handle
	switch v.place {
	case "terminate":
	case "handle":
		h.Send("end")
		synctest.Wait()
	default:
		h.Send("end")
		pass(5 * time.Second)
		if v.place != "task" || !h.Alive() {
			return
		}
		h.Send("end") // its task blocks: it ends and leaves it behind
		return
	}
	if h.Alive() { // it blocks, or is to be stopped
		if err := supervision.TerminateChild(context.Background(), root, "victim"); err != nil {
			t.Fatal(err)
		}
		if err := supervision.RestartChild(context.Background(), root, "victim"); err != nil {
			t.Fatal(err)
		}
	}
}

// checkZombies: what blocks is counted, shown beside its successor, and reported once.
func checkZombies(t *testing.T, w *world, root *actors.Handle, want int) {
	t.Helper()
	shown, told := 0, 0
	for _, n := range supervision.Tree(root).Children {
		if n.State == "zombie" {
			shown++
		}
	}
	for _, line := range w.take() {
		if line == "zombie victim" {
			told++
		}
	}
	if n := w.sys.Zombies(); n != want || shown != want || told != want {
		t.Errorf("%d zombies, %d shown, %d told of; want %d", n, shown, told, want)
	}
}

// A start that fails takes the whole boot back, in any way it may fail.
func TestFaultsAtTheFirstStart(t *testing.T) {
	for way, fails := range ways {
		for _, place := range []string{"new", "init", "init's error"} {
			if way == "block" {
				continue // as long as that takes
			}
			t.Run(place+", "+way, func(t *testing.T) {
				inBubble(t, func(t *testing.T, w *world) {
					stopped, free := false, make(chan struct{})
					first := child("first", script{terminate: func(*actors.Context, actors.Reason) { stopped = true }})
					bad := child("bad", script{init: func(*actors.Context) error {
						if place == "init's error" {
							return (*brokenError)(nil)
						}
						fails(free)
						return nil
					}})
					if place == "new" {
						bad.New = func(any) actors.Process { fails(free); return nil }
					}
					_, err := w.run("node", supervision.New(three5, []supervision.Child{first, bad}, w.observe))
					var failed *actors.StartError
					if !errors.As(err, &failed) || !stopped {
						t.Errorf("start gave %v; the first stopped: %v", err, stopped)
					}
					wantEvents(t, w, "started first", "start_error bad")
					close(free)
					if n := w.sys.Zombies(); n != 0 {
						t.Errorf("%d zombies", n)
					}
				})
			})
		}
	}
}

// Another process that takes the name of a stream's worker parks that stream. The next
// one is untouched, and the first comes back when the name is free.
func TestStolenName(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		names := registry.New()
		name := func(id string) registry.Name { return registry.Name{Kind: "worker", ID: id} }
		sup := factory(t, w, supervision.Child{ID: "s", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(arg any) actors.Process {
				work := child("w", script{init: func(c *actors.Context) error {
					if !names.Register(c, name(arg.(string))) {
						return errors.New("the name is taken")
					}
					return nil
				}})
				work.Restart, work.Significant = supervision.Transient, true
				return supervision.New(auto(three5, supervision.AnySignificant), []supervision.Child{work}, w.observe)
			}})
		for _, id := range []string{"robbed", "other"} {
			if _, err := supervision.StartChild(ctx, sup, id, id); err != nil {
				t.Fatal(err)
			}
		}
		w.take()
		other := at(sup, "other/w").Handle
		holder, _ := names.WhereIs(name("robbed"))
		thief, err := w.run("thief", &script{
			init: func(c *actors.Context) error {
				holder.Kill()
				if !names.Register(c, name("robbed")) {
					return errors.New("too late")
				}
				return nil
			},
			handle: func(*actors.Context, any) *actors.Reason { return actors.Exit(actors.Normal, "") },
		})
		if err != nil { // the restart was quicker, and nothing was stolen
			t.Log(err)
			return
		}
		wantEvents(t, w, "child_terminated w", "start_error w", "start_error w", "start_error w", "max_intensity w",
			"child_terminated robbed", "parked robbed")
		if at(sup, "other/w").Handle != other || !other.Alive() || len(supervision.Tree(sup).Children) != 1 {
			t.Errorf("tree %+v", supervision.Tree(sup))
		}
		thief.Send("go")
		synctest.Wait()
		if _, err := supervision.StartChild(ctx, sup, "robbed", "robbed"); err != nil {
			t.Error(err)
		}
	})
}
