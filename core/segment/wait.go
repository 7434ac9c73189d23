package segment

import (
	"time"

	"millrace/core/backoff"
	"millrace/core/pos"
)

// pauses are those after what the world refused.
var pauses = backoff.Doubling{First: 200 * time.Millisecond, Last: 10 * time.Second}

// waitFor makes the machine wait, longer with each attempt that failed in a row.
func (m *Machine) waitFor(why string, now pos.Millis) {
	m.wait.attempts++
	m.state, m.wait.why, m.wait.until = Waiting, why, now.Add(pauses.After(m.wait.attempts))
}

// failed takes back what the failed effect would have done, and what stood behind it
// in the same step.
func (m *Machine) failed(in *Failed, out []Effect) []Effect {
	undo := m.undo
	m.undo = undoNone
	if m.state == Ended {
		return out
	}
	switch in.Op {
	case OpOpen:
		if m.state == Opening {
			m.waitFor(in.Why, in.Now)
		}
	case OpRoll, OpRollSync:
		return m.rollFailed(in, undo, out)
	case OpWrite:
		if undo == undoTail {
			m.restore(&m.keep.write)
			m.waitFor(in.Why, in.Now)
			return m.truncate(out)
		}
	case OpSync:
		if m.found {
			return m.end(in.Why, out)
		}
	case OpTruncate:
		if m.found {
			m.cutFailed(in, undo)
		}
	case OpRemove:
		m.removeFailed(in, undo)
	}
	return out
}

// cutFailed has the cut repeated before the next write, and forgets the Sync that
// stood behind it.
func (m *Machine) cutFailed(in *Failed, undo undo) {
	if undo == undoCut {
		m.log.syncing = m.keep.syncing
	}
	m.wait.dirty = true
	m.waitFor(in.Why, in.Now)
}

func (m *Machine) rollFailed(in *Failed, undo undo, out []Effect) []Effect {
	switch {
	case undo == undoBirth:
		m.unfind(in)
	case undo == undoTail && in.Op == OpRoll:
		m.restore(&m.keep.roll)
		m.waitFor(in.Why, in.Now)
	case undo == undoTail:
		m.restore(&m.keep.roll)
		return m.end(in.Why, out)
	}
	return out
}

// unfind forgets an empty log that could not be begun: Open does it all again.
func (m *Machine) unfind(in *Failed) {
	m.log, m.head, m.found = tail{}, head{}, false
	m.waitFor(in.Why, in.Now)
}

// end cuts the log to what is synced: the operating system has dropped the pages it
// could not write, and would report the next sync as a success.
func (m *Machine) end(why string, out []Effect) []Effect {
	m.state, m.wait.why = Ended, why
	m.fx.truncate = Truncate{
		Segment: m.active().First, Bytes: m.log.syncedBytes, Index: IndexSize(m.log.syncedChunks), End: why,
	}
	return append(out, &m.fx.truncate)
}

// removeFailed notes the segments that are still there: the one named and those that
// stood behind it.
func (m *Machine) removeFailed(in *Failed, undo undo) {
	if undo == undoBirth {
		m.unfind(in)
		return
	}
	for i, r := range m.fx.removes {
		if r.Segment == in.Segment {
			for _, left := range m.fx.removes[i:] {
				m.head.doomed = append(m.head.doomed, left.Segment)
			}
			m.wait.doomed = in.Now.Add(pauses.Last)
			break
		}
	}
	if undo == undoCut {
		m.cutFailed(in, undo)
	}
}

// tick does what is due.
func (m *Machine) tick(in *Tick, out []Effect) []Effect {
	m.wait.wantSync = m.wait.wantSync || in.WantSync && m.found && m.log.synced < m.log.last
	if m.state == Waiting && in.Now >= m.wait.until {
		if !m.found {
			m.state = Opening
			return append(out, &m.fx.open)
		}
		m.state = Running
		if m.wait.dirty {
			return m.mend(out)
		}
	}
	if !m.found || m.state == Ended {
		return out
	}
	if at, ok := m.syncDue(); in.Quiet || ok && in.Now >= at {
		out = m.sync(out)
	}
	if len(m.head.doomed) > 0 && in.Now >= m.wait.doomed && !m.wait.dirty {
		return m.removeDoomed(out)
	}
	return m.age(in, out)
}

// mend repeats the cut that failed, before anything is written.
func (m *Machine) mend(out []Effect) []Effect {
	m.undo, m.keep.syncing, m.wait.dirty = undoCut, m.log.syncing, false
	out = m.truncate(m.removeDoomed(out))
	if m.log.cutUnsynced {
		out = m.sync(out)
	}
	return out
}

func (m *Machine) removeDoomed(out []Effect) []Effect {
	out = m.fx.remove(m.head.doomed, out)
	m.head.doomed = m.head.doomed[:0]
	return out
}

// age deletes what has expired, and rolls an active segment that has expired as a
// whole, so that it is deleted next.
func (m *Machine) age(in *Tick, out []Effect) []Effect {
	at, closed, ok := m.ageDue()
	if !ok || in.Now < at {
		return out
	}
	if closed {
		return m.trim(in.Now, out)
	}
	m.compactMarks()
	m.save(&m.keep.roll)
	m.undo = undoTail
	return m.roll(out)
}

// syncDue is when unsynced chunks are to be synced outside of mode Always.
func (m *Machine) syncDue() (pos.Millis, bool) {
	if m.cfg.Mode == Always || m.log.syncing || m.log.synced == m.log.last {
		return 0, false
	}
	return m.wait.lastSync.Add(m.cfg.SyncEvery), m.cfg.Mode == Interval || m.wait.wantSync
}

// Due is when the next Tick is needed; false if none is.
func (m *Machine) Due() (at pos.Millis, ok bool) {
	due := func(t pos.Millis, yes bool) {
		if yes && (!ok || t < at) {
			at, ok = t, true
		}
	}
	due(m.wait.until, m.state == Waiting)
	if m.found && m.state != Ended {
		due(m.syncDue())
		due(m.wait.doomed, len(m.head.doomed) > 0 && !m.wait.dirty)
		aged, _, yes := m.ageDue()
		due(aged, yes)
	}
	return at, ok
}
