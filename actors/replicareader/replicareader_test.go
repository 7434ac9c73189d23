package replicareader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/upload"
	"millrace/registry"
)

func TestAStreamReachesTheStore(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(4)
		b.until(40)
		b.grow(20)
		b.until(240)
		root := b.verify()
		if root.First != 0 || len(root.Entries) != 12 || len(root.Gaps()) != 0 {
			t.Fatalf("stored %+v", root)
		}
		s := b.status(h)
		if s.Stream.State != "running" || s.Remote.PersistedNext != 240 || s.Pipeline.Anchor != "done" {
			t.Fatalf("status %+v", s)
		}
		row, _ := b.table.Manifest(streamID)
		if row.Seq != root.Revision || row.Manifest.Next != 240 {
			t.Fatalf("row %+v", row)
		}
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		<-h.Done()
	})
}

func TestASlowStreamReachesTheStoreByAge(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.grow(1)
		b.pass(5*time.Minute - time.Second)
		if got := b.stored().Next; got != 0 {
			t.Fatalf("stored up to %s", got)
		}
		b.pass(10 * time.Second)
		if got := b.verify().Next; got != 10 {
			t.Fatalf("stored up to %s", got)
		}
	})
}

func TestAnOutageOfAnHourCostsNothingAndIsMadeGoodFor(t *testing.T) {
	inBubble(t, func(b *bench) {
		var down atomic.Bool
		b.store.Fault = func(op, _ string) error {
			if down.Load() {
				return port.Unavailable
			}
			return nil
		}
		h := b.start()
		b.grow(4)
		b.until(40)
		down.Store(true)
		for range 60 {
			b.grow(1)
			b.pass(time.Minute)
		}
		s := b.status(h)
		if s.Remote.PersistedNext != 40 || s.Pipeline.Submitted+s.Pipeline.Uploading > 8 || s.Pipeline.Cut > 12 {
			t.Fatalf("status %+v", s)
		}
		down.Store(false)
		b.until(640)
		if root := b.verify(); len(root.Gaps()) != 0 {
			t.Fatalf("gaps %v", root.Gaps())
		}
	})
}

func TestAMetadataOutageKeepsUploadsWithinTheirBound(t *testing.T) {
	inBubble(t, func(b *bench) {
		var down atomic.Bool
		b.meta.Fault = func(string, string) error {
			if down.Load() {
				return port.Unavailable
			}
			return nil
		}
		b.start()
		b.grow(4)
		b.until(40)
		down.Store(true)
		b.grow(60)
		b.pass(time.Hour)
		fragments := 0
		for _, k := range b.store.Keys() {
			if strings.HasSuffix(k, ".fragment") {
				fragments++
			}
		}
		if fragments != 2+8 {
			t.Fatalf("%d fragments are in the store, 8 may be ahead of the pointer", fragments)
		}
		down.Store(false)
		b.until(640)
		b.verify()
	})
}

func TestASlowStore(t *testing.T) {
	inBubble(t, func(b *bench) {
		var n atomic.Int64
		b.store.Latency = func(op, what string) time.Duration {
			if op != "put" || !strings.HasSuffix(what, ".fragment") {
				return 0
			}
			// Later ones are faster: they arrive in reverse.
			return time.Duration(100-n.Add(1)%7*14) * time.Second
		}
		b.grow(40)
		b.start()
		b.until(400)
		if root := b.verify(); len(root.Entries) != 20 {
			t.Fatalf("stored %+v", root)
		}
	})
}

func TestATransferThatHangsIsGivenUpAndTriedAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		var n atomic.Int64
		b.store.Latency = func(op, what string) time.Duration {
			if op == "put" && n.Add(1) == 1 {
				return 24 * time.Hour
			}
			return 0
		}
		b.grow(2)
		b.start()
		b.until(20)
		b.verify()
		if b.files.opened() != 0 {
			t.Fatalf("%d files are open", b.files.opened())
		}
	})
}

func TestUnknownOutcomes(t *testing.T) {
	inBubble(t, func(b *bench) {
		var n atomic.Int64
		b.meta.After = func(op, _ string) error {
			if op == "swappointer" && n.Add(1)%2 == 1 {
				return port.UnknownOutcome
			}
			return nil
		}
		anchor := b.store.After
		b.store.After = func(op, what string) error {
			if err := anchor(op, what); err != nil {
				return err
			}
			if op == "put" && n.Add(1)%3 == 0 {
				return port.Timeout
			}
			return nil
		}
		h := b.start()
		for range 20 {
			b.grow(2)
			b.pass(3 * time.Second)
		}
		b.until(400)
		b.verify()
		if s := b.status(h); s.Stream.State != "running" {
			t.Fatalf("status %+v", s)
		}
		b.noneOfTheLiveIsDeleted()
	})
}

// An error that the port has no word for may have come after the pointer was moved: it is
// read, and a swap that took effect is not tried again.
func TestASwapThatFailsWithoutAClassIsReadBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		var swaps atomic.Int64
		b.meta.After = func(op, what string) error {
			if op != "swappointer" {
				return nil
			}
			return &port.MetadataError{Op: op, What: what, Class: port.Unclassified, Err: errors.New("odd")}
		}
		b.meta.Fault = func(op, _ string) error {
			if op == "swappointer" {
				swaps.Add(1)
			}
			return nil
		}
		b.start()
		b.grow(2)
		b.pass(10 * time.Minute)
		if b.verify(); swaps.Load() != 1 || b.lastSeam() != 20 {
			t.Fatalf("%d swaps, the seam is %s", swaps.Load(), b.lastSeam())
		}
	})
}

// noneOfTheLiveIsDeleted looks at what was handed to the reaper.
func (b *bench) noneOfTheLiveIsDeleted() {
	b.t.Helper()
	root := b.verify()
	p, err := b.meta.Pointer(context.Background(), streamID)
	b.must(err)
	live := []string{manifest.RootKey(prefix, streamID, p.Epoch, p.Revision, p.UID)}
	for _, e := range root.Entries {
		live = append(live, fragment.Key(prefix, streamID, e.First, e.UID))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.deletes {
		for _, k := range d.Keys {
			if slices.Contains(live, k) {
				b.t.Errorf("%s is live and was handed to the reaper", k)
			}
		}
	}
}

func TestTheRowIsPutAgainWhenTheManifestReplicaComesBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.grow(4)
		b.until(40)
		b.replica.Kill()
		<-b.replica.Done()
		b.startReplica()
		synctest.Wait()
		row, ok := b.table.Manifest(streamID)
		if !ok || row.State != manifest.StateResolved || row.Manifest.Next != 40 {
			t.Fatalf("row %+v", row)
		}
		h, _ := b.reg.WhereIs(registry.Name{Kind: "replica_reader", ID: string(streamID), Node: "n"})
		b.table.mu.Lock()
		delete(b.table.rows, streamID)
		b.table.mu.Unlock()
		h.Send(manifest.Resync{Stream: streamID})
		synctest.Wait()
		if row, _ := b.table.Manifest(streamID); row.State != manifest.StateResolved {
			t.Fatalf("row %+v after a resync", row)
		}
	})
}

// startWithASeamThatWaits starts a reader whose store holds everything below 80, while the seam
// is 40: it waits for the row, which the deaf table does not take.
func (b *bench) startWithASeamThatWaits(change ...func(*Config)) *actors.Handle {
	b.t.Helper()
	h := b.start(change...)
	b.grow(4)
	b.until(40)
	b.table.setDeaf(true)
	b.grow(4)
	b.pass(time.Minute)
	if got := b.stored().Next; got != 80 || b.lastSeam() != 40 {
		b.t.Fatalf("stored up to %s, the seam is %s: no seam waits", got, b.lastSeam())
	}
	return h
}

func TestTheSeamWaitsForTheRow(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startWithASeamThatWaits()
		b.table.setDeaf(false)
		b.replica.Kill()
		<-b.replica.Done()
		b.startReplica()
		b.until(80)
	})
}

// A writer that is superseded frees nothing any more, whatever a later one has stored: what it
// stored itself may have been given up since.
func TestASupersededWriterFreesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startWithASeamThatWaits()
		p, err := b.meta.Pointer(b.t.Context(), streamID)
		b.must(err)
		theirs := port.Pointer{Revision: p.Revision + 1, Epoch: p.Epoch + 1, UID: 0xbee, Next: 40}
		b.must(b.meta.SwapPointer(b.t.Context(), streamID, p.Revision, theirs))
		b.grow(4)
		b.pass(time.Minute)
		b.table.mu.Lock()
		b.table.rows[streamID] = manifest.Row{State: manifest.StateResolved, Epoch: theirs.Epoch, Seq: theirs.Revision, Manifest: manifest.New(40)}
		b.table.mu.Unlock()
		b.pass(time.Minute)
		if b.lastSeam() != 40 {
			t.Errorf("the seam is %s", b.lastSeam())
		}
	})
}

// Item 34: a governor that crashes takes no transfer along and forgets none.
func TestItem34AGovernorThatCrashes(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 10 * time.Second }
		b.governor.Kill()
		<-b.governor.Done()
		h := b.start()
		b.grow(4)
		b.pass(time.Second)
		if s := b.status(h).Pipeline; s.Submitted != 2 {
			t.Fatalf("status %+v", s)
		}
		b.startGovernor()
		b.pass(time.Second)
		if s := b.status(h).Pipeline; s.Uploading != 2 {
			t.Fatalf("status %+v", s)
		}
		b.governor.Kill()
		<-b.governor.Done()
		b.until(40)
		b.verify()
		b.startGovernor()
		b.grow(2)
		b.until(60)
	})
}

func TestAConflictIsResolvedAnew(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(4)
		b.until(40)
		ctx := context.Background()
		p, err := b.meta.Pointer(ctx, streamID)
		b.must(err)
		root := b.stored()
		theirs := port.Pointer{Revision: p.Revision + 1, Epoch: p.Epoch, UID: 99, Next: p.Next}
		b.store.Replace(manifest.RootKey(prefix, streamID, p.Epoch, theirs.Revision, 99), root.Stamped(p.Epoch, theirs.Revision).Encode())
		b.must(b.meta.SwapPointer(ctx, streamID, p.Revision, theirs))
		b.grow(4)
		b.until(80)
		if root := b.verify(); len(root.Gaps()) != 0 || root.Revision < theirs.Revision+1 {
			t.Fatalf("stored %+v", root)
		}
		if s := b.status(h); s.Stream.State != "running" {
			t.Fatalf("status %+v", s)
		}
	})
}

// storeWhatTheLogLoses has everything below 80 stored, of which the log then loses [50, 80); another
// writer goes on at 50.
func (b *bench) storeWhatTheLogLoses() {
	b.t.Helper()
	h := b.start()
	b.grow(8)
	b.until(80)
	b.writer.Kill()
	<-h.Done()
	b.must(b.disk.Remove(string(streamID), "00000000000000000050.segment"))
	b.segments, b.next = b.segments[:1], 50
	b.startWriter()
}

func TestDivergenceIsSeenAtTheNextStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.storeWhatTheLogLoses()
		b.grow(7)
		b.start()
		b.until(120)
		root := b.verify()
		if len(root.Gaps()) != 0 || root.Next != 120 {
			t.Fatalf("stored %+v", root)
		}
		for _, e := range root.Entries {
			if want := pos.Epoch(2 + min(1, int(e.Next-1)/50)); e.Epoch != want {
				t.Fatalf("[%s, %s) has epoch %s, want %s", e.First, e.Next, e.Epoch, want)
			}
		}
		b.noneOfTheLiveIsDeleted()
	})
}

func TestADeletedStreamEndsItAndDropsTheRow(t *testing.T) {
	for what, tell := range map[string]func(b *bench, h *actors.Handle){
		"told": func(_ *bench, h *actors.Handle) { h.Send(upload.StreamDeleted{}) },
		"found": func(b *bench, _ *actors.Handle) {
			s, err := b.meta.Stream(context.Background(), streamID)
			b.must(err)
			b.must(b.meta.DeleteStream(context.Background(), streamID, s.Revision))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				h := b.start()
				b.grow(4)
				b.until(40)
				tell(b, h)
				b.grow(4)
				<-h.Done()
				if r := h.Reason(); r.Kind != actors.Normal {
					t.Fatalf("ended: %s", r)
				}
				synctest.Wait()
				if row, ok := b.table.Manifest(streamID); ok {
					t.Fatalf("the row is still %+v", row)
				}
			})
		})
	}
}

// Item 35: the log grows between the end of reading and the listening.
func TestItem35GrowthBetweenReadingAndListening(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.grow(1)
		var grown atomic.Bool
		b.files.read = func(string, []byte, int64) (int, bool, error) {
			if !grown.Swap(true) {
				b.grow(1)
			}
			return 0, false, nil
		}
		b.start()
		b.until(20)
		b.verify()
	})
}

// Item 35, where the growth is the least there is: one record behind all that was read.
func TestItem35GrowthByOneRecordIsNoticed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		b.grow(2)
		b.until(20)
		for next := pos.Offset(21); next < 24; next++ {
			b.growBy(1)
			b.pass(6 * time.Minute) // by its age
			if got := b.stored().Next; got != next {
				t.Fatalf("stored up to %s, want %s", got, next)
			}
		}
		b.verify()
	})
}

func TestWhoWaitsForAnOffsetIsAnswered(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		answer := make(chan string, 1)
		go func() {
			a, err := h.Call(context.Background(), upload.AwaitDurable{Next: 40})
			answer <- fmt.Sprint(a, err)
		}()
		b.grow(3)
		b.pass(time.Minute)
		if len(answer) > 0 {
			t.Fatalf("answered %s too early", <-answer)
		}
		b.grow(1)
		if got := <-answer; got != "{40 true false} <nil>" || b.stored().Next != 40 {
			t.Fatalf("answered %s", got)
		}
		a, err := h.Call(context.Background(), upload.AwaitDurable{Next: 41, For: time.Minute})
		if want := (upload.Durable{Next: 40, Late: true}); a != any(want) || err != nil {
			t.Fatalf("after its time: %+v, %v", a, err)
		}
		synctest.Wait() // it answers, and then shows how it stands
		if s := b.status(h).Pipeline; s.Waiters != 0 {
			t.Fatalf("%d wait", s.Waiters)
		}
		if _, err := h.Call(context.Background(), "nonsense"); err == nil {
			t.Fatal("answers nonsense")
		}
	})
}

func TestASecondOneDoesNotStart(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start()
		_, err := b.sys.Start(context.Background(), actors.Spec{Path: "second", New: func() actors.Process {
			return New(Config{Node: "n", Local: b.log, Registry: b.reg, Metrics: noMetrics{}, Manifests: b.table})
		}})
		if err == nil {
			t.Fatal("it started")
		}
	})
}
