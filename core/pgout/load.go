package pgout

import (
	"fmt"
	"slices"

	"millrace/core/pos"
)

// loading is the load of the whole capture, or of the tables new in the publication.
type loading struct {
	consistent pos.LSN
	tables     []Table
	current    int   // index of the table being read
	rows       int64 // of it, so far
	total      int64 // of all
	asked      bool  // a Load is out
	micros     int64 // when it began
	tuple      Tuple
	scratch    []byte
}

func (m *Machine) slotCreated(in *SlotCreated) {
	m.load = loading{consistent: in.Consistent, tables: in.Tables, micros: int64(m.now) * 1000}
	if m.stage == stCreate {
		m.enter(stSaveLoading)
		return
	}
	m.load.tables = slices.DeleteFunc(slices.Clone(in.Tables), func(t Table) bool { return !m.tables.isFresh(&t) })
	if len(m.load.tables) == 0 {
		// They left the publication before the snapshot.
		m.emit(&CloseSnapshot{})
		m.load = loading{}
		m.tables.fresh = m.tables.fresh[:0]
		m.enter(stStream)
		return
	}
	m.enter(stSubLoad)
	for i := range m.load.tables {
		t := &m.load.tables[i]
		if old := m.tables.byOID[t.OID]; old != nil && old.table.FullName() != t.FullName() {
			m.void(&old.table.Relation)
		}
		// From its void until its load has ended none of its changes is taken.
		delete(m.tables.byOID, t.OID)
		m.void(&t.Relation)
	}
}

// beginLoad voids every table and begins to load. The void ends whatever transaction
// the log's tail is in.
func (m *Machine) beginLoad() {
	m.log.last = Mark{Position: Position{LSN: m.load.consistent - 1, Seq: -1}, Offset: m.log.next - 1}
	m.enter(stLoad)
	published := map[string]bool{}
	for i := range m.load.tables {
		published[m.load.tables[i].FullName()] = true
		m.void(&m.load.tables[i].Relation)
	}
	for _, old := range m.tables.names() {
		if !published[old.FullName()] {
			m.void(old)
		}
	}
	m.tables.init()
	m.stream = streaming{}
}

// names returns the tables known so far, in a fixed order.
func (t *tables) names() []*Relation {
	var all []*Relation
	for _, k := range t.byOID {
		all = append(all, &k.table.Relation)
	}
	slices.SortFunc(all, func(a, b *Relation) int { return int(int64(a.OID) - int64(b.OID)) })
	return all
}

// nextLoaded is the position and source of the next record of a load.
func (m *Machine) nextLoaded(s Snapshot) source {
	at := m.log.last.Position
	at.Seq, at.Message = at.Seq+1, false
	return source{at: at, micros: m.load.micros, snapshot: s}
}

func (m *Machine) void(rel *Relation) {
	src := m.nextLoaded(SnapshotFirst)
	m.write(m.before().truncate(rel, src, m.now))
}

// pumpLoad asks for the next rows when there is room.
func (m *Machine) pumpLoad() {
	l := &m.load
	switch {
	case l.current == len(l.tables):
		m.emit(&CloseSnapshot{})
		if m.stage == stLoad {
			m.enter(stDrain)
		} else {
			m.enter(stSubDrain)
		}
	case !l.asked && m.open():
		l.asked = true
		m.emit(&Load{Gen: m.gen, Table: &l.tables[l.current]})
	}
}

func (m *Machine) rows(in *Rows) {
	l := &m.load
	l.asked = false
	rel := &l.tables[l.current].Relation
	for _, line := range in.Lines {
		var err error
		l.tuple, l.scratch, err = ParseCopyLine(line, len(rel.Columns), l.tuple, l.scratch[:0])
		if err != nil {
			f := Failure{Class: Broken, Why: fmt.Sprintf("loading %s: %v", rel.FullName(), err)}
			if m.stage.sub() {
				m.subFailed(f)
			} else {
				m.fail(f)
			}
			return
		}
		src := m.nextLoaded(SnapshotYes)
		m.write(m.before().row(OpRead, rel, OldNone, nil, l.tuple, src, m.now))
		l.rows++
		l.total++
	}
	if in.Done {
		src := m.nextLoaded(SnapshotLast)
		m.write(m.before().loaded(rel, l.rows, l.consistent, src, m.now))
		m.log.seal(true)
		l.current, l.rows = l.current+1, 0
	}
}

// drained goes on when everything written is committed. E then names the load's end,
// fsynced or not: a log that has lost any of it is below E, and is loaded anew.
func (m *Machine) drained() {
	m.log.seal(false)
	m.flush()
	if !m.log.idle() {
		return
	}
	if m.stage == stDrain {
		m.enter(stSaveTables)
	} else {
		m.enter(stSubSaveEvent)
	}
}

// tableRows are the rows that say the tables are loaded.
func (l *loading) tableRows(name string, row *Row) []TableRow {
	rows := make([]TableRow, 0, len(l.tables))
	for i := range l.tables {
		rows = append(rows, TableRow{Key: TableKey(name, &l.tables[i]), Consistent: l.consistent, Base: row.Consistent,
			SystemID: row.SystemID, Timeline: row.Timeline})
	}
	return rows
}

func (m *Machine) tablesSaved() {
	for _, t := range m.load.tables {
		m.tables.put(t, m.load.consistent)
	}
	m.load = loading{}
	if m.stage == stSaveTables {
		m.enter(stSaveStreaming)
		return
	}
	m.trouble.clear()
	m.tables.retryAt, m.tables.failures = 0, 0
	m.enter(stStream)
}
