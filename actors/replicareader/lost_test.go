package replicareader

import (
	"context"
	"strings"
	"testing"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/upload"
)

func reset(h *actors.Handle) (upload.ResetAnswer, error) {
	a, err := h.Call(context.Background(), upload.ResetManifest{})
	answer, _ := a.(upload.ResetAnswer)
	return answer, err
}

// The bucket is made anew under a running stream and claimed. Its memory of what lies in the
// store counts for nothing, nor does a root that was put into the new one: nothing is put on
// top of it, the local log keeps all it has, and readers wait. When the operator gives it up,
// all that is on local disk is uploaded again.
func TestABucketThatIsMadeAnewUnderARunningStream(t *testing.T) {
	for left, kept := range []string{"/none/", "/metadata/"} {
		inBubble(t, func(b *bench) {
			h := b.start()
			b.grow(10)
			b.until(100)
			b.trim(50)
			for _, key := range b.store.Keys() {
				if !strings.Contains(key, kept) {
					b.store.Drop(key)
				}
			}
			if a, err := reset(h); err != nil || a.Refused == "" {
				t.Fatalf("%+v, %v: nobody has noticed the loss", a, err)
			}
			h.Send(upload.StoreReclaimed{})
			b.grow(4)
			b.pass(time.Minute)
			if s := b.status(h); !strings.Contains(s.Trouble(), "is not in the object store") || b.lastSeam() != 0 {
				t.Fatalf("%q, seam %s", s.Trouble(), b.lastSeam())
			}
			if keys := b.store.Keys(); len(keys) != left {
				t.Fatalf("%v are stored", keys)
			}
			if row, _ := b.table.Manifest(streamID); row.State == manifest.StateResolved {
				t.Fatalf("readers are told %+v", row)
			}
			if a, err := reset(h); err != nil || a.Refused != "" || a.From != 0 || a.Next != 50 {
				t.Fatalf("%+v, %v", a, err)
			}
			b.until(140)
			if root := b.verify(); root.First != 50 || len(root.Gaps()) != 0 {
				t.Fatalf("the store begins at %s, with the gaps %v", root.First, root.Gaps())
			}
			if s := b.status(h); s.Trouble() != "" {
				t.Fatal(s.Trouble())
			}
		})
	}
}

// A store that was only not ours for a while: all goes on where it was.
func TestAStoreThatIsClaimedAnewAndHasEverything(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(10)
		b.until(100)
		h.Send(upload.StoreReclaimed{})
		b.grow(4)
		b.until(140)
		if root := b.verify(); root.First != 0 || len(root.Gaps()) != 0 {
			t.Fatalf("the store begins at %s, with the gaps %v", root.First, root.Gaps())
		}
	})
}

// What waits for half a minute is tried when the store answers again.
func TestWhatWaitsForTheStoreIsTriedWhenItIsBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		denied := true
		b.store.Fault = func(op, _ string) error {
			if op == "put" && denied {
				return port.Denied
			}
			return nil
		}
		h := b.start()
		b.grow(2)
		b.pass(10 * time.Minute)
		if s := b.status(h); s.Pipeline.StalledWhy == "" {
			t.Fatalf("%+v", s.Pipeline)
		}
		b.pass(time.Second)
		denied = false
		h.Send(upload.StoreBack{})
		b.pass(3 * time.Second)
		if b.lastSeam() != 20 {
			t.Fatalf("the seam is %s", b.lastSeam())
		}
	})
}

// Only the newest list of objects is lost, and the node was restarted since: the one before it
// stands for it, and nothing that is in a tier is given up.
func TestTheNewestListOfObjectsIsLost(t *testing.T) { losesNewestList(t, nil) }

// The same, and a store that needs the most for each answer that it is given, and then for its bytes.
func TestAStoreThatIsSlowForAllIsGivenTime(t *testing.T) {
	losesNewestList(t, func(op, _ string) time.Duration {
		return map[string]time.Duration{"get": 100 * time.Second, "list": 60500 * time.Millisecond, "getrange": 60500 * time.Millisecond, "put": 60500 * time.Millisecond}[op]
	})
}

func losesNewestList(t *testing.T, latency func(op, what string) time.Duration) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(6)
		b.until(60)
		b.grow(4)
		b.until(100)
		p, err := b.meta.Pointer(b.t.Context(), streamID)
		b.must(err)
		h.Kill()
		<-h.Done()
		b.store.Drop(manifest.RootKey(prefix, streamID, p.Epoch, p.Revision, p.UID))
		for i := range port.MaxList + 1 { // all of these come first in a listing
			b.store.Replace(manifest.RootKey(prefix, streamID, 1, 1, pos.UID(i+1)), []byte("of a former writer, and damaged"))
		}
		b.trim(50)
		b.store.Latency = latency
		h = b.start()
		b.grow(4)
		b.pass(2 * time.Minute)
		if s := b.status(h); !strings.Contains(s.Trouble(), "is not in the object store") {
			t.Fatal(s.Trouble())
		}
		if a, err := reset(h); err != nil || a.Refused != "" || a.From != 0 || a.Next != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		b.until(140)
		if root := b.verify(); root.First != 0 || len(root.Gaps()) != 0 {
			t.Fatalf("the store begins at %s, with the gaps %v", root.First, root.Gaps())
		}
	})
}

// A seam that still waits for the row is not told to the local log once the store is not ours: it
// may free nothing for being in there.
func TestASeamThatWaitsIsTakenBack(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.startWithASeamThatWaits()
		h.Send(upload.StoreDisowned{})
		b.table.setDeaf(false)
		b.replica.Kill()
		<-b.replica.Done()
		b.startReplica()
		b.pass(time.Minute)
		if row, _ := b.table.Manifest(streamID); row.State != manifest.StateResolved || row.Manifest.Next != 80 {
			t.Fatalf("row %+v: the test does not do what it is for", row)
		}
		if b.lastSeam() != 0 {
			t.Errorf("the seam is %s", b.lastSeam())
		}
	})
}

// One that starts in front of a store that is not known to be ours frees nothing, until it is told.
func TestAStoreThatIsNotKnownAtTheStartFreesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.disowned.Store(true)
		h := b.start()
		b.grow(4)
		b.pass(time.Minute)
		if got := b.stored().Next; got != 40 || b.lastSeam() != pos.NoOffset {
			t.Fatalf("stored up to %s, the seam is %s", got, b.lastSeam())
		}
		h.Send(upload.StoreOwned{})
		b.pass(time.Minute)
		if b.lastSeam() != 40 {
			t.Fatalf("the seam is %s", b.lastSeam())
		}
	})
}
