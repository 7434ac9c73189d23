package fetch

import (
	"fmt"
	"slices"

	"millrace/core/chunk"
	"millrace/core/fragment"
)

// headState says what of the next chunk is in the buffer.
type headState uint8

const (
	headShort   headState = iota // not even its header
	headKnown                    // its header
	headWhole                    // all of it
	headDamaged                  // no chunk begins there, or it reaches past the data
)

// head looks at the chunk the buffer begins with.
func (m *Machine) head() (chunk.Header, headState) {
	r := &m.s.remote
	h, err := chunk.ParseHeader(r.buf)
	switch {
	case len(r.buf) < chunk.HeaderSize:
		return h, headShort
	case err != nil || h.Size() > r.end()-r.pos:
		return h, headDamaged
	case h.Size() > int64(len(r.buf)):
		return h, headKnown
	}
	return h, headWhole
}

// hand makes whole chunks ready until the pull has enough, and answers it. If there
// are none it fetches more. Again says that the phase changed.
func (m *Machine) hand(out []Effect) (_ []Effect, again bool) {
	r := &m.s.remote
	for m.s.ready.bytes < m.s.pull.max {
		h, state := m.head()
		if state != headWhole || h.Next() > m.s.committed || m.sound(h) != nil {
			break
		}
		size := h.Size()
		m.take(h, r.buf[:size:size], true)
		r.buf, r.pos = r.buf[size:], r.pos+size
	}
	if len(m.s.ready.chunks) > 0 {
		return m.answer(out), true
	}
	if r.inflight != 0 || m.s.parked {
		return out, false
	}
	if r.pos == r.end() {
		return m.endFragment(out), true
	}
	h, state := m.head()
	switch {
	case state == headDamaged:
		return m.damaged("no chunk begins there", out), true
	case state == headWhole && h.Next() > m.s.committed:
		m.s.busy = true
		return append(out, Look{}), false
	case state == headWhole:
		return m.damaged(m.sound(h).Error(), out), true
	case r.left() == 0:
		return m.damaged("the last chunk is cut short", out), true
	}
	return m.fetchData(max(m.need(), minNeed), out), false
}

// sound reports why the whole chunk at the head of the buffer can't be handed out.
func (m *Machine) sound(h chunk.Header) error {
	if err := m.follows(h); err != nil {
		return err
	}
	return chunk.Verify(m.s.remote.buf[:h.Size()])
}

// need returns how many bytes the next chunk lacks, as far as is known.
func (m *Machine) need() int64 {
	have := int64(len(m.s.remote.buf))
	if h, state := m.head(); state == headKnown {
		return h.Size() - have
	}
	return chunk.HeaderSize - have
}

// endFragment seeks behind a fragment that was read to its end.
func (m *Machine) endFragment(out []Effect) []Effect {
	e := m.s.remote.entry
	if m.s.next != e.Next {
		return m.damaged(fmt.Sprintf("the fragment ends at %s, the manifest says %s", m.s.next, e.Next), out)
	}
	m.seek()
	return out
}

// damaged drops what was read of the fragment and begins it anew after a time.
func (m *Machine) damaged(why string, out []Effect) []Effect {
	why = fmt.Sprintf("fragment %s at byte %d: %s", m.key(), m.s.remote.pos, why)
	m.seek()
	return m.wait(Damaged, why, out)
}

func (m *Machine) key() string {
	e := &m.s.remote.entry
	return fragment.Key(m.cfg.Prefix, m.cfg.Stream, e.First, e.UID)
}

// fetchData asks for the next range. Need 0 is read-ahead.
func (m *Machine) fetchData(need int64, out []Effect) []Effect {
	r := &m.s.remote
	n := min(max(m.cfg.RangeBytes, m.need()), MaxRangeBytes, r.left())
	return m.fetch(r.pos+int64(len(r.buf)), n, min(need, n), out)
}

// fetchIndex asks for the fragment's index and footer.
func (m *Machine) fetchIndex(out []Effect) []Effect {
	r := &m.s.remote
	if r.inflight != 0 {
		return out
	}
	n := int64(r.entry.Chunks)*fragment.IndexRecordSize + fragment.FooterSize
	return m.fetch(r.end(), n, n, out)
}

func (m *Machine) fetch(off, n, need int64, out []Effect) []Effect {
	m.s.ids++
	m.s.remote.inflight, m.s.remote.asked = m.s.ids, n
	return append(out, Fetch{ID: m.s.ids, Key: m.key(), Off: off, N: n, Need: need, Tries: m.s.remote.failed})
}

// readAhead fetches one range while nobody waits, if no whole chunk is left.
func (m *Machine) readAhead(out []Effect) []Effect {
	r := &m.s.remote
	if m.s.phase != Data || r.inflight != 0 || m.s.crowded || r.left() <= 0 {
		return out
	}
	if _, state := m.head(); state == headWhole || state == headDamaged {
		return out
	}
	return m.fetchData(0, out)
}

func (m *Machine) fetched(in Fetched, out []Effect) []Effect {
	r := &m.s.remote
	if in.ID != r.inflight {
		return out
	}
	r.inflight, r.failed = 0, 0
	if int64(len(in.Data)) > r.asked {
		in.Data = in.Data[:r.asked]
	}
	if m.s.phase == Indexing {
		return m.indexed(in.Data, out)
	}
	if len(in.Data) == 0 {
		return m.wait(Fault, fmt.Sprintf("fragment %s: the store sent nothing at byte %d of %d", m.key(), r.pos+int64(len(r.buf)), r.end()), out)
	}
	m.s.retry.overcome(Fault, Throttled, Denied)
	if len(r.buf) == 0 {
		r.buf = in.Data
		return out
	}
	// A chunk that takes many ranges gets its room once.
	r.buf = append(slices.Grow(r.buf, int(max(int64(len(in.Data)), min(m.need(), r.left())))), in.Data...)
	return out
}

// indexed finds in the index where to begin.
func (m *Machine) indexed(b []byte, out []Effect) []Effect {
	r := &m.s.remote
	m.s.retry.overcome(Fault, Throttled, Denied)
	index, err := fragment.ParseIndex(b, r.entry.Size)
	if err != nil {
		return m.damaged(err.Error(), out)
	}
	rec := index.Find(m.s.next)
	if r.byTime {
		rec = index.FindTime(r.time)
	}
	if rec.Offset < r.entry.First || rec.Offset >= r.entry.Next || !r.byTime && rec.Offset > m.s.next {
		return m.damaged(fmt.Sprintf("its index speaks of the offset %s, the manifest of [%s, %s)", rec.Offset, r.entry.First, r.entry.Next), out)
	}
	if r.byTime {
		m.stand(rec.Offset)
	}
	m.s.phase, r.pos = Data, rec.Position
	return out
}

func (m *Machine) fetchFailed(in FetchFailed, out []Effect) []Effect {
	r := &m.s.remote
	if in.ID != r.inflight {
		return out
	}
	r.inflight = 0
	r.failed++
	why := fmt.Sprintf("fragment %s: %s", m.key(), in.Why)
	switch {
	case in.Class == Gone && m.s.retry.clocks[Gone].failures == 0:
		// Retention took it: the row will say so, or does already.
		m.s.retry.clocks[Gone].failures++
		m.seek()
		return out
	case in.Class == Gone:
		m.seek()
		return m.wait(Gone, why, out)
	case in.Class == Damaged:
		return m.damaged(in.Why, out)
	case in.Class == Throttled, in.Class == Denied:
		return m.wait(in.Class, why, out)
	default:
		return m.wait(Fault, why, out)
	}
}
