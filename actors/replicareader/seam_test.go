package replicareader

import (
	"sync/atomic"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
)

// A row that is not resolved frees nothing, though it is of a later writer: a reader that finds
// its offset trimmed would not find it there either.
func TestARowThatIsPendingFreesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.startWithASeamThatWaits()
		b.table.setDeaf(false)
		b.replica.Send(manifest.Pending{Stream: streamID, Epoch: b.epoch + 1})
		b.pass(time.Minute)
		if row, ok := b.table.Manifest(streamID); !ok || row.State != manifest.StatePending || row.Epoch != b.epoch+1 {
			t.Fatalf("row %+v: the test does not do what it is for", row)
		}
		if b.lastSeam() != 40 {
			t.Errorf("the seam is %s", b.lastSeam())
		}
	})
}

// lookedAt counts how often rows are looked at.
type lookedAt struct {
	port.Manifests
	times atomic.Int64
}

func (l *lookedAt) Manifest(id pos.StreamID) (manifest.Row, bool) {
	l.times.Add(1)
	return l.Manifests.Manifest(id)
}

// A seam that waits for the row takes the place of the one before it: the row is not looked at
// more often for all that have waited.
func TestOneSeamWaitsAtATime(t *testing.T) {
	inBubble(t, func(b *bench) {
		rows := &lookedAt{Manifests: b.table}
		b.startWithASeamThatWaits(func(c *Config) { c.Manifests = rows })
		for next := pos.Offset(100); next <= 200; next += 20 {
			b.grow(2)
			b.pass(10 * time.Second)
			if b.stored().Next != next || b.lastSeam() != 40 {
				t.Fatalf("stored up to %s, the seam is %s: no seam waits", b.stored().Next, b.lastSeam())
			}
		}
		b.pass(time.Minute)
		rows.times.Store(0)
		if b.pass(time.Minute); rows.times.Load() != int64(time.Minute/maxSeamPause) {
			t.Errorf("it is looked at %d times in a minute", rows.times.Load())
		}
	})
}
