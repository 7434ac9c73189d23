package upload

import (
	"fmt"

	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/segment"
)

// drain is how far the local log was read.
type drain struct {
	retry
	want      pos.Offset // what the next chunk to be assembled begins with
	ahead     []segment.ChunkRef
	end       bool // there was nothing behind ahead when it was read
	reading   bool // a Read is under way
	listening bool // a Listen is under way
}

// room reports whether another fragment may be cut: the pointer lags behind by no more
// than the bounds.
func (m *Machine) room() bool { return m.fits(m.ahead()) }

// ahead is what was cut and is not persisted.
func (m *Machine) ahead() load {
	l := m.applied
	for _, f := range m.flights {
		l.count++
		l.bytes += f.frag.Size
	}
	return l
}

// fits reports whether a fragment may be cut that has so much before it.
func (m *Machine) fits(l load) bool {
	return l.count < m.cfg.MaxAhead && l.bytes < m.cfg.MaxAheadBytes
}

func (m *Machine) read() {
	d := &m.drain
	switch {
	case d.reading || d.listening || len(d.ahead) > 0 || !m.room() || m.at.Now < d.at:
	case d.end:
		d.listening = true
		m.emit(Listen{Gen: m.gen, From: d.want})
	default:
		d.reading = true
		m.emit(Read{Gen: m.gen, From: d.want, Max: m.cfg.ReadChunks})
	}
}

func (m *Machine) moved(in Moved) {
	switch {
	case in.Gen != m.gen:
	case m.phase == phaseShort:
		m.inspect()
	case m.drain.listening:
		m.drain.listening, m.drain.end = false, false
	}
}

func (m *Machine) chunksRead(in ChunksRead) {
	d := &m.drain
	if in.Gen != m.gen || !d.reading {
		return
	}
	d.reading = false
	switch {
	case in.Trimmed && in.Floor > d.want:
		// What was assembled lies in segments below the floor: it is gone as well.
		m.assembly.Reset()
		m.passed(d.want, in.Floor)
		d.want, d.retry = in.Floor, retry{}
	case in.Trimmed:
		d.failed(Result{FaultTransient, "a segment vanished while it was looked for"}, m.at)
	case in.Fault != FaultNone:
		d.failed(in.Result, m.at)
		m.sparse(d.fails, LevelWarn, "the local log can't be read: "+in.Why)
	default:
		d.retry = retry{}
		if d.ahead, d.end = in.Chunks, in.End || len(in.Chunks) == 0; d.end && len(m.cuts) == 0 {
			d.at = m.at.Now.Add(m.cfg.ReadPause)
		}
	}
}

// gather assembles what was read ahead and cuts fragments, as far as there is room.
func (m *Machine) gather() {
	d := &m.drain
	for len(d.ahead) > 0 && m.room() {
		c := d.ahead[0]
		if c.Header.ID != d.want {
			m.restart(fmt.Sprintf("the local log has a chunk at %s where %s is expected", c.Header.ID, d.want))
			return
		}
		if err := m.assembly.Add(c, m.at.Now); err != nil {
			m.restart(err.Error())
			return
		}
		m.counts.BytesDrained += c.Size
		d.want, d.ahead = c.Header.Next(), d.ahead[1:]
		m.cutIfFull()
	}
	m.cutIfFull()
}

func (m *Machine) cutIfFull() {
	if m.assembly.Empty() || !m.assembly.Full(m.at.Now) || !m.room() {
		return
	}
	m.cut()
}

// cut ends the fragment that is being assembled. There is one, and room for it.
func (m *Machine) cut() *fragment.Fragment {
	frag := m.assembly.Cut()
	m.lastFlight++
	m.flights = append(m.flights, &flight{id: m.lastFlight, frag: &frag, after: m.tail()})
	return &frag
}

// tail is where the next fragment comes after: the end of the last one under way,
// else of the live manifest.
func (m *Machine) tail() pos.Offset {
	if n := len(m.flights); n > 0 {
		return m.flights[n-1].frag.Next
	}
	return m.now.Next
}

// passed notes that local retention has removed records that were not uploaded.
func (m *Machine) passed(from, floor pos.Offset) {
	m.counts.FloorPassed++
	m.failures.passed++
	m.sparse(m.failures.passed, LevelWarn, fmt.Sprintf("local retention has removed [%s, %s) before it was uploaded", from, floor))
}

func (m *Machine) wakeDrain(earliest func(pos.Millis)) {
	if m.drain.at > m.at.Now && !m.drain.reading {
		earliest(m.drain.at)
	}
	if due, ok := m.assembly.Due(); ok && m.room() {
		earliest(due)
	}
}
