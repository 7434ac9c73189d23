package pgout

import (
	"time"

	"millrace/core/pos"
)

// confirming decides when the server may forget WAL.
type confirming struct {
	marks     []mark
	ready     mark    // the latest that is fsynced
	stored    Mark    // E as it stands in the metadata row
	confirmed pos.LSN // what the server was told, or has by itself
	target    pos.LSN // to be confirmed when the row with its E is saved
	lastAt    pos.Millis
	savedAt   pos.Millis // when the row was last stored for a confirmation
	asked     bool       // the server waits for a confirmation: WAL without an event waits for none
	retryAt   pos.Millis // after a row that could not be saved
	why       string     // why not
}

// mark is a point in the WAL that may be confirmed once records below next are fsynced.
type mark struct {
	lsn  pos.LSN
	next pos.Offset
	last Mark       // the last event before it
	at   pos.Millis // when the first point since the one before was met
}

// maxMarks bounds the marks that wait for a sync that may be long in coming.
const maxMarks = 4096

func (c *confirming) reset() { *c = confirming{} }

func (c *confirming) start(stored Mark, confirmed pos.LSN) {
	*c = confirming{stored: stored, confirmed: confirmed}
}

// mark notes that all events below lsn lie below next.
func (c *confirming) mark(lsn pos.LSN, next pos.Offset, last Mark, now pos.Millis) {
	m := mark{lsn: lsn, next: next, last: last, at: now}
	n := len(c.marks)
	if n > 0 && c.marks[n-1].lsn > lsn {
		return
	}
	if n > 0 && c.marks[n-1].next == next {
		m.at = c.marks[n-1].at
		c.marks[n-1] = m
		return
	}
	if n == maxMarks {
		// Fewer points to stop at delay a confirmation, never hurry it.
		for i := range n / 2 {
			at := c.marks[2*i].at
			c.marks[i] = c.marks[2*i+1]
			c.marks[i].at = at
		}
		c.marks = c.marks[:n/2]
	}
	c.marks = append(c.marks, m)
}

// waits is how long what was taken has waited for the disk, in milliseconds.
func (c *confirming) waits(now pos.Millis) int64 {
	if len(c.marks) == 0 {
		return 0
	}
	return max(0, int64(now-c.marks[0].at))
}

func (c *confirming) failed(retryAt pos.Millis, why string) { c.retryAt, c.why = retryAt, why }

// dueAt is when the next confirmation may be made, 0 if there is none to make.
func (c *confirming) dueAt(m *Machine) pos.Millis {
	if c.ready.lsn <= c.confirmed || m.saveWhy == saveConfirm {
		return 0
	}
	due := max(c.lastAt.Add(m.cfg.ConfirmEvery), c.retryAt)
	known := m.row.Confirmed
	if !c.asked && c.ready.last.Offset <= c.stored.Offset && c.ready.lsn > known && c.ready.lsn-known < keepWAL {
		due = max(due, c.savedAt.Add(keepEvery))
	}
	return due
}

// WAL that holds nothing for us moves the row's Confirmed no more often than this, and
// is not confirmed before.
const (
	keepEvery = 10 * time.Second
	keepWAL   = 16 << 20 // bytes
)

// pumpConfirm confirms what is fsynced; when that passes the stored E, or all that was
// ever confirmed, after storing that.
func (m *Machine) pumpConfirm() {
	c := &m.confirm
	n := 0
	for n < len(c.marks) && c.marks[n].next <= m.log.durable() {
		c.ready = c.marks[n]
		n++
	}
	c.marks = append(c.marks[:0], c.marks[n:]...)
	due := c.dueAt(m)
	if m.stage < stStream || due == 0 || m.now < due || m.saveWhy != saveNone {
		return
	}
	event := c.ready.last.Offset > c.stored.Offset
	if !event && c.ready.lsn <= m.row.Confirmed {
		m.confirmNow(c.ready.lsn)
		return
	}
	c.target = c.ready.lsn
	m.saveWhy = saveConfirm
	row := m.row
	if event {
		row.Event = c.ready.last
	}
	row.Confirmed = max(row.Confirmed, c.target)
	m.emit(&SaveRow{Gen: m.gen, Row: row})
}

func (m *Machine) confirmSaved() {
	m.confirm.stored, m.confirm.why, m.confirm.retryAt, m.confirm.savedAt = m.row.Event, "", 0, m.now
	m.confirmNow(m.confirm.target)
}

func (m *Machine) confirmNow(lsn pos.LSN) {
	m.confirm.confirmed, m.confirm.lastAt, m.confirm.asked = lsn, m.now, false
	m.emit(&Confirm{LSN: lsn})
}
