package governor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/registry"
)

// requester stands in for a replica reader: it notes what it is granted and when.
type requester struct {
	bench *bench
	name  pos.StreamID
	self  *actors.Handle
}

func (r *requester) Init(c *actors.Context) error {
	r.bench.reg.Register(c, registry.Name{Kind: "replica_reader", ID: string(r.name), Node: "n"})
	return nil
}

func (r *requester) Handle(_ *actors.Context, msg any) *actors.Reason {
	if g, ok := msg.(pace.Granted); ok {
		r.bench.note("%s %d after %s", r.name, g.Ref, time.Since(r.bench.start))
	}
	return nil
}

func (r *requester) Terminate(*actors.Context, actors.Reason) {}

type bench struct {
	t     *testing.T
	sys   *actors.System
	reg   *registry.Registry
	start time.Time
	gov   *actors.Handle

	mu    sync.Mutex
	lines []string
}

func (b *bench) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// noted returns what was noted since the last call.
func (b *bench) noted() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := fmt.Sprint(b.lines)
	b.lines = nil
	return lines
}

func inBubble(t *testing.T, rate int64, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, sys: actors.NewSystem(7), reg: registry.New(), start: time.Now()}
		defer b.sys.Close()
		b.gov = b.process("governor", New(Config{Node: "n", Registry: b.reg, Metrics: noMetrics{}, MaxBytesPerSecond: rate}))
		f(b)
	})
}

func (b *bench) process(path string, p actors.Process) *actors.Handle {
	b.t.Helper()
	h, err := b.sys.Start(context.Background(), actors.Spec{Path: path, New: func() actors.Process { return p }})
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) requester(name pos.StreamID) *requester {
	r := &requester{bench: b, name: name}
	r.self = b.process(string(name), r)
	return r
}

func (r *requester) owner() pace.Owner {
	return pace.Owner{Stream: r.name, Incarnation: r.self.Incarnation()}
}

func (r *requester) submit(ref pace.Ref, bytes int64) {
	r.bench.gov.Send(pace.Submit{Owner: r.owner(), Ref: ref, Bytes: bytes})
}

func (b *bench) want(want string) {
	b.t.Helper()
	if got := b.noted(); got != want {
		b.t.Fatalf("noted %s, want %s", got, want)
	}
}

func (b *bench) status() pace.Status {
	synctest.Wait()
	return b.gov.Status().(Status).Status
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

type noMetrics struct{}

func (noMetrics) Count(string, int64, ...string)   {}
func (noMetrics) Gauge(string, float64, ...string) {}
func (noMetrics) Forget(...string)                 {}

func TestUnlimitedGrantsAtOnce(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		a := b.requester("a")
		a.submit(1, 1<<40)
		a.submit(2, 1<<40)
		b.want("[a 1 after 0s a 2 after 0s]")
		b.gov.Send(pace.Done{Owner: a.owner(), Ref: 1})
		if s := b.status(); s.InFlight != 1 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestAtARateItGrantsInTurnAndInTime(t *testing.T) {
	inBubble(t, 1000, func(b *bench) {
		a, c := b.requester("a"), b.requester("c")
		a.submit(1, 2_000) // leaves a debt of 1,800
		c.submit(1, 100)
		a.submit(2, 1_000)
		pass(time.Minute)
		b.want("[a 1 after 0s c 1 after 1.9s a 2 after 2.1s]")
	})
}

// Item 33: whoever dies gives back what it was granted, and waits for nothing.
func TestItem33TheDead(t *testing.T) {
	inBubble(t, 1000, func(b *bench) {
		a, c := b.requester("a"), b.requester("c")
		a.submit(1, 200)
		a.submit(2, 5_000)
		c.submit(1, 100)
		b.want("[a 1 after 0s]")
		a.self.Kill()
		if s := b.status(); s.InFlight != 0 || s.Waiting != 1 {
			t.Fatalf("status %+v", s)
		}
		again := b.requester("a")
		a.submit(3, 1) // sent by the dead one
		again.submit(1, 100)
		pass(time.Minute)
		b.want("[c 1 after 100ms a 1 after 200ms]")
		if s := b.status(); s.InFlight != 2 || s.Waiting != 0 {
			t.Fatalf("status %+v", s)
		}
		b.gov.Send(pace.Cancel{Owner: again.owner(), Refs: []pace.Ref{1}})
		if s := b.status(); s.InFlight != 1 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestASecondOneDoesNotStart(t *testing.T) {
	inBubble(t, 0, func(b *bench) {
		_, err := b.sys.Start(context.Background(), actors.Spec{Path: "second", New: func() actors.Process {
			return New(Config{Node: "n", Registry: b.reg, Metrics: noMetrics{}})
		}})
		if err == nil {
			t.Fatal("it started")
		}
	})
}
