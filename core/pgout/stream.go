package pgout

import (
	"fmt"
	"sort"

	"millrace/core/pos"
)

// streaming is the replication connection's progress.
type streaming struct {
	decoder Decoder
	asked   bool // a Receive is out
	inbox   []Wal
	handled int // of inbox

	open bool // inside a transaction
	tx   Begin
	seq  int64     // of its next change
	rel  *Relation // of its newest change

	// midway: the log's tail is inside a transaction, so that nothing may be put between
	// until its end has come.
	midway bool
	resent bool    // the tail's transaction must come first
	tail   pos.LSN // its commit
	seen   int     // how many of the digests the resent transaction had

	full      bool // nothing was asked for, for want of room
	startedAt pos.Millis

	received pos.LSN // WAL end last told
	lag      int64   // how old the last commit was when it was taken, milliseconds
}

func (s *streaming) begin(midway, resent bool, tail pos.LSN) {
	*s = streaming{midway: midway, resent: resent, tail: tail}
}

// pumpStream handles what was received while there is room, then asks for more.
func (m *Machine) pumpStream() {
	s := &m.stream
	for m.stage == stStream && m.open() {
		if m.loadFresh() {
			return
		}
		if s.handled == len(s.inbox) {
			break
		}
		w := s.inbox[s.handled]
		s.inbox[s.handled] = Wal{}
		s.handled++
		if err := m.wal(&w); err != nil {
			m.fail(Failure{Class: Broken, Why: fmt.Sprintf("WAL up to %s: %v", s.received, err)})
			return
		}
	}
	if m.stage != stStream {
		return
	}
	if s.handled == len(s.inbox) {
		s.inbox, s.handled = s.inbox[:0], 0
		if !s.asked && m.open() {
			s.asked = true
			if s.full {
				s.full, m.inspect.since = false, m.now
			}
			m.emit(&Receive{Gen: m.gen})
		}
	}
	s.full = s.full || !s.asked
}

// loadFresh begins to load tables new in the publication, between transactions: not
// before the stream is where they were seen, since it may turn out unreadable until there.
func (m *Machine) loadFresh() bool {
	if len(m.tables.fresh) == 0 || m.stream.open || m.stream.midway || m.now < m.tables.retryAt || m.stream.received < m.tables.seenAt {
		return false
	}
	m.enter(stSubCreate)
	return true
}

func (m *Machine) wal(w *Wal) error {
	s := &m.stream
	if w.Data != nil || w.End > s.received {
		s.received = max(s.received, w.End)
		m.heard()
	}
	if w.Data == nil {
		m.confirm.asked = m.confirm.asked || w.Asked
		m.keepalive(w.End)
		return nil
	}
	msg, err := s.decoder.Decode(w.Data)
	if err != nil {
		return err
	}
	if !s.open {
		if b, ok := msg.(*Begin); ok {
			m.beginTransaction(b)
			return nil
		}
		return fmt.Errorf("message %T outside a transaction", msg)
	}
	return m.inTransaction(msg)
}

func (m *Machine) inTransaction(msg Message) error {
	switch msg := msg.(type) {
	case *Begin:
		return fmt.Errorf("a transaction begins inside another")
	case *Commit:
		m.commit(msg)
	case *Relation:
		m.tables.shapes[msg.OID] = msg
	case *Insert:
		return m.change(OpCreate, msg.Relation, OldNone, nil, msg.New)
	case *Update:
		return m.change(OpUpdate, msg.Relation, msg.OldKind, msg.Old, msg.New)
	case *Delete:
		return m.change(OpDelete, msg.Relation, msg.OldKind, msg.Old, nil)
	case *Truncate:
		for _, oid := range msg.Relations {
			if err := m.change(OpTruncate, oid, OldNone, nil, nil); err != nil || m.stage != stStream {
				return err
			}
		}
	case *Origin, *TypeName, *Logical, *Table:
		// They tell nothing that a record holds.
	}
	return nil
}

// keepalive may be confirmed up to end once all before it is fsynced: outside a
// transaction everything below the server's WAL end has been sent.
func (m *Machine) keepalive(end pos.LSN) {
	s := &m.stream
	if s.open {
		return
	}
	if s.resent && end > s.tail {
		m.historyBroke(fmt.Sprintf("the server's WAL has no transaction at %s, which the stream ends with", s.tail))
		return
	}
	s.lag, m.asOf = 0, m.now
	m.confirm.mark(end, m.log.next, m.log.last, m.now)
}

func (m *Machine) beginTransaction(b *Begin) {
	s := &m.stream
	if s.resent && b.Final > s.tail {
		m.historyBroke(fmt.Sprintf("the server's WAL goes on at %s without the transaction at %s, which the stream ends with", b.Final, s.tail))
		return
	}
	s.open, s.tx, s.seq, s.rel = true, *b, 0, nil
}

// commit ends the transaction: now the event held back is known to be its last.
func (m *Machine) commit(c *Commit) {
	s := &m.stream
	s.open = false
	if s.resent && c.Final == s.tail && !m.verified() {
		return
	}
	if s.midway && c.Final == s.tail && m.log.held == nil && s.rel != nil {
		// The changes behind the tail are of tables that left the publication meanwhile.
		src := source{at: Position{LSN: c.Final, Seq: s.seq, Message: true}, xid: s.tx.XID, micros: s.tx.Micros, snapshot: SnapshotNo}
		m.write(m.before().end(s.rel, src, m.now))
	}
	if c.Final >= s.tail {
		s.midway, s.resent = false, false
	}
	m.log.seal(true)
	m.counters.Commits++
	m.lastCommit = pos.Millis(c.Micros / 1000)
	s.lag, m.asOf = max(0, int64(m.now-m.lastCommit)), m.lastCommit
	m.confirm.mark(c.End, m.log.next, m.log.last, m.now)
}

// verified checks that the resent transaction had every change that the log's last
// chunk holds of it.
func (m *Machine) verified() bool {
	want := 0
	for _, d := range m.log.digests {
		if !d.At.Message {
			want++
		}
	}
	if m.stream.seen != want {
		m.historyBroke(fmt.Sprintf("the transaction at %s came again with %d of the %d changes the stream holds", m.stream.tail, m.stream.seen, want))
		return false
	}
	m.log.digests = nil
	return true
}

// change takes one row change, or the truncation of one table. Its seq is counted
// whether it is taken or not: a resent transaction is numbered alike.
func (m *Machine) change(op Op, oid uint32, kind OldKind, old, fresh Tuple) error {
	s := &m.stream
	rel := m.tables.shapes[oid]
	if rel == nil {
		return fmt.Errorf("a change of relation %d, which was not described", oid)
	}
	if old != nil && kind != OldNone && len(old) != len(rel.Columns) || fresh != nil && len(fresh) != len(rel.Columns) {
		return fmt.Errorf("a row of %s has another number of columns than the relation", rel.FullName())
	}
	src := source{at: Position{LSN: s.tx.Final, Seq: s.seq}, xid: s.tx.XID, micros: s.tx.Micros, snapshot: SnapshotNo}
	s.seq, s.rel = s.seq+1, rel
	k := m.tables.of(rel)
	if k == nil {
		m.stranger(oid)
	}
	taken := k != nil && src.at.LSN >= k.from
	if src.at.Compare(m.log.last.Position) <= 0 {
		if taken {
			k.shape = rel
		}
		m.compare(op, rel, kind, old, fresh, src, taken)
		return nil
	}
	if !taken {
		return nil
	}
	m.announce(k, rel, src)
	if op == OpTruncate {
		m.write(m.before().truncate(rel, src, m.now))
	} else {
		m.write(m.before().row(op, rel, kind, old, fresh, src, m.now))
	}
	return nil
}

// announce writes the table's shape in front of its first change under it, unless the
// stream has it.
func (m *Machine) announce(k *tracked, rel *Relation, src source) {
	if k.shape != nil && k.shape.SameShape(rel) {
		return
	}
	k.shape = rel
	src.at.Message = true
	if src.at.Compare(m.log.last.Position) > 0 {
		m.write(m.before().schema(rel, src, m.now))
	}
}

// compare checks an event that the log holds against what it holds.
func (m *Machine) compare(op Op, rel *Relation, kind OldKind, old, fresh Tuple, src source, taken bool) {
	held := m.log.digests
	i := sort.Search(len(held), func(i int) bool { return held[i].At.Compare(src.at) >= 0 })
	if i == len(held) || held[i].At != src.at {
		if taken && i > 0 && i < len(held) {
			m.historyBroke(fmt.Sprintf("the transaction at %s came again with another change %d", src.at.LSN, src.at.Seq))
		}
		return
	}
	var d *draft
	if op == OpTruncate {
		d = m.log.pen.truncate(rel, src, m.now)
	} else {
		d = m.log.pen.row(op, rel, kind, old, fresh, src, m.now)
	}
	again := Digest{At: src.at, AnyImage: mayDiffer(d.json)}
	again.Source, again.Image = sums(d.json)
	if !again.agrees(held[i]) {
		m.historyBroke(fmt.Sprintf("the transaction at %s came again with another change %d", src.at.LSN, src.at.Seq))
		return
	}
	m.stream.seen++
}

// historyBroke ends the attempt; the next voids the stream and loads anew.
func (m *Machine) historyBroke(why string) {
	m.broke = "history broke: " + why
	m.lost(m.broke)
	m.again(m.broke)
}
