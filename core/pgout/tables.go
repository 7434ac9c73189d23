package pgout

import (
	"slices"

	"millrace/core/pos"
)

// tracked is a table whose rows are in the stream.
type tracked struct {
	table Table
	from  pos.LSN // streamed events whose commit begins below this are in the load
	// shape is what the stream was told last; nil: nothing since this machine began.
	shape *Relation
}

// tables knows which tables are in the stream, and which must be loaded first.
type tables struct {
	byOID  map[uint32]*tracked
	shapes map[uint32]*Relation // of this connection, tracked or not
	// strangers came in the stream and were not published when last looked.
	strangers map[uint32]bool
	fresh     []Table // published, readable and not loaded
	seenAt    pos.LSN // the WAL's end when the first of fresh were seen
	retryAt   pos.Millis
	failures  int // loads that failed in a row
}

func (t *tables) init() {
	t.byOID, t.shapes, t.strangers = map[uint32]*tracked{}, map[uint32]*Relation{}, map[uint32]bool{}
}

// sameMember reports whether a is the table b, under the same name, and did not leave
// the publication between.
func sameMember(a, b *Table) bool {
	return a.OID == b.OID && a.Member == b.Member && a.FullName() == b.FullName()
}

// resume takes what is durable: the published tables that have a row are in the stream.
func (t *tables) resume(name string, row *Row, rows []TableRow, published []Table, flush pos.LSN) {
	known := t.byOID
	t.init()
	durable := map[string]TableRow{}
	for _, r := range rows {
		if r.of(row) {
			durable[r.Key] = r
		}
	}
	for _, p := range published {
		r, ok := durable[TableKey(name, &p)]
		if !ok {
			continue
		}
		k := &tracked{table: p, from: r.Consistent}
		if old := known[p.OID]; old != nil && sameMember(&old.table, &p) {
			k.shape = old.shape
		}
		t.byOID[p.OID] = k
	}
	t.fresh = t.fresh[:0]
	t.published(published, flush)
}

// published takes the publication's tables as they are now, the WAL ending at flush.
func (t *tables) published(now []Table, flush pos.LSN) {
	if len(t.fresh) == 0 {
		t.seenAt = flush
	}
	t.fresh = t.fresh[:0]
	t.retryAt = 0
	for i := range now {
		if k := t.byOID[now[i].OID]; (k == nil || !sameMember(&k.table, &now[i])) && now[i].Readable() {
			t.fresh = append(t.fresh, now[i])
		}
	}
	clear(t.strangers)
}

// isFresh reports whether table is to be loaded alone.
func (t *tables) isFresh(table *Table) bool {
	return slices.ContainsFunc(t.fresh, func(f Table) bool { return sameMember(&f, table) })
}

// put notes that a table is loaded up to from.
func (t *tables) put(table Table, from pos.LSN) {
	t.byOID[table.OID] = &tracked{table: table, from: from, shape: &table.Relation}
	t.fresh = slices.DeleteFunc(t.fresh, func(f Table) bool { return f.OID == table.OID })
}

// of returns the tracked table a relation of the stream stands for: nil when it is
// none, or is published under another name than the one it was loaded by.
func (t *tables) of(rel *Relation) *tracked {
	k := t.byOID[rel.OID]
	if k == nil || k.table.FullName() != rel.FullName() {
		return nil
	}
	return k
}

// publication takes the publication as it was seen while streaming.
func (m *Machine) publication(s *Server) {
	if s.Publication == nil {
		return
	}
	strangers := m.tables.strangers
	m.tables.strangers = map[uint32]bool{}
	retryAt := m.tables.retryAt
	m.tables.published(s.Publication.Tables, s.Flush)
	m.tables.retryAt = retryAt
	if len(m.tables.fresh) == 0 && m.stage == stStream {
		m.trouble.clear()
	}
	// Who is still not published does not call for another look with each row.
	for oid := range strangers {
		if !slices.ContainsFunc(m.tables.fresh, func(f Table) bool { return f.OID == oid }) {
			m.tables.strangers[oid] = true
		}
	}
}

// stranger notes a relation that is not in the stream; the first sight calls for a look.
func (m *Machine) stranger(oid uint32) {
	fresh := slices.ContainsFunc(m.tables.fresh, func(f Table) bool { return f.OID == oid })
	if fresh || m.tables.strangers[oid] {
		return
	}
	m.tables.strangers[oid] = true
	m.inspect.at = m.now
}
