package hooks_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"millrace/actors"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
)

// probe is a process that notes what it is sent.
type probe struct {
	init func(c *actors.Context)

	mu  sync.Mutex
	got []string
}

func (p *probe) Init(c *actors.Context) error {
	if p.init != nil {
		p.init(c)
	}
	return nil
}

func (p *probe) Handle(_ *actors.Context, msg any) *actors.Reason {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m := msg.(type) {
	case hooks.WriterUp:
		msg = "up " + m.Log.Stream
	case hooks.WriterDown:
		msg = "down " + m.Log.Stream
	}
	p.got = append(p.got, fmt.Sprintf("%v", msg))
	return nil
}

func (p *probe) Terminate(*actors.Context, actors.Reason) {}

// seen returns what came since the last call.
func (p *probe) seen() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

func start(t *testing.T, sys *actors.System, p *probe) *actors.Handle {
	t.Helper()
	h, err := sys.Start(context.Background(), actors.Spec{Path: "probe", New: func() actors.Process { return p }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func at(first, committed, synced pos.Offset) *segment.Publish {
	return &segment.Publish{View: segment.View{First: first, Committed: committed, Synced: synced, Last: committed}}
}

func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		p, w := &probe{}, &probe{}
		h := start(t, sys, p)
		l := hooks.NewLog(hooks.LogSpec{Stream: "s", Mode: segment.Interval, Writer: start(t, sys, w)})
		l.Publish(at(0, 5, 5))
		l.Notify(h, 4, false, "is so already")
		l.Notify(h, 5, false, "committed 6")
		l.Notify(h, 6, false, "committed 7")
		if got := p.seen(); !slices.Equal(got, []string{"is so already"}) {
			t.Errorf("got %v", got)
		}
		if got := w.seen(); len(got) != 0 || l.WantsSync() {
			t.Errorf("the writer got %v", got)
		}
		l.Publish(at(0, 6, 5))
		if got := p.seen(); !slices.Equal(got, []string{"committed 6"}) {
			t.Errorf("got %v", got)
		}
		l.Notify(h, 5, true, "synced 6")
		if got := w.seen(); len(got) != 1 || !l.WantsSync() {
			t.Errorf("the writer is not asked to sync: %v", got)
		}
		l.Publish(at(0, 6, 6))
		l.Publish(at(0, 6, 6))
		if got := p.seen(); !slices.Equal(got, []string{"synced 6"}) || l.WantsSync() {
			t.Errorf("got %v", got)
		}
		l.End()
		l.Notify(h, 99, true, "ended")
		if got := p.seen(); !slices.Equal(got, []string{"committed 7", "ended"}) || l.Alive() {
			t.Errorf("got %v", got)
		}
	})
}

// TestNotifyMissesNothing registers while another goroutine publishes.
func TestNotifyMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		p := &probe{}
		h := start(t, sys, p)
		l := hooks.NewLog(hooks.LogSpec{Stream: "s"})
		const n = 2000
		go func() {
			for i := range pos.Offset(n) {
				l.Publish(at(0, i+1, i+1))
			}
		}()
		for i := range pos.Offset(n) {
			l.Notify(h, i, i%2 == 0, int(i))
		}
		if got := p.seen(); len(got) != n {
			t.Errorf("%d of %d messages", len(got), n)
		}
	})
}

// TestNotifyMissesTheLast registers at the moment of the one publication there is: no
// later one makes good for a listener that came too late for it.
func TestNotifyMissesTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		p := &probe{}
		h := start(t, sys, p)
		const n = 5_000
		logs, arrived := make([]*hooks.Log, n), atomic.Int64{}
		meet := func(round int) {
			arrived.Add(1)
			for spins := 1; arrived.Load() < 2*int64(round+1); spins++ {
				if spins%20_000 == 0 { // the other one may have no processor
					runtime.Gosched()
				}
			}
		}
		for i := range logs {
			logs[i] = hooks.NewLog(hooks.LogSpec{Stream: "s"})
		}
		go func() {
			for i, l := range logs {
				meet(i)
				l.Publish(at(0, 1, 1))
			}
		}()
		for i, l := range logs {
			meet(i)
			for range i % 64 { // at another moment each time
				arrived.Load()
			}
			l.Notify(h, 0, i%2 == 0, i)
		}
		if got := p.seen(); len(got) != n {
			t.Errorf("%d of %d messages", len(got), n)
		}
	})
}

func TestNotifyForgetsTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		l := hooks.NewLog(hooks.LogSpec{Stream: "s"})
		l.Publish(at(0, 0, 0))
		for range 1000 {
			h := start(t, sys, &probe{})
			l.Notify(h, 0, false, "never")
			h.Kill()
		}
		if n := l.Waiters(); n > 200 {
			t.Errorf("%d waiters on an idle log, all dead", n)
		}
	})
}

func TestHooksTellTheInstalledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		h := hooks.New()
		first, second := &probe{init: h.Install}, &probe{init: h.Install}
		start(t, sys, first)
		a, b := hooks.NewLog(hooks.LogSpec{Stream: "a"}), hooks.NewLog(hooks.LogSpec{Stream: "b"})
		h.Up(b)
		h.Up(a)
		h.RetentionChanged("a", segment.Retention{MaxBytes: 7})
		if got := first.seen(); !slices.Equal(got, []string{"up b", "up a", "{a {7 0s 0 0}}"}) {
			t.Errorf("got %v", got)
		}
		if got := h.Running(); !slices.Equal(got, []*hooks.Log{a, b}) {
			t.Errorf("running %v", got)
		}
		two := start(t, sys, second)
		newer := hooks.NewLog(hooks.LogSpec{Stream: "a"})
		h.Up(newer)
		h.Gone(a)
		if got, ok := h.Lookup("a"); !ok || got != newer {
			t.Error("an older log's end takes a newer one off the list")
		}
		h.Gone(newer)
		h.Deleted("a")
		if got := second.seen(); !slices.Equal(got, []string{"up a", "down a", "down a", "{a}"}) || len(first.seen()) != 0 {
			t.Errorf("got %v", got)
		}
		two.Kill()
		h.Gone(b) // nobody is installed any more
		if _, ok := h.Lookup("b"); ok {
			t.Error("b is still there")
		}
	})
}

// A process that ends, however it does, is installed no more, and does not take out the one
// that was installed after it.
func TestHooksAreClearedByAnEnd(t *testing.T) {
	for _, end := range []func(*actors.Handle){(*actors.Handle).Kill, func(h *actors.Handle) { h.Stop(actors.Reason{Kind: actors.Shutdown}) }} {
		synctest.Test(t, func(t *testing.T) {
			sys := actors.NewSystem(1)
			defer sys.Close()
			h := hooks.New()
			first := start(t, sys, &probe{init: h.Install})
			second := start(t, sys, &probe{init: h.Install})
			end(first)
			<-first.Done()
			if h.Installed() != second {
				t.Error("the end of the first took the second out")
			}
			end(second)
			<-second.Done()
			if h.Installed() != nil {
				t.Error("a process that has ended is still installed")
			}
		})
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hooks.New()
		l := hooks.NewLog(hooks.LogSpec{Stream: "a"})
		got := make(chan *hooks.Log)
		go func() {
			l, err := h.Await(context.Background(), "a")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		synctest.Wait()
		h.Up(hooks.NewLog(hooks.LogSpec{Stream: "b"}))
		synctest.Wait()
		h.Up(l)
		if <-got != l {
			t.Error("another log")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := h.Await(ctx, "c"); err == nil {
			t.Error("no error although ctx has ended")
		}
	})
}
