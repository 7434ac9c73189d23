package replicareader

import (
	"slices"
	"testing"
	"time"

	"millrace/core/pos"
	"millrace/core/segment"
)

// commit appends chunks to the log that readers see and that are not fsynced; all below synced is.
func (b *bench) commit(chunks int, synced pos.Offset) {
	b.t.Helper()
	for range chunks {
		b.add(perChunk)
	}
	b.log.Publish(&segment.Publish{
		View:     segment.View{First: b.first, Committed: b.next, Synced: synced, Last: b.next, LastChunk: b.next - perChunk},
		Segments: slices.Clone(b.segments),
	})
}

// What is committed and not fsynced is not uploaded: the power may take it yet.
func TestWhatIsNotFsyncedIsNotUploaded(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(2)
		b.until(20)
		b.commit(4, 30)
		b.pass(time.Minute)
		if s := b.status(h).Fragment; b.stored().Next != 20 || s.Next != 30 {
			t.Fatalf("stored up to %s, read up to %s", b.stored().Next, s.Next)
		}
		b.publish()
		b.until(60)
		b.verify()
	})
}

// What is committed and not fsynced contradicts nothing that is stored.
func TestWhatIsNotFsyncedContradictsNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.storeWhatTheLogLoses()
		b.commit(7, 50)
		h := b.start()
		b.pass(time.Minute)
		if s := b.status(h); s.Stream.State != "waiting" || b.stored().Next != 80 {
			t.Fatalf("stored up to %s, status %+v", b.stored().Next, s.Stream)
		}
		b.publish()
		b.until(120)
		b.verify()
	})
}
