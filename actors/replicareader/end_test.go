package replicareader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/upload"
)

// Item 28: stopped during a persist.
func TestItem28AStopEndsThePersist(t *testing.T) {
	inBubble(t, func(b *bench) {
		var slow atomic.Bool
		b.meta.Latency = func(op, _ string) time.Duration {
			if slow.Load() && op == "swappointer" {
				return 4 * time.Second
			}
			return 0
		}
		h := b.start()
		b.grow(4)
		b.until(40)
		before, err := b.meta.Pointer(context.Background(), streamID)
		b.must(err)
		slow.Store(true)
		b.grow(10)
		for b.status(h).Pipeline.EditsInPersist == 0 {
			b.pass(10 * time.Millisecond)
		}
		b.pass(time.Second) // in the middle of the swap
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		<-h.Done()
		slow.Store(false)
		b.pass(time.Minute)
		after, err := b.meta.Pointer(context.Background(), streamID)
		b.must(err)
		if after != before {
			t.Fatalf("the pointer moved from %+v to %+v after the stop", before, after)
		}
		if row, ok := b.table.Manifest(streamID); !ok || row.State != manifest.StateResolved {
			t.Fatalf("the row is %+v, want it kept", row)
		}
		again := b.start()
		b.until(140)
		b.verify()
		if s := b.status(again); s.Pipeline.Waiters != 0 || s.Stream.State != "running" {
			t.Fatalf("status %+v", s)
		}
	})
}

// stubborn is a metadata store whose swaps take their time and don't heed their context,
// as an embedded one's.
type stubborn struct {
	port.Metadata
	slow *atomic.Bool
}

func (s stubborn) SwapPointer(_ context.Context, id pos.StreamID, expected pos.Revision, next port.Pointer) error {
	if s.slow.Load() {
		<-time.After(2 * time.Second)
	}
	return s.Metadata.SwapPointer(context.Background(), id, expected, next)
}

// startWithAPersistThatLasts starts a reader whose pointer takes 2 s to be swapped from slow on,
// which it sets, and whose persist is under way.
func (b *bench) startWithAPersistThatLasts(slow *atomic.Bool) *actors.Handle {
	h := b.start(func(c *Config) { c.Metadata = stubborn{b.meta, slow} })
	b.grow(4)
	b.until(40)
	slow.Store(true)
	b.grow(10)
	for b.status(h).Pipeline.EditsInPersist == 0 {
		b.pass(10 * time.Millisecond)
	}
	return h
}

// What was given up in the middle of a persist is waited for as well: nothing of it moves
// the pointer after the end.
func TestItem28TheEndWaitsForAPersistThatIsNotToBeStopped(t *testing.T) {
	for what, end := range map[string]func(h *actors.Handle){
		"stopped":  func(h *actors.Handle) { h.Stop(actors.Reason{Kind: actors.Shutdown}) },
		"given up": func(h *actors.Handle) { h.Send(upload.StreamDeleted{}) },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				h := b.startWithAPersistThatLasts(&atomic.Bool{})
				b.pass(time.Second)
				end(h)
				<-h.Done()
				at, err := b.meta.Pointer(context.Background(), streamID)
				b.must(err)
				b.pass(time.Minute)
				if later, err := b.meta.Pointer(context.Background(), streamID); err != nil || later != at {
					t.Fatalf("the pointer moved from %+v to %+v after the end: %v", at, later, err)
				}
			})
		})
	}
}

func TestACrashMidWayLosesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 700 * time.Millisecond }
		h := b.start()
		for range 12 {
			b.grow(3)
			b.pass(900 * time.Millisecond)
			h.Kill()
			<-h.Done()
			h = b.start()
		}
		b.until(360)
		if root := b.verify(); len(root.Gaps()) != 0 {
			t.Fatalf("gaps %v", root.Gaps())
		}
		b.noneOfTheLiveIsDeleted()
	})
}

// Items 26 and 27: a writer that ends takes the replica reader along, and nothing else.
func TestItem26And27AWriterEndsAHundredTimes(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.grow(20)
		for i := range 100 {
			h := b.start()
			b.pass(time.Duration(i%7) * 300 * time.Millisecond)
			b.writer.Kill()
			<-h.Done()
			if r := h.Reason(); r.Kind != actors.Normal {
				t.Fatalf("ended: %s", r)
			}
			b.startWriter()
		}
		b.start()
		b.until(200)
		b.pass(time.Minute)
		b.verify()
		if b.files.opened() != 0 {
			t.Fatalf("%d files are open", b.files.opened())
		}
	})
}

// Item 6: the stream grows faster than it can be uploaded, and local retention takes it
// away all the time. What the store has stays readable throughout, and more comes to it.
func TestItem06ASteadyOverloadKeepsTheHistory(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 550 * time.Millisecond }
		b.start()
		b.grow(10)
		b.until(100)
		last, rises := b.stored().Next, 0
		for range 200 {
			b.grow(10)
			b.pass(500 * time.Millisecond)
			if n := len(b.segments); n > 4 {
				b.trim(b.segments[n-4])
			}
			root := b.stored()
			if root.First != 0 || root.Next < last || len(root.Entries) < 5 {
				t.Fatalf("the store has [%s, %s) in %d fragments after %s", root.First, root.Next, len(root.Entries), last)
			}
			if root.Next > last {
				last, rises = root.Next, rises+1
			}
		}
		if root := b.verify(); rises < 10 || len(root.Gaps()) == 0 {
			t.Fatalf("the seam rose %d times, with %d gaps", rises, len(root.Gaps()))
		}
	})
}

func TestALongOutageMakesAGapAndTheHistoryStays(t *testing.T) {
	inBubble(t, func(b *bench) {
		var down atomic.Bool
		b.store.Fault = func(op, what string) error {
			if down.Load() && op == "put" {
				return port.Unavailable
			}
			return nil
		}
		h := b.start()
		b.grow(10)
		b.until(100)
		down.Store(true)
		b.grow(40)
		b.pass(time.Minute)
		b.trim(350) // whole fragments, a part of one, and what was not read yet
		b.pass(time.Minute)
		down.Store(false)
		b.grow(2)
		b.until(520)
		root := b.verify()
		gaps := root.Gaps()
		if root.First != 0 || len(gaps) != 1 || gaps[0] != (manifest.Gap{From: 100, To: 350}) {
			t.Fatalf("stored [%s, %s) with gaps %v", root.First, root.Next, gaps)
		}
		if s := b.status(h); s.Stream.State != "running" {
			t.Fatalf("status %+v", s)
		}
	})
}

// A persist that was given up, and ends only when another is under way, is not taken for the end
// of that: it is waited for all the same.
func TestItem28TheEndWaitsForTheLaterOfTwoPersists(t *testing.T) {
	inBubble(t, func(b *bench) {
		slow, swaps := &atomic.Bool{}, atomic.Int64{}
		b.meta.Fault = func(op, _ string) error {
			if slow.Load() && op == "swappointer" && swaps.Add(1) == 1 {
				return port.Unavailable // or the second would be refused
			}
			return nil
		}
		h := b.startWithAPersistThatLasts(slow)
		h.Send(upload.StoreReclaimed{})
		for swaps.Load() == 0 {
			b.pass(10 * time.Millisecond)
		}
		if b.status(h).Pipeline.EditsInPersist == 0 {
			t.Fatal("no other is under way: the test does not do what it is for")
		}
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		<-h.Done()
		at, err := b.meta.Pointer(context.Background(), streamID)
		b.must(err)
		b.pass(time.Minute)
		if later, err := b.meta.Pointer(context.Background(), streamID); err != nil || later != at || swaps.Load() != 2 {
			t.Fatalf("the pointer moved from %+v to %+v after the end, with %d swaps: %v", at, later, swaps.Load(), err)
		}
	})
}

// hanging is a store whose puts of fragments end with their contexts, and which tells the causes.
type hanging struct {
	port.ObjectStore
	causes chan error
}

func (h hanging) Put(ctx context.Context, _ string, _ port.Body, _ int64, _ bool) error {
	<-ctx.Done()
	h.causes <- context.Cause(ctx)
	return context.Cause(ctx)
}

// An upload that is given up since its time was over says so: the store is doubted for that, and
// not for one that the node has no more use for.
func TestAnUploadsEndHasACause(t *testing.T) {
	inBubble(t, func(b *bench) {
		store := hanging{b.store, make(chan error, 8)}
		h := b.start(func(cfg *Config) { cfg.Uploads = store })
		b.grow(2)
		began := time.Now()
		if cause := <-store.causes; !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("after %s the cause is %v", time.Since(began), cause)
		}
		b.pass(10 * time.Second)        // it is tried again
		h.Send(upload.StoreReclaimed{}) // all begins anew
		if cause := <-store.causes; !errors.Is(cause, context.Canceled) {
			t.Errorf("given up for another reason, the cause is %v", cause)
		}
	})
}

// failing is a store that takes nothing before the third try, and keeps which try each was.
type failing struct {
	port.ObjectStore
	mu    *sync.Mutex
	tries map[bool][]int // whether of a root
}

func (f failing) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	f.mu.Lock()
	root := strings.Contains(key, "/root.")
	f.tries[root] = append(f.tries[root], port.Tries(ctx))
	n := len(f.tries[root])
	f.mu.Unlock()
	if n < 3 {
		return port.Unavailable
	}
	return f.ObjectStore.Put(ctx, key, body, size, ifAbsent)
}

// A store is told how often a fragment, or a list, has failed: it may need longer than others.
func TestAStoreIsToldWhatHasFailed(t *testing.T) {
	inBubble(t, func(b *bench) {
		store := failing{b.store, new(sync.Mutex), map[bool][]int{}}
		b.start(func(cfg *Config) { cfg.Store = store })
		b.grow(2)
		b.until(20)
		for root, tries := range store.tries {
			if !slices.Equal(tries, []int{0, 1, 2}) {
				t.Errorf("of a list %v: tries %v", root, tries)
			}
		}
		if len(store.tries) != 2 {
			t.Errorf("put: %v", store.tries)
		}
	})
}

// unread is a store that reads nothing before the third try, and keeps which try each was.
type unread struct {
	port.ObjectStore
	mu    *sync.Mutex
	tries map[string][]int
}

func (u unread) try(ctx context.Context, what string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tries[what] = append(u.tries[what], port.Tries(ctx))
	if len(u.tries[what]) < 3 {
		return port.Unavailable
	}
	return nil
}

func (u unread) Get(ctx context.Context, key string) ([]byte, error) {
	if err := u.try(ctx, "get"); err != nil {
		return nil, err
	}
	return u.ObjectStore.Get(ctx, key)
}

func (u unread) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if err := u.try(ctx, "range"); err != nil {
		return nil, err
	}
	return u.ObjectStore.GetRange(ctx, key, off, n)
}

func (u unread) List(ctx context.Context, prefix, after string, limit int) ([]port.ObjectInfo, bool, error) {
	if err := u.try(ctx, "list"); err != nil {
		return nil, false, err
	}
	return u.ObjectStore.List(ctx, prefix, after, limit)
}

// So is it told of a list of objects, of the objects that it names, and of the lists there are.
func TestAStoreIsToldWhatCouldNotBeRead(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(6)
		b.until(60)
		h.Kill()
		<-h.Done()
		store := unread{b.store, new(sync.Mutex), map[string][]int{}}
		h = b.start(func(cfg *Config) { cfg.Store = store })
		b.grow(4)
		b.until(100)
		h.Kill()
		<-h.Done()
		p, err := b.meta.Pointer(b.t.Context(), streamID)
		b.must(err)
		b.store.Drop(manifest.RootKey(prefix, streamID, p.Epoch, p.Revision, p.UID))
		h = b.start(func(cfg *Config) { cfg.Store = store })
		b.pass(time.Minute)
		for try := range 3 {
			if a, err := reset(h); err != nil || (a.Refused == "") != (try == 2) {
				t.Errorf("%+v, %v", a, err)
			}
			b.pass(time.Minute)
		}
		for _, what := range []string{"get", "range", "list"} {
			if tries := store.tries[what]; len(tries) < 3 || !slices.Equal(tries[:3], []int{0, 1, 2}) {
				t.Errorf("%s: tries %v", what, tries)
			}
		}
	})
}
