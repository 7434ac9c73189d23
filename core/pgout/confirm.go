package pgout

import "millrace/core/pos"

// confirming decides when the server may forget WAL.
type confirming struct {
	marks     []mark
	ready     mark    // the latest that is fsynced
	stored    Mark    // E as it stands in the metadata row
	confirmed pos.LSN // what the server was told, or has by itself
	target    pos.LSN // to be confirmed when the row with its E is saved
	lastAt    pos.Millis
	retryAt   pos.Millis // after a row that could not be saved
	why       string     // why not
}

// mark is a point in the WAL that may be confirmed once records below next are fsynced.
type mark struct {
	lsn  pos.LSN
	next pos.Offset
	last Mark // the last event before it
}

// maxMarks bounds the marks that wait for a sync that may be long in coming.
const maxMarks = 4096

func (c *confirming) reset() { *c = confirming{} }

func (c *confirming) start(stored Mark, confirmed pos.LSN) {
	*c = confirming{stored: stored, confirmed: confirmed}
}

// mark notes that all events below lsn lie below next.
func (c *confirming) mark(lsn pos.LSN, next pos.Offset, last Mark) {
	m := mark{lsn: lsn, next: next, last: last}
	n := len(c.marks)
	if n > 0 && c.marks[n-1].lsn > lsn {
		return
	}
	if n > 0 && c.marks[n-1].next == next {
		c.marks[n-1] = m
		return
	}
	if n == maxMarks {
		// Fewer points to stop at delay a confirmation, never hurry it.
		for i := range n / 2 {
			c.marks[i] = c.marks[2*i+1]
		}
		c.marks = c.marks[:n/2]
	}
	c.marks = append(c.marks, m)
}

func (c *confirming) failed(retryAt pos.Millis, why string) { c.retryAt, c.why = retryAt, why }

// dueAt is when the next confirmation may be made, 0 if there is none to make.
func (c *confirming) dueAt(m *Machine) pos.Millis {
	if c.ready.lsn <= c.confirmed || m.saveWhy == saveConfirm {
		return 0
	}
	return max(c.lastAt.Add(m.cfg.ConfirmEvery), c.retryAt)
}

// pumpConfirm confirms what is fsynced; when that passes the stored E, after storing a
// new one.
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
	if c.ready.last.Offset <= c.stored.Offset {
		m.confirmNow(c.ready.lsn)
		return
	}
	c.target = c.ready.lsn
	m.saveWhy = saveConfirm
	row := m.row
	row.Event = c.ready.last
	m.emit(&SaveRow{Gen: m.gen, Row: row})
}

func (m *Machine) confirmSaved() {
	m.confirm.stored, m.confirm.why, m.confirm.retryAt = m.row.Event, "", 0
	m.confirmNow(m.confirm.target)
}

func (m *Machine) confirmNow(lsn pos.LSN) {
	m.confirm.confirmed, m.confirm.lastAt = lsn, m.now
	m.emit(&Confirm{LSN: lsn})
}
