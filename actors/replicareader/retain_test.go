package replicareader

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/core/fragment"
	"millrace/core/segment"
	"millrace/core/upload"
)

// The store follows the bounds of the running log, also when they change, and the
// objects go to the reaper with a grace, after the manifest without them is persisted.
func TestTheStoreFollowsTheLogsRetention(t *testing.T) {
	inBubble(t, func(b *bench) {
		h := b.start()
		b.grow(20)
		b.until(200)
		before := b.verify()
		h.Send(upload.Bounds{MaxBytes: 6 * b.sizeOfChunk()})
		b.pass(time.Minute)
		after := b.verify()
		if after.First != 140 || after.Next != 200 {
			t.Fatalf("the store has [%s, %s)", after.First, after.Next)
		}
		gone := map[string]bool{}
		b.mu.Lock()
		for _, d := range b.deletes {
			for _, k := range d.Keys {
				gone[k] = true
			}
		}
		b.mu.Unlock()
		for _, e := range before.Entries {
			if key := fragment.Key(prefix, streamID, e.First, e.UID); gone[key] != (e.First < 140) {
				t.Fatalf("%s: to be deleted is %v", key, gone[key])
			}
		}
		if row, _ := b.table.Manifest(streamID); row.Manifest.First != 140 {
			t.Fatalf("the row begins at %s", row.Manifest.First)
		}
		// Idle, it expires by its age, and goes on behind.
		h.Send(upload.Bounds{MaxAge: time.Hour})
		b.pass(30 * time.Minute)
		if m := b.stored(); m.First != 140 {
			t.Fatalf("after half of the age the store begins at %s", m.First)
		}
		b.pass(time.Hour)
		if m := b.stored(); m.First != 200 || m.Next != 200 {
			t.Fatalf("after the age the store has [%s, %s)", m.First, m.Next)
		}
		b.grow(2)
		b.until(220)
		if m := b.verify(); m.First != 200 {
			t.Fatalf("the store begins at %s", m.First)
		}
		if why := b.status(h).Trouble(); why != "" {
			t.Fatal(why)
		}
	})
}

// One that starts finds the bounds by itself.
func TestTheStoreBeginsWithTheLogsRetention(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.writer.Send(segment.Status{Retention: segment.Retention{MaxBytes: 6 * b.sizeOfChunk()}})
		synctest.Wait()
		b.start()
		b.grow(20)
		b.until(200)
		b.pass(time.Minute)
		if m := b.verify(); m.First != 140 {
			t.Fatalf("the store has [%s, %s)", m.First, m.Next)
		}
	})
}
