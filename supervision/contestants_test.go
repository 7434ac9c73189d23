package supervision_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/thejerf/suture/v4"

	"millrace/actors"
	"millrace/supervision"
)

// ours measures our supervisor. Its events go into a ring, as a node's do.
type ours struct{ b *testing.B }

// top starts a supervisor without a parent in a system of its own.
func (o ours) top(flags supervision.Flags, children ...supervision.Child) (*actors.System, *actors.Handle) {
	var ring supervision.Ring
	sys := actors.NewSystem(1)
	sup, err := sys.Start(context.Background(), actors.Spec{Path: "node", New: func() actors.Process {
		return supervision.New(flags, children, ring.Add)
	}})
	if err != nil {
		o.b.Fatal(err)
	}
	return sys, sup
}

func (o ours) must(err error) {
	if err != nil {
		o.b.Fatal(err)
	}
}

func (o ours) startStop(n int) time.Duration {
	sys, sup := o.top(strategy(three5, supervision.SimpleOneForOne), supervision.Child{
		ID: "w", Restart: supervision.Temporary, Shutdown: supervision.After(5 * time.Second),
		New: func(any) actors.Process { return &script{} },
	})
	defer sys.Close()
	ctx, began := context.Background(), time.Now()
	for range n {
		_, err := supervision.StartChild(ctx, sup, "w", nil)
		o.must(err)
		o.must(supervision.TerminateChild(ctx, sup, "w"))
	}
	return time.Since(began) / time.Duration(n)
}

// crashesEach is how often a child crashes under one supervisor, which allows that.
const crashesEach = 5

// crash: each of n supervisors below one has a permanent child, which tells when it is up
// and panics at any message.
func (o ours) crash(n int) (took time.Duration) {
	up := make(chan *actors.Handle, 1)
	flags := supervision.Flags{Intensity: crashesEach, Period: time.Hour}
	crasher := supervision.Child{ID: "w", Shutdown: supervision.After(5 * time.Second), New: func(any) actors.Process {
		return &script{init: func(c *actors.Context) error { up <- c.Self(); return nil }}
	}}
	var ring supervision.Ring
	sys, sup := o.top(strategy(three5, supervision.SimpleOneForOne), supervision.Child{
		ID: "s", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
		New: func(any) actors.Process { return supervision.New(flags, []supervision.Child{crasher}, ring.Add) },
	})
	defer sys.Close()
	for range n {
		_, err := supervision.StartChild(context.Background(), sup, "s", nil)
		o.must(err)
		w, began := <-up, time.Now()
		for range crashesEach {
			w.Send("crash")
			w = <-up
		}
		took += time.Since(began)
		o.must(supervision.TerminateChild(context.Background(), sup, "s"))
	}
	return took / time.Duration(n*crashesEach)
}

// factory has n streams: a supervisor and a worker each.
func (o ours) factory(n int) (*actors.System, *actors.Handle) {
	worker := supervision.Child{ID: "w", Restart: supervision.Transient, Significant: true, Shutdown: supervision.After(5 * time.Second),
		New: func(any) actors.Process { return &script{} }}
	var ring supervision.Ring
	sys, sup := o.top(strategy(three5, supervision.SimpleOneForOne), supervision.Child{
		ID: "s", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
		New: func(any) actors.Process {
			return supervision.New(auto(supervision.Flags{Intensity: 5, Period: 10 * time.Second}, supervision.AnySignificant), []supervision.Child{worker}, ring.Add)
		}})
	for i := range n {
		_, err := supervision.StartChild(context.Background(), sup, strconv.Itoa(i), nil)
		o.must(err)
	}
	return sys, sup
}

func (o ours) streams(n int) streamFigures {
	idle, before := runtime.NumGoroutine(), memory()
	began := time.Now()
	sys, sup := o.factory(n)
	f := streamFigures{start: time.Since(began)}
	f.bytes, f.goroutines = (memory()-before)/int64(n), runtime.NumGoroutine()-idle
	began = time.Now()
	if got := len(supervision.Tree(sup).Children); got != n {
		o.b.Fatalf("%d streams in the tree", got)
	}
	f.tree = time.Since(began)
	began = time.Now()
	sup.Stop(stop)
	<-sup.Done()
	f.stop = time.Since(began)
	sys.Close()
	return f
}

// watched measures crash beside idle streams, and again while their tree is read ten times
// a second.
func (o ours) watched(n int) (plain, watched time.Duration) {
	sys, sup := o.factory(streams)
	defer sys.Close()
	plain = o.crash(n)
	stopped, reading := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			supervision.Tree(sup)
			select {
			case <-reading:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	watched = o.crash(n)
	close(reading)
	<-stopped
	return plain, watched
}

// memory is what the heap and the stacks hold.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// sutures measures suture's supervisor. Where it does not wait by itself, as for a start,
// the service tells.
type sutures struct{ b *testing.B }

// service serves until its context ends, or is told to crash.
type service struct {
	up    chan<- struct{}
	crash chan struct{}
}

func (s *service) String() string { return "service" }

func (s *service) Serve(ctx context.Context) error {
	s.up <- struct{}{}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.crash:
		panic("boom")
	}
}

func (s sutures) top() (*suture.Supervisor, func()) {
	sup := suture.New("top", sutureSpec)
	ctx, cancel := context.WithCancel(context.Background())
	done := sup.ServeBackground(ctx)
	return sup, func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.b.Errorf("the supervisor ended with %v", err)
		}
	}
}

var sutureSpec = suture.Spec{EventHook: func(suture.Event) {}, FailureThreshold: 1e9, Timeout: 5 * time.Second}

func (s sutures) startStop(n int) time.Duration {
	sup, end := s.top()
	defer end()
	up := make(chan struct{}, 1)
	began := time.Now()
	for range n {
		token := sup.Add(&service{up: up})
		<-up
		if err := sup.RemoveAndWait(token, time.Minute); err != nil {
			s.b.Fatal(err)
		}
	}
	return time.Since(began) / time.Duration(n)
}

func (s sutures) crash(n int) (took time.Duration) {
	top, end := s.top()
	defer end()
	up, crash := make(chan struct{}, 1), make(chan struct{})
	for range n {
		sup := suture.New("stream", sutureSpec)
		sup.Add(&service{up: up, crash: crash})
		token := top.Add(sup)
		<-up
		began := time.Now()
		for range crashesEach {
			crash <- struct{}{}
			<-up
		}
		took += time.Since(began)
		if err := top.RemoveAndWait(token, time.Minute); err != nil {
			s.b.Fatal(err)
		}
	}
	return took / time.Duration(n*crashesEach)
}

func (s sutures) streams(n int) streamFigures {
	idle, before := runtime.NumGoroutine(), memory()
	up := make(chan struct{}, n)
	began := time.Now()
	top, end := s.top()
	for range n {
		sup := suture.New("stream", sutureSpec)
		sup.Add(&service{up: up})
		top.Add(sup)
		<-up
	}
	f := streamFigures{start: time.Since(began)}
	f.bytes, f.goroutines = (memory()-before)/int64(n), runtime.NumGoroutine()-idle
	began = time.Now()
	found := 0
	for _, below := range top.Services() {
		found += len(below.(*suture.Supervisor).Services())
	}
	f.tree = time.Since(began)
	if found != n {
		s.b.Fatal(fmt.Errorf("%d services", found))
	}
	began = time.Now()
	end()
	f.stop = time.Since(began)
	return f
}
