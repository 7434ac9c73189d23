package segment

import (
	"fmt"

	"millrace/core/chunk"
	"millrace/core/pos"
)

// save notes how the log's end stands, to be restored when the next effect fails.
func (m *Machine) save(to *tail) {
	*to = m.log
	to.active = *m.active()
	if n := len(m.log.epochs); n > 0 {
		to.epochEnd = m.log.epochs[n-1]
	}
}

// restore puts the log's end back as it was saved in the same step.
func (m *Machine) restore(from *tail) {
	m.log = *from
	*m.active() = from.active
	if n := len(m.log.epochs); n > 0 {
		m.log.epochs[n-1] = from.epochEnd
	}
}

// append places one chunk: Roll if it is due, Write, and under Always a Sync.
func (m *Machine) append(h chunk.Header, size int64, out []Effect) []Effect {
	if m.state != Running || h.Records == 0 {
		return out
	}
	m.compactMarks()
	m.save(&m.keep.roll)
	m.undo = undoTail
	if m.rollDue() {
		out = m.roll(out)
	}
	m.save(&m.keep.write)
	out = m.write(h, size, out)
	if m.cfg.Mode == Always {
		out = m.sync(out)
	}
	return out
}

func (m *Machine) rollDue() bool {
	a := m.active()
	return a.Chunks > 0 && (a.Bytes >= m.cfg.SegmentMaxBytes || a.Chunks >= m.cfg.SegmentMaxChunks || !fitsIndex(a.Bytes))
}

// roll makes a new active segment. It syncs all that was written.
func (m *Machine) roll(out []Effect) []Effect {
	old := m.active().First
	m.log.segments = append(m.log.segments, Segment{First: m.log.last, Next: m.log.last, Bytes: FileHeaderSize})
	m.log.synced, m.log.syncedBytes, m.log.syncedChunks = m.log.last, FileHeaderSize, 0
	m.head.reshaped, m.head.retainDue = true, true
	m.fx.roll = Roll{Old: old, New: m.log.last}
	return append(out, &m.fx.roll)
}

func (m *Machine) write(h chunk.Header, size int64, out []Effect) []Effect {
	a := m.active()
	m.fx.write = Write{
		Segment: a.First, Position: a.Bytes, IndexAt: IndexSize(a.Chunks),
		Index: IndexRecord{ID: h.ID, Timestamp: h.Timestamp, Epoch: h.Epoch, Position: a.Bytes, Type: h.Type},
	}
	m.log.marks = append(m.log.marks, Mark{ID: h.ID, Next: h.Next(), Segment: a.First, Position: a.Bytes, Chunk: a.Chunks})
	if a.Chunks == 0 {
		a.FirstTime = h.Timestamp
	}
	a.Bytes, a.Next, a.LastTime = a.Bytes+size, h.Next(), h.Timestamp
	a.Chunks++
	m.log.last = h.Next()
	m.endEpoch(h.Epoch)
	return append(out, &m.fx.write)
}

func (m *Machine) endEpoch(e pos.Epoch) {
	if n := len(m.log.epochs); n > 0 && m.log.epochs[n-1].Epoch == e {
		m.log.epochs[n-1].End = m.log.last
		return
	}
	m.log.epochs = append(m.log.epochs, EpochEnd{Epoch: e, End: m.log.last})
}

// CheckForeign reports why a chunk of another replica cannot be the log's next.
func (m *Machine) CheckForeign(h chunk.Header) error {
	switch {
	case m.state != Running:
		return fmt.Errorf("the log is %s: %s", m.state, m.wait.why)
	case h.ID != m.log.last:
		return fmt.Errorf("chunk %s is not the log's next, which is %s", h.ID, m.log.last)
	case h.Epoch > m.epoch:
		return fmt.Errorf("chunk %s has epoch %s, which is above the promised %s", h.ID, h.Epoch, m.epoch)
	case len(m.log.epochs) > 0 && h.Epoch < m.log.epochs[len(m.log.epochs)-1].Epoch:
		return fmt.Errorf("chunk %s has epoch %s, which is below the log's last", h.ID, h.Epoch)
	}
	return nil
}

// sync starts a Sync of all that was written, unless one is under way.
func (m *Machine) sync(out []Effect) []Effect {
	if m.log.syncing || m.log.synced == m.log.last && !m.log.cutUnsynced {
		return out
	}
	a := m.active()
	m.log.syncing, m.wait.wantSync = true, false
	m.fx.sync = Sync{Segment: a.First, Done: Synced{
		Segment: a.First, Next: m.log.last, Bytes: a.Bytes, Chunks: a.Chunks, Cuts: m.head.cuts,
	}}
	return append(out, &m.fx.sync)
}

func (m *Machine) syncDone(in *Synced, out []Effect) []Effect {
	if !m.found || m.state == Ended {
		return out
	}
	m.log.syncing, m.wait.lastSync = false, in.Now
	// After a cut the answer is about bytes that are gone; a roll since has synced more.
	if in.Cuts == m.head.cuts {
		m.log.cutUnsynced = false
		if in.Segment == m.active().First && in.Next > m.log.synced {
			m.log.synced, m.log.syncedBytes, m.log.syncedChunks = in.Next, in.Bytes, in.Chunks
		}
	}
	if m.cfg.Mode == Always || m.log.cutUnsynced {
		out = m.sync(out)
	}
	return m.publish(out)
}

// commit moves the committed offset to a chunk's end and applies retention if a
// segment was closed.
func (m *Machine) commit(in *Committed, out []Effect) []Effect {
	if !m.found || m.state == Ended {
		return out
	}
	h := &m.head
	for h.gone < len(m.log.marks) && m.log.marks[h.gone].Next <= in.Next {
		h.committed, h.lastChunk = m.log.marks[h.gone].Next, m.log.marks[h.gone].ID
		h.gone++
		m.wait.attempts = 0
	}
	if h.retainDue {
		return m.trim(in.Now, out)
	}
	return m.publish(out)
}

// compactMarks moves the queue of marks to the front of its array once the committed
// ones are the larger part.
func (m *Machine) compactMarks() {
	if g := m.head.gone; g > 0 && 2*g >= len(m.log.marks) {
		n := copy(m.log.marks, m.log.marks[g:])
		m.log.marks, m.head.gone = m.log.marks[:n], 0
	}
}

// CheckCut reports why the log must not be cut at (epoch, end).
func (m *Machine) CheckCut(epoch pos.Epoch, end pos.Offset) error {
	if !m.found {
		return fmt.Errorf("the log is %s", m.state)
	}
	if end >= m.log.last {
		return nil
	}
	if end < m.head.committed {
		return fmt.Errorf("told to cut at %s, below %s, which is committed", end, m.head.committed)
	}
	if end != m.log.segments[0].First && !m.endsChunk(end) {
		return fmt.Errorf("told to cut at %s, which is within a chunk", end)
	}
	for i, e := range m.log.epochs {
		if end <= e.End && end > m.epochStart(i) && e.Epoch != epoch {
			return fmt.Errorf("told to cut at %s of epoch %s, but the record before has epoch %s", end, epoch, e.Epoch)
		}
	}
	return nil
}

func (m *Machine) epochStart(i int) pos.Offset {
	if i == 0 {
		return m.log.segments[0].First
	}
	return m.log.epochs[i-1].End
}

func (m *Machine) endsChunk(o pos.Offset) bool {
	if o == m.head.committed {
		return true
	}
	for _, c := range m.log.marks[m.head.gone:] {
		if c.Next == o {
			return true
		}
	}
	return false
}

// cut removes the chunks from in.End on: newest files first, so that what is left
// after a crash is a log without a hole.
func (m *Machine) cut(in *Cut, out []Effect) []Effect {
	if err := m.CheckCut(in.Epoch, in.End); err != nil {
		m.state, m.wait.why = Stuck, err.Error()
		return out
	}
	if in.End >= m.log.last {
		return out
	}
	m.undo, m.keep.syncing = undoCut, m.log.syncing
	removed := m.cutMarks(in.End)
	m.log.last = in.End
	m.cutEpochs(in.End)
	m.head.cuts++
	m.head.reshaped = m.head.reshaped || len(removed) > 0
	m.log.cutUnsynced = true
	out = m.truncate(m.fx.remove(removed, out))
	return m.publish(m.sync(out))
}

// cutMarks forgets the chunks from end on and returns the segments that held nothing
// else, newest first. The closed segment that becomes the active one is synced.
func (m *Machine) cutMarks(end pos.Offset) (removed []pos.Offset) {
	i := m.head.gone
	for m.log.marks[i].ID < end {
		i++
	}
	at := m.log.marks[i]
	m.log.marks = m.log.marks[:i]
	for m.active().First != at.Segment {
		removed = append(removed, m.active().First)
		m.log.segments = m.log.segments[:len(m.log.segments)-1]
	}
	a := m.active()
	if len(removed) > 0 {
		m.log.syncedBytes, m.log.syncedChunks = a.Bytes, a.Chunks
	}
	a.Next, a.Bytes, a.Chunks = end, at.Position, at.Chunk
	m.log.synced = min(m.log.synced, end)
	m.log.syncedBytes, m.log.syncedChunks = min(m.log.syncedBytes, a.Bytes), min(m.log.syncedChunks, a.Chunks)
	if a.Chunks == 0 {
		a.FirstTime, a.LastTime = 0, 0
	}
	return removed
}

// truncate cuts the active pair's files to what the machine holds of them.
func (m *Machine) truncate(out []Effect) []Effect {
	a := m.active()
	m.fx.truncate = Truncate{Segment: a.First, Bytes: a.Bytes, Index: IndexSize(a.Chunks)}
	return append(out, &m.fx.truncate)
}

func (m *Machine) cutEpochs(end pos.Offset) {
	e := m.log.epochs
	for len(e) > 0 && (len(e) > 1 && e[len(e)-2].End >= end || len(e) == 1 && end <= m.log.segments[0].First) {
		e = e[:len(e)-1]
	}
	if len(e) > 0 {
		e[len(e)-1].End = min(e[len(e)-1].End, end)
	}
	m.log.epochs = e
}
