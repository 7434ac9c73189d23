package pgout

import (
	"millrace/core/pos"
)

// outbox is what goes into the log: the event held back, the batch being filled, and
// the append in flight. There is one: ExpectNext fences a single append, not a row of
// them, since after the first was refused the second could fit again.
type outbox struct {
	pen     pen
	held    *draft // the newest event: whether it is the last of its transaction is not known
	batch   []Record
	size    int // bytes of the batch
	buf     []byte
	next    pos.Offset // the offset of the next record to leave
	last    Mark       // of the newest record written (held included): Offset is what it will get
	flying  bool
	flight  int        // bytes of the append in flight
	movedAt pos.Millis // when the log last took something, or had nothing to take
	// committed and synced are next offsets, as the log told.
	committed, synced pos.Offset
	watching          bool
	digests           []Digest // of the tail, what a resent transaction must equal
}

func (o *outbox) reset() {
	*o = outbox{pen: o.pen}
}

func (o *outbox) start(next pos.Offset, last Mark, tail Tail) {
	o.next, o.committed, o.last, o.digests = next, next, last, tail.Held
	// What was committed before this start may not be fsynced: the first Synced tells.
	o.synced = pos.NoOffset
}

// hold takes a new event; the one held so far was not its transaction's last.
func (o *outbox) hold(d *draft) {
	o.held = d
	o.last = Mark{Position: d.source.at, Offset: o.next}
}

// seal moves the held event into the batch.
func (o *outbox) seal(last bool) {
	if o.held == nil {
		return
	}
	d := o.held
	o.held = nil
	need := len(d.json) + 8 + len(d.rel.Schema) + 1 + len(d.rel.Name)
	if cap(o.buf)-len(o.buf) < need {
		o.buf = make([]byte, 0, max(firstBuffer, need))
	}
	from := len(o.buf)
	o.buf = d.seal(o.buf, last)
	body := o.buf[from:len(o.buf):len(o.buf)]
	from = len(o.buf)
	o.buf = append(append(append(o.buf, d.rel.Schema...), '.'), d.rel.Name...)
	o.batch = append(o.batch, Record{Body: body, Filter: o.buf[from:len(o.buf):len(o.buf)]})
	o.size += len(body)
	o.next++
}

// firstBuffer is the room for records taken at once: many small ones share it.
const firstBuffer = 64 << 10

// take takes the batch for an Append.
func (o *outbox) take() (records []Record, at pos.Offset) {
	records, at = o.batch, o.next-pos.Offset(len(o.batch))
	o.flying, o.flight = true, o.size
	o.batch, o.buf, o.size = nil, nil, 0
	return records, at
}

func (o *outbox) appended(next pos.Offset) {
	o.committed = max(o.committed, next)
	o.flying, o.flight = false, 0
}

// standsSince is since when the log has owed an answer, or a sync, and has given none; 0
// when it owes nothing.
func (o *outbox) standsSince() pos.Millis {
	if o.flying || o.watching && o.synced < o.committed {
		return o.movedAt
	}
	return 0
}

// expected is the offset the append in flight was to begin at.
func (o *outbox) expected() pos.Offset { return o.committed }

// idle reports whether all that was written is committed.
func (o *outbox) idle() bool { return o.held == nil && len(o.batch) == 0 && !o.flying }

// durable is the next offset up to which our own records are fsynced: what lies beyond
// the last answer was appended by somebody else.
func (o *outbox) durable() pos.Offset { return min(o.synced, o.committed) }

// mustWatch reports whether there is something to be told of the fsynced offset.
func (o *outbox) mustWatch() bool { return !o.watching && o.synced < o.committed }

// open makes room if it can, and reports whether more may be written.
func (m *Machine) open() bool {
	full := func() bool { return len(m.log.batch) >= m.cfg.BatchRecords || m.log.size >= m.cfg.BatchBytes }
	if full() {
		m.flush()
	}
	return !full()
}

// write takes a new event.
func (m *Machine) write(d *draft) {
	m.log.hold(d)
	m.counters.Events++
}

// before makes room for a new event: the pen holds one at a time.
func (m *Machine) before() *pen {
	m.log.seal(false)
	return &m.log.pen
}

// flush appends what is in the batch, when nothing is in flight.
func (m *Machine) flush() {
	if len(m.log.batch) == 0 || m.log.flying {
		return
	}
	if m.log.standsSince() == 0 {
		m.log.movedAt = m.now
	}
	records, at := m.log.take()
	m.emit(&Append{Gen: m.gen, ExpectNext: at, Records: records})
}
