package segment

import (
	"fmt"

	"millrace/core/pos"
)

// foundLog takes over the log that recovery found, or begins an empty one.
func (m *Machine) foundLog(in *Found, out []Effect) []Effect {
	if m.found || m.state != Opening {
		return out
	}
	if n := len(in.Epochs); n > 0 && in.Epochs[n-1].Epoch > in.Epoch {
		m.waitFor(epochTooLow(in.Epochs[n-1].Epoch, in.Epoch), in.Now)
		return out
	}
	m.found, m.state, m.epoch = true, Running, in.Epoch
	m.fromStore, m.damage = in.FromStore, in.Damage
	m.wait.lastSync, m.wait.dirty, m.wait.wantSync = in.Now, false, false
	m.head = head{lastChunk: pos.NoOffset}
	if len(in.Segments) == 0 {
		return m.begin(in, out)
	}
	m.log = tail{
		segments: append([]Segment(nil), in.Segments...), epochs: append([]EpochEnd(nil), in.Epochs...),
		marks: append([]Mark(nil), in.Chunks...),
	}
	a := m.active()
	m.log.last, m.log.synced, m.log.syncedBytes, m.log.syncedChunks = a.Next, a.Next, a.Bytes, a.Chunks
	m.head.committed, m.head.lastChunk = in.Committed, in.LastChunk
	m.born, m.wait.attempts = m.log.segments[0].First, 0
	m.head.retainDue = true
	return out
}

// begin starts an empty log at in.Start, in place of what is to be discarded.
func (m *Machine) begin(in *Found, out []Effect) []Effect {
	m.undo = undoBirth
	m.log = tail{
		segments: []Segment{{First: in.Start, Next: in.Start, Bytes: FileHeaderSize}},
		last:     in.Start, synced: in.Start, syncedBytes: FileHeaderSize,
	}
	m.head.committed, m.born = in.Start, in.Start
	m.fx.roll = Roll{Old: pos.NoOffset, New: in.Start}
	return append(m.fx.remove(in.Discard, out), &m.fx.roll)
}

func epochTooLow(log, own pos.Epoch) string {
	return fmt.Sprintf("the log's last chunk has epoch %s, above this writer's epoch %s: raise the stream's epoch in the metadata store to at least %s",
		log, own, log)
}

// Known is what the start of a log has learned, before anything is changed.
type Known struct {
	Pair   bool       // the folder holds a segment file
	Chunks bool       // and a whole chunk in one
	First  pos.Offset // of the last segment, if Pair
	Next   pos.Offset // after the last whole chunk, if Chunks
	Epoch  pos.Epoch  // of the last whole chunk, if Chunks
	Damage string     // where whole chunks follow a broken one; "" = nowhere
	Crash  bool       // the kernel was restarted since the log was written: unsynced pages may be missing
	Own    pos.Epoch  // this writer's
	Kept   pos.Offset // committed when it was last noted in the node's state; NoOffset = not known
	Seam   pos.Offset // the manifest pointer's next; 0 if there is none
}

// Verdict says how a log starts.
type Verdict struct {
	Refuse    string     // not empty: it doesn't, and nothing is changed
	Keep      bool       // with what the folder holds
	Start     pos.Offset // else empty, at this offset
	FromStore bool       // its readers may have seen more than the log now holds
}

// Resolve decides how a log starts. An offset that was once committed is never given
// to another record: an empty log starts at the highest offset known to have been
// committed, and a log that ends below the seam is replaced by an empty one there,
// since the store holds what it lacks.
func Resolve(k Known) Verdict {
	floor := max(k.Seam, k.Kept, 0)
	switch {
	case k.Damage != "" && !k.Crash:
		return Verdict{Refuse: k.Damage + ": the disk has damaged what was written; restore the file, or cut it there to accept the loss"}
	case k.Chunks && k.Epoch > k.Own:
		return Verdict{Refuse: epochTooLow(k.Epoch, k.Own)}
	case k.Chunks && k.Next < k.Seam:
		return Verdict{Start: floor, FromStore: true}
	case k.Chunks && k.Next < k.Kept:
		return Verdict{Refuse: fmt.Sprintf("the log ends at %s but was committed up to %s: restore its folder, or move it away to go on at %s without what it held",
			k.Next, k.Kept, floor)}
	case k.Chunks:
		return Verdict{Keep: true}
	}
	if k.Pair {
		floor = max(floor, k.First)
	}
	same := k.Pair && k.First == floor
	return Verdict{Keep: same, Start: floor, FromStore: floor > 0 && (!same || k.Kept != floor)}
}
