package segment

import (
	"math"
	"time"

	"millrace/core/pos"
)

// retain takes new bounds, a new seam or what the capture needs, and applies the bounds.
func (m *Machine) retain(in *Retain, out []Effect) []Effect {
	if in.Set != nil {
		m.retention = *in.Set
	}
	if in.Seam != pos.NoOffset {
		m.seam = in.Seam
	}
	if in.Captured != pos.NoOffset {
		m.captured = in.Captured
	}
	if !m.found || m.state == Ended {
		return out
	}
	return m.trim(in.Now, out)
}

// trim deletes the segments that retention no longer wants. Room on a full disk is
// tried at once.
func (m *Machine) trim(now pos.Millis, out []Effect) []Effect {
	m.head.retainDue = false
	n := m.expired(now)
	if n == 0 {
		return m.publish(out)
	}
	gone := make([]pos.Offset, n)
	for i := range gone {
		gone[i] = m.log.segments[i].First
	}
	m.log.segments = m.log.segments[:copy(m.log.segments, m.log.segments[n:])]
	first, old := m.log.segments[0].First, 0
	for old < len(m.log.epochs) && m.log.epochs[old].End <= first {
		old++
	}
	m.log.epochs = m.log.epochs[:copy(m.log.epochs, m.log.epochs[old:])]
	m.head.reshaped = true
	if m.state == Waiting {
		m.wait.until = now
	}
	out = m.publish(out)
	if len(m.head.doomed) > 0 {
		// The oldest goes first, so that a folder never shows a log with a hole.
		m.head.doomed = append(m.head.doomed, gone...)
		return out
	}
	return m.fx.remove(gone, out)
}

// expired is how many of the oldest segments go. It is one fold over the bounds: the
// tiering function first, then what the operator allows in all.
func (m *Machine) expired(now pos.Millis) int {
	r, n, bytes := m.retention, 0, m.bytes()
	drop := func(why func(s *Segment) bool) {
		for n < len(m.log.segments)-1 {
			s := &m.log.segments[n]
			if s.Next > m.head.committed || m.needed(s) || !why(s) {
				return
			}
			bytes -= s.Bytes
			n++
		}
	}
	drop(func(s *Segment) bool { return s.Next <= m.seam && bytes-s.Bytes >= r.LocalMinBytes })
	drop(func(*Segment) bool { return r.LocalMaxBytes > 0 && bytes > r.LocalMaxBytes })
	drop(func(*Segment) bool { return r.MaxBytes > 0 && bytes > r.MaxBytes })
	drop(func(s *Segment) bool { return r.MaxAge > 0 && now >= m.expiry(s) })
	return n
}

// needed reports whether the stream's capture may have to read a segment to know where it goes on:
// no record behind the segment is sure to be there after a crash, and the capture's row does not
// reach its end. Without it the capture would take what it has once more.
func (m *Machine) needed(s *Segment) bool {
	return m.captured != pos.NoOffset && s.Next >= m.log.synced && s.Next > m.captured
}

// expiry is when the segment's last chunk is older than MaxAge.
func (m *Machine) expiry(s *Segment) pos.Millis {
	age := pos.Millis(m.retention.MaxAge / time.Millisecond)
	if s.LastTime > math.MaxInt64-age-1 {
		return math.MaxInt64
	}
	return s.LastTime + age + 1
}

// ageDue is when the oldest segment expires, if anything can be done about it then:
// a closed one is deleted, the active one rolled.
func (m *Machine) ageDue() (at pos.Millis, closed, ok bool) {
	s := &m.log.segments[0]
	closed = len(m.log.segments) > 1
	switch {
	case m.retention.MaxAge <= 0 || s.Chunks == 0 || s.Next > m.head.committed:
		return 0, closed, false
	case closed && m.needed(s), !closed && m.state != Running:
		return 0, closed, false
	}
	return m.expiry(s), closed, true
}
