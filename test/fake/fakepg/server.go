package fakepg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

var _ port.Postgres = (*DB)(nil)

type slot struct {
	name               string
	temporary          bool
	lost               bool
	active             *conn
	confirmed, restart pos.LSN
}

// conn is one connection. Its end takes what belonged to it: the caller holds db.mu.
type conn struct {
	db    *DB
	pid   int
	err   error
	ended chan struct{}
}

func (db *DB) connect() *conn {
	db.nextPID++
	c := &conn{db: db, pid: db.nextPID, ended: make(chan struct{})}
	db.conns[c.pid] = c
	return c
}

func (c *conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	close(c.ended)
	delete(c.db.conns, c.pid)
	for name, s := range c.db.slots {
		if s.active == c {
			s.active = nil
			if s.temporary {
				delete(c.db.slots, name)
			}
		}
	}
	c.db.touch()
}

func refusal(op string, class pgout.Class, format string, args ...any) *port.PostgresError {
	return &port.PostgresError{Op: op, Class: class, Err: fmt.Errorf(format, args...)}
}

// enter begins an operation: faults first, then whether there is a server at all.
func (db *DB) enter(ctx context.Context, op, what string) error {
	if db.Fault != nil {
		if err := db.Fault(op, what); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return refusal(op, pgout.Unavailable, "%w", err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.down {
		return refusal(op, pgout.Unavailable, "connection refused")
	}
	return nil
}

func (db *DB) leave(op, what string) error {
	if db.After == nil {
		return nil
	}
	return db.After(op, what)
}

// Inspect implements port.Postgres.
func (db *DB) Inspect(ctx context.Context, slotName, publicationName string) (pgout.Server, error) {
	if err := db.enter(ctx, "inspect", slotName); err != nil {
		return pgout.Server{}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	s := pgout.Server{SystemID: db.systemID, Timeline: db.timeline, Version: 150018, Flush: db.flush, WALLevel: db.walLevel,
		Database: "app", Role: "millrace", Replication: true}
	if k := db.slots[slotName]; k != nil {
		s.Slot = &pgout.Slot{Name: slotName, Plugin: "pgoutput", Database: "app", WALStatus: "reserved", Restart: k.restart, Confirmed: k.confirmed}
		if k.lost {
			s.Slot.WALStatus = "lost"
		}
		if k.active != nil {
			s.Slot.ActivePID = k.active.pid
		}
	}
	if p := db.pub(publicationName); p != nil {
		s.Publication = &pgout.Publication{Name: publicationName, ViaRoot: p.viaRoot, Tables: db.published(p)}
	}
	return s, db.leave("inspect", slotName)
}

// published are a publication's tables as they are now.
func (db *DB) published(p *publication) []pgout.Table {
	var tables []pgout.Table
	for _, m := range p.members {
		if m.to != 0 {
			continue
		}
		t := db.tables[m.table]
		tables = append(tables, pgout.Table{Relation: *t.shape, Member: m.oid, Rows: int64(len(t.rows)),
			Keyless: t.shape.Identity != pgout.IdentityFull && t.pk == 0, NoSelect: t.denied})
	}
	slices.SortFunc(tables, func(a, b pgout.Table) int { return strings.Compare(a.Name, b.Name) })
	return tables
}

// CreateSlot implements port.Postgres.
func (db *DB) CreateSlot(ctx context.Context, name, publicationName string, temporary bool) (port.Snapshot, error) {
	if err := db.enter(ctx, "create slot", name); err != nil {
		return nil, err
	}
	if err := db.waitForRunning(ctx); err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.slots[name] != nil {
		return nil, refusal("create slot", pgout.Misconfigured, "replication slot %q already exists", name)
	}
	if db.pub(publicationName) == nil {
		return nil, refusal("create slot", pgout.NotFound, "publication %q does not exist", publicationName)
	}
	c := db.connect()
	s := &slot{name: name, temporary: temporary, confirmed: db.lsn, restart: db.lsn}
	if temporary {
		s.active = c
	}
	db.slots[name] = s
	snap := &snapshot{conn: c, consistent: db.lsn, tables: db.published(db.pub(publicationName)), rows: map[string][]string{}}
	for _, t := range snap.tables {
		for _, row := range db.tables[t.Name].rows {
			snap.rows[t.Name] = append(snap.rows[t.Name], string(pgout.AppendCopyLine(nil, row))+"\n")
		}
		slices.Sort(snap.rows[t.Name])
	}
	return snap, db.leave("create slot", name)
}

// waitForRunning waits until the transactions that run now have ended.
func (db *DB) waitForRunning(ctx context.Context) error {
	db.mu.Lock()
	var wait []*Tx
	for tx := range db.running {
		wait = append(wait, tx)
	}
	limit := time.NewTimer(db.LockTimeout)
	defer limit.Stop()
	for slices.ContainsFunc(wait, func(tx *Tx) bool { return !tx.done }) {
		changed := db.changed
		db.mu.Unlock()
		select {
		case <-ctx.Done():
			return refusal("create slot", pgout.Unavailable, "%w", ctx.Err())
		case <-limit.C:
			return refusal("create slot", pgout.Unavailable, "transactions open for longer than %s block the slot: %d", db.LockTimeout, len(wait))
		case <-changed:
		}
		db.mu.Lock()
	}
	db.mu.Unlock()
	return nil
}

// DropSlot implements port.Postgres.
func (db *DB) DropSlot(ctx context.Context, name string) error {
	if err := db.enter(ctx, "drop slot", name); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if s := db.slots[name]; s != nil && s.active != nil {
		err := refusal("drop slot", pgout.SlotInUse, "replication slot %q is active for PID %d", name, s.active.pid)
		err.PID = s.active.pid
		return err
	}
	delete(db.slots, name)
	db.touch()
	return db.leave("drop slot", name)
}

// EndBackend implements port.Postgres.
func (db *DB) EndBackend(ctx context.Context, pid int) error {
	if err := db.enter(ctx, "end backend", fmt.Sprint(pid)); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if c := db.conns[pid]; c != nil {
		c.fail(broken("terminating connection due to administrator command"))
	}
	return db.leave("end backend", fmt.Sprint(pid))
}

// snapshot implements port.Snapshot.
type snapshot struct {
	*conn
	consistent pos.LSN
	tables     []pgout.Table
	rows       map[string][]string
	at         int
}

func (s *snapshot) Consistent() pos.LSN { return s.consistent }

func (s *snapshot) alive(ctx context.Context, op, what string) error {
	if err := s.db.enter(ctx, op, what); err != nil {
		s.Close()
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return s.err
}

func (s *snapshot) Tables(ctx context.Context) ([]pgout.Table, error) {
	if err := s.alive(ctx, "describe tables", ""); err != nil {
		return nil, err
	}
	return slices.Clone(s.tables), nil
}

func (s *snapshot) Next(ctx context.Context, table *pgout.Table) ([][]byte, bool, error) {
	if err := s.alive(ctx, "load", table.FullName()); err != nil {
		return nil, false, err
	}
	s.db.mu.Lock()
	denied := s.db.tables[table.Name].denied
	s.db.mu.Unlock()
	if denied {
		s.Close()
		return nil, false, refusal("load", pgout.Denied, "permission denied for table %s", table.Name)
	}
	var lines [][]byte
	for _, row := range s.rows[table.Name][s.at:] {
		if len(lines) == s.db.batch() {
			s.at += len(lines)
			return lines, false, nil
		}
		lines = append(lines, []byte(row))
	}
	s.at = 0
	return lines, true, nil
}

func (s *snapshot) Close() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.fail(broken("the snapshot was closed"))
}

func (db *DB) batch() int {
	if db.Batch > 0 {
		return db.Batch
	}
	return 100
}
