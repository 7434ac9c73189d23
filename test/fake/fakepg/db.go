package fakepg

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/core/pgout"
	"millrace/core/pos"
)

// DB is the server with its one database, "app".
type DB struct {
	// Fault is consulted before each operation of the port, After once it took effect;
	// an error is what the operation returns. Set them before use.
	Fault, After func(op, what string) error
	// LockTimeout bounds the wait of a slot for running transactions.
	LockTimeout time.Duration
	// Batch bounds the messages of one Receive and the rows of one Next. 0: 100.
	Batch int
	// KeepaliveEvery is the time between keepalives on an idle stream. 0: 5 s.
	KeepaliveEvery time.Duration

	mu       sync.Mutex
	systemID string
	timeline int
	walLevel string
	down     bool
	hold     bool // commits are not flushed
	frozen   bool // streams send nothing
	start    pos.LSN
	flush    pos.LSN
	lsn      pos.LSN // where the next record begins
	nextOID  uint32
	nextXID  uint32
	nextPID  int
	tables   map[string]*table
	pubs     map[string][]*publication // every one of a name there ever was, oldest first
	wal      []*record
	running  map[*Tx]bool
	slots    map[string]*slot
	conns    map[int]*conn
	changed  chan struct{} // closed and replaced when anything changes
}

type table struct {
	shape *pgout.Relation // as pgoutput tells it; replaced, never changed
	pk    int             // columns of the primary key, from the first
	rows  map[string]pgout.Tuple
	locks map[string]*Tx
	// denied: the capture may not read it.
	denied bool
}

type publication struct {
	oid     uint32
	viaRoot bool
	members []member
	// It exists from one LSN to another, 0: to this day.
	from, to pos.LSN
}

// member is one stay of a table in a publication, from one LSN to another.
type member struct {
	table    string
	oid      uint32
	from, to pos.LSN
}

// record is one commit in the WAL, or another record that only takes room.
type record struct {
	final, end pos.LSN
	xid        uint32
	micros     int64
	changes    []change
}

type change struct {
	op       pgout.Op
	tables   []string // more than one only for a truncate
	shapes   []*pgout.Relation
	key, was string // row keys after and before
	old, new pgout.Tuple
	sent     pgout.Tuple // new as it goes on the wire, with unchanged values
}

// New returns a server with wal_level logical and nothing in it.
func New() *DB {
	db := &DB{LockTimeout: time.Minute, systemID: "7000000000000000001", timeline: 1, walLevel: "logical",
		start: 0x1000000, nextOID: 16384, nextXID: 700, nextPID: 100, tables: map[string]*table{}, pubs: map[string][]*publication{},
		running: map[*Tx]bool{}, slots: map[string]*slot{}, conns: map[int]*conn{}, changed: make(chan struct{})}
	db.lsn, db.flush = db.start, db.start
	return db
}

func (db *DB) touch() {
	close(db.changed)
	db.changed = make(chan struct{})
}

func (db *DB) oid() uint32 {
	db.nextOID++
	return db.nextOID
}

// advance makes room in the WAL for a record and returns where it begins.
func (db *DB) advance(size pos.LSN) pos.LSN {
	at := db.lsn
	db.lsn += size
	if !db.hold {
		db.flush = db.lsn
	}
	db.touch()
	return at
}

// CreateTable makes public.name, whose primary key is the first keys columns (0: none).
func (db *DB) CreateTable(name string, identity pgout.Identity, keys int, columns ...pgout.Column) {
	db.mu.Lock()
	defer db.mu.Unlock()
	t := &table{pk: keys, rows: map[string]pgout.Tuple{}, locks: map[string]*Tx{}}
	t.shape = shape(db.oid(), name, identity, keys, columns)
	db.tables[name] = t
	db.advance(64)
}

func shape(oid uint32, name string, identity pgout.Identity, keys int, columns []pgout.Column) *pgout.Relation {
	columns = slices.Clone(columns)
	for i := range columns {
		columns[i].Key = identity == pgout.IdentityFull || identity == pgout.IdentityDefault && i < keys
	}
	return &pgout.Relation{OID: oid, Schema: "public", Name: name, Identity: identity, Columns: columns}
}

// AddColumn appends a column, NULL in every row.
func (db *DB) AddColumn(name string, column pgout.Column) {
	db.mu.Lock()
	defer db.mu.Unlock()
	t := db.tables[name]
	t.shape = shape(t.shape.OID, name, t.shape.Identity, t.pk, append(slices.Clone(t.shape.Columns), column))
	for key, row := range t.rows {
		t.rows[key] = append(slices.Clone(row), pgout.Value{Kind: pgout.Null})
	}
	db.wal = append(db.wal, &record{final: db.lsn, end: db.lsn + 64, changes: []change{{op: opAddColumn, tables: []string{name}, shapes: []*pgout.Relation{t.shape}}}})
	db.advance(64)
}

// opAddColumn marks an AddColumn in the WAL, which nobody is sent.
const opAddColumn pgout.Op = 'A'

// CreatePublication makes a publication of tables.
func (db *DB) CreatePublication(name string, tables ...string) {
	db.mu.Lock()
	// A record that begins here sees it.
	db.pubs[name] = append(db.pubs[name], &publication{oid: db.oid(), from: db.lsn - 1})
	db.mu.Unlock()
	for _, t := range tables {
		db.Publish(name, t)
	}
}

// DropPublication removes a publication.
func (db *DB) DropPublication(name string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.pub(name).to = db.advance(64)
}

// pub is a publication as it is now, nil if there is none.
func (db *DB) pub(name string) *publication {
	all := db.pubs[name]
	if len(all) == 0 || all[len(all)-1].to != 0 {
		return nil
	}
	return all[len(all)-1]
}

// pubAt is a publication as the catalog had it at an LSN, nil if there was none.
func (db *DB) pubAt(name string, lsn pos.LSN) *publication {
	for _, p := range db.pubs[name] {
		if p.from < lsn && (p.to == 0 || lsn <= p.to) {
			return p
		}
	}
	return nil
}

// SetReadable says whether the capture's role may SELECT a table.
func (db *DB) SetReadable(table string, readable bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.tables[table].denied = !readable
}

// Publish adds a table to a publication.
func (db *DB) Publish(publication, table string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	p := db.pub(publication)
	p.members = append(p.members, member{table: table, oid: db.oid(), from: db.advance(64)})
}

// Unpublish takes a table out of a publication.
func (db *DB) Unpublish(publication, table string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	p := db.pub(publication)
	for i := range p.members {
		if m := &p.members[i]; m.table == table && m.to == 0 {
			m.to = db.advance(64)
		}
	}
}

// at returns the stay of a table at an LSN.
func (p *publication) at(table string, lsn pos.LSN) (member, bool) {
	for _, m := range p.members {
		if m.table == table && m.from < lsn && (m.to == 0 || lsn <= m.to) {
			return m, true
		}
	}
	return member{}, false
}

// Noise takes room in the WAL that concerns no published table.
func (db *DB) Noise(bytes int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.advance(pos.LSN(bytes))
}

// HoldFlush keeps later commits from being flushed, so that a Crash loses them; they
// are not sent either.
func (db *DB) HoldFlush(hold bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.hold = hold
	if !hold {
		db.flush = db.lsn
	}
	db.touch()
}

// Flushed is the end of the flushed WAL.
func (db *DB) Flushed() pos.LSN {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.flush
}

// Rows returns a table's committed rows by the text of their key, each as the text of
// its columns in COPY's format.
func (db *DB) Rows(name string) map[string]string {
	db.mu.Lock()
	defer db.mu.Unlock()
	rows := map[string]string{}
	for key, row := range db.tables[name].rows {
		rows[key] = string(pgout.AppendCopyLine(nil, row))
	}
	return rows
}

// Keys returns the texts of the keys of a table's committed rows, sorted.
func (db *DB) Keys(name string) []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Sorted(maps.Keys(db.tables[name].rows))
}

// Row returns a committed row by the text of its key, nil if there is none.
func (db *DB) Row(name, key string) pgout.Tuple {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.tables[name].rows[key])
}

// Columns returns the names of a table's columns.
func (db *DB) Columns(name string) []string {
	db.mu.Lock()
	defer db.mu.Unlock()
	var names []string
	for _, c := range db.tables[name].shape.Columns {
		names = append(names, c.Name)
	}
	return names
}

func rowKey(row pgout.Tuple, n int) string {
	if n == 0 {
		n = len(row)
	}
	var b strings.Builder
	for i, v := range row[:n] {
		if i > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%s", v.Text)
	}
	return b.String()
}

// apply puts one committed change into the tables.
func (db *DB) apply(c *change) {
	t := db.tables[c.tables[0]]
	switch c.op {
	case pgout.OpCreate:
		t.rows[c.key] = c.new
	case pgout.OpUpdate:
		delete(t.rows, c.was)
		t.rows[c.key] = c.new
	case pgout.OpDelete:
		delete(t.rows, c.was)
	case pgout.OpTruncate:
		for _, name := range c.tables {
			clear(db.tables[name].rows)
		}
	case opAddColumn:
		t.shape = c.shapes[0]
		for key, row := range t.rows {
			t.rows[key] = append(slices.Clone(row), pgout.Value{Kind: pgout.Null})
		}
	case pgout.OpRead, pgout.OpMessage: // a capture's, not a client's
	}
}
