package storemonitor

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/probe"
	"millrace/registry"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakestore"
)

const ours, theirs pos.UID = 0xaa, 0xbb

type bench struct {
	t       *testing.T
	sys     *actors.System
	store   *fakestore.Store
	meta    *fakemeta.Meta
	gate    *Gate
	fault   atomic.Pointer[port.Class] // of every operation
	asked   atomic.Int64               // operations
	open    atomic.Int64               // those of the monitor
	tries   atomic.Int64               // that the last put of the marker was said to have behind it
	log     bytes.Buffer
	visible atomic.Int64                  // the gauge
	hold    atomic.Pointer[chan struct{}] // what the monitor waits for when it sets the gauge
	h       *actors.Handle
	names   *registry.Registry
}

func (b *bench) Count(string, int64, ...string) {}
func (b *bench) Forget(...string)               {}

func (b *bench) Gauge(_ string, value float64, _ ...string) {
	b.visible.Store(int64(value))
	if hold := b.hold.Load(); hold != nil {
		<-*hold
	}
}

func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, sys: actors.NewSystem(7), store: fakestore.New(), meta: fakemeta.New(), gate: NewGate(), names: registry.New()}
		b.store.Fault = func(op, _ string) error {
			b.asked.Add(1)
			class := b.fault.Load()
			switch {
			case class == nil:
				return nil
			case *class == port.NotFound && op == "get":
				return port.Denied // a missing bucket, of which no key is missing
			}
			return *class
		}
		defer b.sys.Close()
		f(b)
	})
}

func (b *bench) fails(class port.Class) { b.fault.Store(&class) }

func (b *bench) claimant(cluster pos.UID, meta *fakemeta.Meta) port.Claimant {
	return port.Claimant{Store: counted{b.store, &b.open, &b.tries}, Prefix: "p", Cluster: cluster, Settings: meta}
}

// counted counts what is open of the monitor's questions.
type counted struct {
	port.ObjectStore
	open, tries *atomic.Int64
}

func (c counted) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	c.tries.Store(int64(port.Tries(ctx)))
	return c.ObjectStore.Put(ctx, key, body, size, ifAbsent)
}

func (c counted) Get(ctx context.Context, key string) ([]byte, error) {
	defer c.open.Add(-1)
	c.open.Add(1)
	return c.ObjectStore.Get(ctx, key)
}

func (c counted) Probe(ctx context.Context) error {
	defer c.open.Add(-1)
	c.open.Add(1)
	return c.ObjectStore.Probe(ctx)
}

func (b *bench) start() {
	b.t.Helper()
	var err error
	b.h, err = b.sys.Start(context.Background(), actors.Spec{Path: "store_monitor", New: func() actors.Process {
		return New(Config{Claimant: b.claimant(ours, b.meta), Gate: b.gate, Registry: b.names, Metrics: b, Log: zerolog.New(&b.log)})
	}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// shows demands what the operator sees, and what a put and a deletion come to; a read passes
// the gate always.
func (b *bench) shows(accessible string, gauge int64, class port.Class) {
	b.t.Helper()
	synctest.Wait()
	if s := b.h.Status().(probe.Status); !strings.HasPrefix(s.String(), accessible) || b.visible.Load() != gauge {
		b.t.Errorf("shown is %q with gauge %d, want %q, %d", s, b.visible.Load(), accessible, gauge)
	}
	b.passes(class)
}

func (b *bench) passes(class port.Class) {
	b.t.Helper()
	inner := fakestore.New()
	inner.Replace("d", []byte("x"))
	guarded := b.gate.Guard(inner)
	body := []byte("x")
	err := guarded.Put(b.t.Context(), "a", port.NewBody(bytes.NewReader(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))), 1, true)
	_, gone := guarded.Delete(b.t.Context(), []string{"d"})
	if port.ClassOf(err) != class || port.ClassOf(gone) != class {
		b.t.Errorf("put: %v, delete: %v: want class %q", err, gone, class)
	}
	want := "d"
	if class == port.Unclassified {
		want = "a"
	}
	if got := strings.Join(inner.Keys(), " "); got != want {
		b.t.Errorf("the store holds %q, want %q", got, want)
	}
	if _, err := guarded.Get(b.t.Context(), want); err != nil {
		b.t.Errorf("a read: %v", err)
	}
	if _, _, err := guarded.List(b.t.Context(), "", "", 10); err != nil {
		b.t.Errorf("a listing: %v", err)
	}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const passes = port.Unclassified

// What is put before the store has said whose it is waits for that, and no longer.
func TestAPutAtTheStartWaitsForTheFirstLook(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(op, _ string) time.Duration {
			if op == "get" { // of the marker
				return 3 * time.Second
			}
			return 0
		}
		b.start()
		began := time.Now()
		if err := b.put(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 3*time.Second || waited >= patience {
			t.Errorf("waited for %s", waited)
		}
	})
}

func TestItClaimsAtOnceAndLooksEveryFiveMinutes(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.passes(port.Unavailable)
		b.start()
		b.shows("yes", 1, passes)
		if keys := b.store.Keys(); len(keys) != 1 || keys[0] != "p/cluster" {
			t.Errorf("the store holds %v", keys)
		}
		pass(10 * time.Second) // something was put: it has looked whose the prefix is
		asked := b.asked.Load()
		pass(5*time.Minute - time.Millisecond)
		if b.asked.Load() != asked {
			t.Error("looked again before its time")
		}
		pass(time.Millisecond)
		if b.asked.Load() != asked+2 { // the marker, and the probe
			t.Errorf("%d operations at the second look", b.asked.Load()-asked)
		}
		if n := strings.Count(b.log.String(), "\n"); n != 1 {
			t.Errorf("%d lines of log:\n%s", n, b.log.String())
		}
	})
}

// Down at the start, then there: nothing passes before the prefix is known to be ours, and
// everything within 5 s of it.
func TestDownAtTheStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.fails(port.Unavailable)
		b.start()
		synctest.Wait()
		pass(time.Hour)
		if s := b.h.Status().(probe.Status).String(); !strings.HasPrefix(s, "unknown since 2000-01-01T00:00:00Z (object store: ") {
			t.Errorf("shown is %q", s)
		}
		b.passes(port.Unavailable)
		if n := b.asked.Load(); n < 700 || n > 1500 {
			t.Errorf("%d operations in an hour", n)
		}
		b.fault.Store(nil)
		pass(5 * time.Second)
		b.shows("yes", 1, passes)
		if n := strings.Count(b.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines of log for 2 transitions:\n%s", n, b.log.String())
		}
	})
}

// What it finds later moves the status and the gauge, and the gate only for another owner and
// for a bucket that is gone, in the place of which there may be another.
func TestTransitions(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		b.fails(port.Denied)
		pass(5 * time.Minute)
		b.shows("no (access denied): object store: probe: denied", 0, passes)
		b.fails(port.Timeout)
		pass(5 * time.Minute)
		if s := b.h.Status().(probe.Status); s.State != probe.StateNo || b.visible.Load() != 0 || !strings.Contains(s.String(), "before that") {
			t.Errorf("a timeout made it %q", s)
		}
		b.passes(passes)
		b.fails(port.NotFound)
		pass(5 * time.Second)
		b.shows("no (bucket does not exist)", 0, port.Denied)
		b.fault.Store(nil)
		pass(5 * time.Minute)
		b.shows("yes", 1, passes)
		if n := strings.Count(b.log.String(), "\n"); n != 6 { // ours again, and then accessible
			t.Errorf("%d lines of log for 6 transitions:\n%s", n, b.log.String())
		}
	})
}

// claimFor makes another cluster the owner.
func (b *bench) claimFor(cluster pos.UID) {
	b.t.Helper()
	b.store.Drop("p/cluster")
	if err := b.claimant(cluster, fakemeta.New()).Claim(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func TestAnotherOwner(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		b.claimFor(theirs)
		pass(5 * time.Minute)
		b.shows("no (owned by cluster 00000000000000bb): object store: p/cluster names cluster", 0, port.Denied)
		err := b.gate.pass(b.t.Context(), "put", "a")
		if _, ok := errors.AsType[*port.ForeignPrefixError](err); !ok || !strings.Contains(err.Error(), "set another store.prefix") {
			t.Errorf("refused with %v", err)
		}
		b.claimFor(ours)
		pass(5 * time.Minute)
		b.shows("yes", 1, passes)
	})
}

// The bucket is emptied, or its marker damaged, while it is ours: nothing passes until the
// marker is back, nobody puts it but the operator, and a start finds no way around that.
func TestTheMarkerGoes(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		whole, _ := b.store.Object("p/cluster")
		b.store.Drop("p/cluster")
		pass(5 * time.Minute)
		b.shows("no (the cluster's marker is missing): object store: the cluster's marker p/cluster is gone", 0, port.Denied)
		b.h.Kill()
		<-b.h.Done()
		b.gate = NewGate()
		b.start()
		pass(time.Hour)
		b.shows("no (the cluster's marker is missing)", 0, port.Denied)
		if len(b.store.Keys()) != 0 {
			t.Errorf("the store holds %v", b.store.Keys())
		}
		b.store.Replace("p/cluster", whole)
		pass(5 * time.Second)
		b.shows("yes", 1, passes)
		b.store.Replace("p/cluster", whole[1:])
		pass(5 * time.Minute)
		b.shows("no (the cluster's marker is damaged)", 0, port.Denied)
	})
}

// restore asks the monitor what an operator does.
func (b *bench) restore() (bool, error) {
	answer, err := b.h.Call(b.t.Context(), Restore{})
	done, _ := answer.(Restored)
	return done.Put, err
}

// What the operator says holds at once, for a marker that is gone or damaged; another
// cluster's stays, and so does ours.
func TestTheOperatorRestoresTheMarker(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		if put, err := b.restore(); put || err != nil {
			t.Errorf("put %v, %v: the marker is there", put, err)
		}
		for _, spoil := range []func(){func() { b.store.Drop("p/cluster") }, func() { b.store.Replace("p/cluster", nil) }} {
			spoil()
			pass(5 * time.Minute)
			b.passes(port.Denied)
			if put, err := b.restore(); !put || err != nil {
				t.Errorf("put %v, %v", put, err)
			}
			b.shows("yes", 1, passes)
		}
		b.claimFor(theirs)
		_, err := b.restore()
		if _, foreign := errors.AsType[*port.ForeignPrefixError](err); !foreign {
			t.Errorf("another cluster's prefix: %v", err)
		}
		b.shows("no (owned by cluster 00000000000000bb)", 0, port.Denied) // it has looked, too
		if _, err := b.h.Call(b.t.Context(), "what?"); err == nil {
			t.Error("it answers anything")
		}
	})
}

// Who asks for a look is told what is found now, not what was known.
func TestALookFindsWhatIsThereNow(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		look := func(want bool) {
			t.Helper()
			answer, err := b.h.Call(b.t.Context(), Look{})
			if looked, ok := answer.(Looked); err != nil || !ok || looked.Ours != want {
				t.Errorf("answered %+v, %v, want %v", answer, err, want)
			}
		}
		look(true)
		b.claimFor(theirs)
		if !b.gate.Trusted() {
			t.Fatal("it has looked by itself: the test does not do what it is for")
		}
		look(false)
		b.shows("no (owned by cluster 00000000000000bb)", 0, port.Denied)
		if b.gate.Trusted() {
			t.Error("another cluster's store is trusted")
		}
		b.claimFor(ours)
		look(true)
		b.store.Drop("p/cluster")
		b.restored()
		b.fails(port.Unavailable)
		look(false)
	})
}

// What the metadata store refuses is not said of the object store, and opens no gate.
func TestAClaimThatCannotBeRemembered(t *testing.T) {
	inBubble(t, func(b *bench) {
		var refuses atomic.Bool
		refuses.Store(true)
		b.meta.Fault = func(string, string) error {
			if refuses.Load() {
				return port.Denied
			}
			return nil
		}
		b.start()
		synctest.Wait()
		pass(time.Minute)
		if s := b.h.Status().(probe.Status); s.State != probe.StateUnknown || s.Owned {
			t.Errorf("shown is %+v", s)
		}
		b.passes(port.Unavailable)
		refuses.Store(false)
		pass(5 * time.Second)
		b.shows("yes", 1, passes)
	})
}

// What is known of the owner outlives the monitor: neither its end nor a successor that
// can't ask closes the gate, or opens it.
func TestTheGateOutlivesTheMonitor(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.shows("yes", 1, passes)
		b.h.Kill()
		<-b.h.Done()
		b.passes(passes)
		b.fails(port.Unavailable)
		b.start()
		pass(time.Minute)
		b.passes(passes)
		if s := b.h.Status().(probe.Status); !s.Owned || s.State != probe.StateUnknown {
			t.Errorf("a successor that can't ask shows %+v", s)
		}
		b.fault.Store(nil)
		b.claimFor(theirs)
		pass(5 * time.Minute)
		b.passes(port.Denied)
		b.h.Kill()
		<-b.h.Done()
		b.fails(port.Unavailable)
		b.start()
		pass(time.Minute)
		b.passes(port.Denied)
	})
}

// At a start a put waits for the first verdict, for some seconds; later ones fail at once.
func TestAPutWaitsForTheFirstVerdict(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 3 * time.Second }
		b.start()
		began := time.Now()
		if err := b.gate.pass(b.t.Context(), "put", "a"); err != nil || time.Since(began) < 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
	inBubble(t, func(b *bench) {
		b.fails(port.Unavailable)
		b.start()
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			wait time.Duration
		}{{ctx, time.Second}, {b.t.Context(), 9 * time.Second}, {b.t.Context(), 0}} {
			began := time.Now()
			if err := b.gate.pass(c.ctx, "put", "a"); port.ClassOf(err) != port.Unavailable || time.Since(began) != c.wait {
				t.Errorf("after %v, want %v: %v", time.Since(began), c.wait, err)
			}
		}
	})
}

func TestAStoreThatHangs(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 24 * time.Hour }
		b.start()
		pass(2 * time.Minute)
		if s := b.h.Status().(probe.Status); s.UnsureSince == 0 || s.State != probe.StateUnknown {
			t.Errorf("status %+v", s)
		}
		b.passes(port.Unavailable)
	})
}
