package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/hooks"
	"millrace/registry"
	"millrace/supervision"
)

// bench is a factory of stream supervisors as the node builds them, with stand-ins
// for the replica readers.
type bench struct {
	t       *testing.T
	sys     *actors.System
	reg     *registry.Registry
	hooks   *hooks.Hooks
	factory *actors.Handle
	self    *actors.Handle
	epochs  map[pos.StreamID]pos.Epoch
	writers map[pos.StreamID]*actors.Handle

	mu    sync.Mutex
	fail  map[pos.StreamID]func(ctx context.Context) error // instead of starting
	gone  []pos.StreamID
	told  []upload.Bounds // what the replica readers were told, in order
	start int
}

// readerStandIn does of a replica reader what the reconciler sees.
type readerStandIn struct {
	b   *bench
	log *hooks.Log
	// slow is how long it takes to end after its writer.
	slow time.Duration
}

func (r *readerStandIn) Init(c *actors.Context) error {
	c.SetStatus(upload.Status{Stream: upload.StreamStatus{ID: r.log.Stream, Epoch: r.log.Epoch}})
	if !r.b.reg.Register(c, registry.Name{Kind: "replica_reader", ID: string(r.log.Stream), Node: "n"}) {
		return errors.New("a former one has not ended yet")
	}
	c.Monitor(r.log.Writer)
	return nil
}

func (r *readerStandIn) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case actors.Down:
		c.After(r.slow, "end")
	case string:
		return actors.Exit(actors.Normal, "the writer ended")
	case upload.StreamDeleted:
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		r.b.gone = append(r.b.gone, r.log.Stream)
	case upload.Bounds:
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		r.b.told = append(r.b.told, msg)
	case error:
		panic(msg)
	}
	return nil
}

func (r *readerStandIn) Terminate(*actors.Context, actors.Reason) {}

type idle struct{}

func (idle) Init(*actors.Context) error { return nil }
func (idle) Handle(c *actors.Context, msg any) *actors.Reason {
	c.SetStatus(msg)
	return nil
}
func (idle) Terminate(*actors.Context, actors.Reason) {}
func (noMetrics) Count(string, int64, ...string)      {}
func (noMetrics) Gauge(string, float64, ...string)    {}
func (noMetrics) Forget(...string)                    {}
func spec(path string, p actors.Process) actors.Spec {
	return actors.Spec{Path: path, New: func() actors.Process { return p }}
}
func pass(d time.Duration) { <-time.After(d); synctest.Wait() }

type noMetrics struct{}

func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, sys: actors.NewSystem(7), reg: registry.New(), hooks: hooks.New(),
			epochs: map[pos.StreamID]pos.Epoch{}, writers: map[pos.StreamID]*actors.Handle{},
			fail: map[pos.StreamID]func(context.Context) error{},
		}
		defer b.sys.Close()
		template := supervision.Child{
			ID: "stream", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(arg any) actors.Process { return b.streamSup(arg.(*hooks.Log)) },
		}
		b.factory = b.process("factory", supervision.New(supervision.Flags{Strategy: supervision.SimpleOneForOne, Intensity: 3, Period: 5 * time.Second},
			[]supervision.Child{template}, nil))
		f(b)
	})
}

func (b *bench) streamSup(l *hooks.Log) actors.Process {
	return supervision.New(
		supervision.Flags{Strategy: supervision.OneForOne, Intensity: 5, Period: 10 * time.Second, AutoShutdown: supervision.AnySignificant},
		[]supervision.Child{{
			ID: "replica_reader", Restart: supervision.Transient, Significant: true, Shutdown: supervision.After(5 * time.Second),
			New: func(any) actors.Process { return &readerStandIn{b: b, log: l, slow: 3 * time.Second} },
		}}, nil)
}

func (b *bench) process(path string, p actors.Process) *actors.Handle {
	b.t.Helper()
	h, err := b.sys.Start(context.Background(), spec(path, p))
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) startReconciler() {
	b.t.Helper()
	b.self = b.process("reconciler", New(Config{
		Node: "n", Registry: b.reg, Hooks: b.hooks, Start: b.startStream, Metrics: noMetrics{}, Log: zerolog.Nop(),
	}))
	synctest.Wait()
}

func (b *bench) startStream(ctx context.Context, l *hooks.Log) error {
	b.mu.Lock()
	b.start++
	fail := b.fail[l.Stream]
	b.mu.Unlock()
	if fail != nil {
		return fail(ctx)
	}
	_, err := supervision.StartChild(ctx, b.factory, string(l.Stream), l)
	return err
}

func (b *bench) setFail(s pos.StreamID, f func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail[s] = f
}

// up starts a writer of the stream's next epoch.
func (b *bench) up(s pos.StreamID) {
	b.epochs[s]++
	b.writers[s] = b.process(fmt.Sprintf("writer %s", s), idle{})
	l := hooks.NewLog(hooks.LogSpec{Stream: s, Name: string(s), Epoch: b.epochs[s], Writer: b.writers[s]})
	l.Publish(&segment.Publish{})
	b.hooks.Up(l)
	synctest.Wait()
}

func (b *bench) down(s pos.StreamID) {
	l, _ := b.hooks.Lookup(s)
	b.writers[s].Kill()
	b.hooks.Gone(l)
	synctest.Wait()
}

// served returns the epoch of the registered replica reader, 0 if there is none.
func (b *bench) served(s pos.StreamID) pos.Epoch {
	h, ok := b.reg.WhereIs(registry.Name{Kind: "replica_reader", ID: string(s), Node: "n"})
	if !ok {
		return 0
	}
	return h.Status().(upload.Status).Stream.Epoch
}

func (b *bench) want(s pos.StreamID, epoch pos.Epoch) {
	b.t.Helper()
	if got := b.served(s); got != epoch {
		b.t.Fatalf("%s is served in epoch %s, want %s", s, got, epoch)
	}
}

func TestItServesWhatRunsAndWhatComesUp(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.up("a")
		b.up("b")
		b.startReconciler()
		b.want("a", 1)
		b.want("b", 1)
		b.up("c")
		b.want("c", 1)
		pass(10 * time.Minute)
		if b.start != 3 {
			t.Fatalf("%d starts", b.start)
		}
		if s := b.self.Status().(Status); s.Logs != 3 || s.Served != 3 || s.Starting != 0 {
			t.Fatalf("status %+v", s)
		}
	})
}

// Item 41: the writer is back before its former replica reader has ended.
func TestItem41AWriterThatRestartsIsServedAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startReconciler()
		b.up("a")
		for epoch := range pos.Epoch(5) {
			b.want("a", epoch+1)
			b.down("a")
			b.up("a")
			pass(10 * time.Second)
		}
		b.want("a", 6)
	})
}

// mute is an error whose text waits for a lock that the code which panicked still holds.
type mute struct{}

const silence = 10 * time.Minute

func (mute) Error() string {
	<-time.After(silence)
	return ""
}

func TestAStreamThatFailsIsTriedAgainAndHarmsNoOther(t *testing.T) {
	for what, fail := range map[string]func(ctx context.Context) error{
		"error":                func(context.Context) error { return errors.New("planned") },
		"panic":                func(context.Context) error { panic("planned") },
		"panic without a text": func(context.Context) error { panic(mute{}) },
		"hangs":                func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				defer pass(silence)
				b.setFail("b", fail)
				b.up("a")
				b.up("b")
				b.up("c")
				b.startReconciler()
				b.want("a", 1)
				b.want("c", 1)
				pass(5 * time.Minute)
				b.want("b", 0)
				if !b.self.Alive() {
					t.Fatalf("ended: %s", b.self.Reason())
				}
				b.setFail("b", nil)
				pass(2 * time.Minute)
				b.want("b", 1)
			})
		})
	}
}

// Item 40: a stream whose replica reader keeps crashing parks alone, and is picked up
// again within a minute.
func TestItem40AParkedStreamIsPickedUpAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.up("a")
		b.up("b")
		b.startReconciler()
		for b.served("a") != 0 {
			h, _ := b.reg.WhereIs(registry.Name{Kind: "replica_reader", ID: "a", Node: "n"})
			h.Send(errors.New("planned"))
			synctest.Wait()
		}
		b.want("b", 1)
		pass(time.Minute)
		b.want("a", 1)
	})
}

func TestDeletionIsPassedOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.up("a")
		b.startReconciler()
		b.hooks.Deleted("a")
		b.hooks.Deleted("unknown")
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if !slices.Equal(b.gone, []pos.StreamID{"a"}) {
			t.Fatalf("told %v", b.gone)
		}
	})
}

// A change of retention reaches the replica reader at once, and one that happened while
// nobody passed it on at the next look.
func TestRetentionIsPassedOn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.up("a")
		b.startReconciler()
		b.hooks.RetentionChanged("a", segment.Retention{MaxBytes: 7, MaxAge: time.Hour, LocalMaxBytes: 9})
		synctest.Wait()
		b.mu.Lock()
		told := slices.Clone(b.told)
		b.mu.Unlock()
		if want := []upload.Bounds{{MaxBytes: 7, MaxAge: time.Hour}}; !slices.Equal(told, want) {
			t.Fatalf("told %v, want %v", told, want)
		}
		b.writers["a"].Send(segment.Status{Retention: segment.Retention{MaxBytes: 8}})
		pass(61 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if last := b.told[len(b.told)-1]; len(b.told) != 2 || last.MaxBytes != 8 {
			t.Fatalf("told %v", b.told)
		}
	})
}

func TestALogThatIsGoneIsLeftAlone(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startReconciler()
		b.setFail("a", func(context.Context) error { return errors.New("planned") })
		b.up("a")
		b.down("a")
		before := b.start
		pass(10 * time.Minute)
		if b.start != before {
			t.Fatalf("%d starts after the writer ended", b.start-before)
		}
	})
}

func TestAStoppedReconcilerHearsNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startReconciler()
		b.self.Stop(actors.Reason{Kind: actors.Shutdown})
		<-b.self.Done()
		b.up("a")
		b.want("a", 0)
		b.startReconciler()
		b.want("a", 1)
	})
}
