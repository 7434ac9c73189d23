package supervision_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/supervision"
)

func factory(t *testing.T, w *world, template supervision.Child) *actors.Handle {
	t.Helper()
	return w.supervise(t, strategy(three5, supervision.SimpleOneForOne), template)
}

func TestStartChild(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		var args []any
		template := child("template", script{})
		template.Restart = supervision.Transient
		template.New = func(arg any) actors.Process {
			args = append(args, arg)
			return &script{init: func(*actors.Context) error {
				if err, failing := arg.(error); failing {
					return err
				}
				return nil
			}}
		}
		sup := factory(t, w, template)
		one, err := supervision.StartChild(ctx, sup, "one", 1)
		if err != nil || one.Path() != "node/one" {
			t.Fatalf("start gave %v, %v", one, err)
		}
		var started *supervision.AlreadyStarted
		if _, err = supervision.StartChild(ctx, sup, "one", 2); !errors.As(err, &started) || started.Handle != one {
			t.Errorf("a second start gave %v", err)
		}
		cause := errors.New("no luck")
		if _, err = supervision.StartChild(ctx, sup, "bad", cause); !errors.Is(err, cause) || !strings.Contains(err.Error(), "node/bad") {
			t.Errorf("a failing start gave %v", err)
		}
		if _, err = supervision.StartChild(ctx, sup, "none", actors.ErrIgnore); !errors.Is(err, actors.ErrIgnore) {
			t.Errorf("an ignored start gave %v", err)
		}
		one.Send("boom")
		synctest.Wait()
		if fmt.Sprint(args) != fmt.Sprint([]any{1, cause, actors.ErrIgnore, 1}) {
			t.Errorf("processes were made of %v", args)
		}
		if n := supervision.Tree(sup); len(n.Children) != 1 || n.Budget.Restarts != 1 || n.Children[0].Restart != "transient" {
			t.Errorf("tree %+v", n)
		}
		if err := supervision.TerminateChild(ctx, sup, "one"); err != nil || len(supervision.Tree(sup).Children) != 0 {
			t.Errorf("terminate gave %v", err)
		}
	})
}

func TestCallsThatAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		sup := w.supervise(t, three5, child("w", script{}))
		simple, err := w.run("simple", supervision.New(strategy(three5, supervision.SimpleOneForOne), []supervision.Child{child("t", script{})}, nil))
		if err != nil {
			t.Fatal(err)
		}
		significant := child("s", script{})
		significant.Significant = true
		anonymous := child("", script{})
		empty := child("e", script{})
		empty.New = nil
		cases := map[string]struct {
			err  error
			want string
		}{
			"start child":          {second2(supervision.StartChild(ctx, sup, "x", nil)), "strategy"},
			"add to simple":        {second2(supervision.AddChild(ctx, simple, child("x", script{}))), "strategy"},
			"restart in simple":    {supervision.RestartChild(ctx, simple, "x"), "strategy"},
			"delete in simple":     {supervision.DeleteChild(ctx, simple, "x"), "strategy"},
			"bad specification":    {second2(supervision.AddChild(ctx, sup, significant)), "bad combination"},
			"no id":                {second2(supervision.AddChild(ctx, sup, anonymous)), "without an id"},
			"a path for an id":     {second2(supervision.AddChild(ctx, sup, child("a/b", script{}))), "holds no slash"},
			"a path in simple":     {second2(supervision.StartChild(ctx, simple, "a/b", nil)), "holds no slash"},
			"no New":               {second2(supervision.AddChild(ctx, sup, empty)), "no New"},
			"not a supervisor":     {second2(supervision.WhichChildren(ctx, idle(t, w))), "no supervisor"},
			"nobody":               {supervision.DeleteChild(ctx, nil, "x"), "no process"},
			"not found":            {supervision.DeleteChild(ctx, sup, "x"), "no such child"},
			"something else asked": {second2(sup.Call(ctx, "what?")), "unknown call"},
		}
		for name, c := range cases {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("%s: %v, want %q in it", name, c.err, c.want)
			}
		}
		if n := supervision.Tree(sup); len(n.Children) != 1 {
			t.Errorf("tree %+v", n)
		}
		sup.Send("not a call")
		synctest.Wait()
		if !sup.Alive() {
			t.Error("a stray message ended the supervisor")
		}
	})
}

// second2 drops the first of two results.
func second2[T any](_ T, err error) error { return err }

// idle returns a process that answers every request with its body.
func idle(t *testing.T, w *world) *actors.Handle {
	t.Helper()
	h, err := w.run("idle", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
		msg.(*actors.Request).Reply("hello")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestFlagsAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		one := []supervision.Child{child("w", script{})}
		cases := map[string]actors.Process{
			"intensity":   supervision.New(supervision.Flags{Intensity: -1}, nil, nil),
			"period":      supervision.New(supervision.Flags{Intensity: 1}, nil, nil),
			"strategy":    supervision.New(supervision.Flags{Strategy: 9}, nil, nil),
			"auto":        supervision.New(supervision.Flags{AutoShutdown: 9}, nil, nil),
			"given twice": supervision.New(three5, append(one, one...), nil),
			"want one":    supervision.New(strategy(three5, supervision.SimpleOneForOne), nil, nil),
			"no New":      supervision.New(three5, []supervision.Child{{ID: "w"}}, nil),
		}
		for want, p := range cases {
			if _, err := w.run("node", p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: start gave %v", want, err)
			}
		}
	})
}

// The tree below a supervisor whose children are still starting can be read.
func TestTreeWhileStarting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		var root *actors.Handle
		slow := child("slow", script{init: func(*actors.Context) error { <-free; return nil }})
		inner := supervision.Child{ID: "inner", Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(any) actors.Process {
				return supervision.New(three5, []supervision.Child{slow, child("after", script{})}, nil)
			}}
		up := make(chan error)
		starter, err := w.run("starter", &script{init: func(c *actors.Context) error {
			c.Task("start", func(ctx context.Context) any {
				_, err := c.System().Start(context.Background(), actors.Spec{
					Path: "node", Spawned: func(h *actors.Handle) { root = h },
					New: func() actors.Process { return supervision.New(three5, []supervision.Child{inner}, nil) },
				})
				up <- err
				return nil
			})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var states []string
		for _, path := range []string{"inner", "inner/slow", "inner/after"} {
			states = append(states, at(root, path).State)
		}
		if fmt.Sprint(states) != "[starting starting undefined]" || supervision.Tree(root).State != "starting" {
			t.Errorf("states %v", states)
		}
		close(free)
		if err := <-up; err != nil {
			t.Error(err)
		}
		n := supervision.Tree(root)
		text, err := json.Marshal(n)
		if err != nil || !strings.Contains(string(text), `"path":"node/inner/slow","kind":"worker","restart":"permanent","significant":false,"shutdown":"1s","state":"running"`) {
			t.Errorf("%v: %s", err, text)
		}
		root.Stop(stop)
		<-root.Done()
		if n := supervision.Tree(root); n.State != "undefined" || n.Children != nil {
			t.Errorf("tree of the dead: %+v", n)
		}
		if n := supervision.Tree(starter); n.Kind != "worker" || n.State != "running" {
			t.Errorf("tree of a worker: %+v", n)
		}
	})
}

// Thousands of streams: a supervisor and a worker each. They hold no goroutine, stop all
// at once, and leave nothing behind.
func TestManyStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 2000
		ctx := context.Background()
		worker := child("worker", script{terminate: func(*actors.Context, actors.Reason) { pass(time.Second) }})
		worker.Restart, worker.Significant, worker.Shutdown = supervision.Transient, true, supervision.After(2*time.Second)
		sup := factory(t, w, supervision.Child{ID: "stream_sup", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(any) actors.Process {
				return supervision.New(auto(three5, supervision.AnySignificant), []supervision.Child{worker}, nil)
			}})
		synctest.Wait()
		base := runtime.NumGoroutine() + 10 // other tests may be on their way out
		for i := range n {
			if _, err := supervision.StartChild(ctx, sup, fmt.Sprint(i), i); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if g := runtime.NumGoroutine(); g > base {
			t.Errorf("%d streams hold %d goroutines", n, g)
		}
		counts, err := supervision.CountChildren(ctx, sup)
		if err != nil || counts != (supervision.Counts{Specs: 1, Active: n, Supervisors: n}) {
			t.Errorf("counts %+v, %v", counts, err)
		}
		began := time.Now()
		sup.Stop(stop)
		<-sup.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("stopped in %v", took)
		}
		synctest.Wait()
		if g := runtime.NumGoroutine(); g > base {
			t.Errorf("%d goroutines are left", g)
		}
	})
}
