package pgrepl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// CreateSlot implements port.Postgres. Slot, snapshot and load share one connection
// (USE_SNAPSHOT), so that none outlives the others.
func (d *Database) CreateSlot(ctx context.Context, slot, publication string, temporary bool) (port.Snapshot, error) {
	conn, err := d.connect(ctx, "create slot")
	if err != nil {
		return nil, err
	}
	point, err := d.createSlot(ctx, conn, slot, temporary)
	if err != nil {
		err = d.classify("create slot", d.blockers(ctx, conn, err))
		hangUp(conn)
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &snapshot{db: d, conn: conn, publication: publication, consistent: point, life: life, end: end}, nil
}

func (d *Database) createSlot(ctx context.Context, conn *pgconn.PgConn, slot string, temporary bool) (pos.LSN, error) {
	// Only lock_timeout ends the wait for running transactions; statement_timeout does not.
	if err := run(ctx, conn, fmt.Sprintf("SET lock_timeout = %d", d.opt.LockTimeout.Milliseconds())); err != nil {
		return 0, err
	}
	if err := run(ctx, conn, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return 0, err
	}
	made, err := pglogrepl.CreateReplicationSlot(ctx, conn, quoteIdent(slot), "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Temporary: temporary, SnapshotAction: "USE_SNAPSHOT"})
	if err != nil {
		return 0, err
	}
	if err := run(ctx, conn, "SET lock_timeout = 0"); err != nil {
		return 0, err
	}
	return pos.ParseLSN(made.ConsistentPoint)
}

// blockers adds to a lock timeout who holds the transactions that were waited for.
func (d *Database) blockers(ctx context.Context, conn *pgconn.PgConn, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "55P03" {
		return err
	}
	if e := run(ctx, conn, "ROLLBACK"); e != nil {
		return errors.Join(err, e)
	}
	rows, e := query(ctx, conn, `SELECT 'pid ' || pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
		UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts LIMIT 10`)
	if e != nil {
		return errors.Join(err, e)
	}
	var who []string
	for _, r := range rows {
		who = append(who, string(r[0]))
	}
	return fail("create slot", pgout.Unavailable, "end the transactions that are open, or wait for them",
		fmt.Errorf("transactions open for longer than %s block the slot: %s", d.opt.LockTimeout, strings.Join(who, ", ")))
}

// DropSlot implements port.Postgres.
func (d *Database) DropSlot(ctx context.Context, slot string) error {
	conn, err := d.connect(ctx, "drop slot")
	if err != nil {
		return err
	}
	defer hangUp(conn)
	err = d.classify("drop slot", pglogrepl.DropReplicationSlot(ctx, conn, quoteIdent(slot), pglogrepl.DropReplicationSlotOptions{}))
	if e, ok := errors.AsType[*port.PostgresError](err); ok && e.Class == pgout.NotFound {
		return nil
	}
	return err
}

// EndBackend implements port.Postgres. It ends pid only while that holds a slot, since
// a pid may have been given to somebody else since it was read.
func (d *Database) EndBackend(ctx context.Context, pid int) error {
	conn, err := d.connect(ctx, "end backend")
	if err != nil {
		return err
	}
	defer hangUp(conn)
	for {
		rows, err := query(ctx, conn, fmt.Sprintf("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid = %d", pid))
		if err != nil || len(rows) == 0 {
			return d.classify("end backend", err)
		}
		select {
		case <-ctx.Done():
			return fail("end backend", pgout.Unavailable, "", fmt.Errorf("backend %d was told to end and has not yet: %w", pid, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// snapshot implements port.Snapshot.
type snapshot struct {
	db          *Database
	publication string
	consistent  pos.LSN
	life        context.Context // ends with Close, and with it what runs
	end         context.CancelFunc

	mu      sync.Mutex // held by what runs
	conn    *pgconn.PgConn
	copying bool
}

func (s *snapshot) Consistent() pos.LSN { return s.consistent }

func (s *snapshot) Close() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	hangUp(s.conn)
}

// use runs f on the connection until ctx or the snapshot ends.
func (s *snapshot) use(ctx context.Context, op string, f func(ctx context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	return s.db.classify(op, f(ctx))
}

func (s *snapshot) Tables(ctx context.Context) (tables []pgout.Table, err error) {
	err = s.use(ctx, "describe tables", func(ctx context.Context) error {
		tables, err = readTables(ctx, s.conn, s.publication)
		return err
	})
	return tables, err
}

// batchBytes bounds what Next and Receive return at once, but for one large item.
const batchBytes = 512 << 10

func (s *snapshot) Next(ctx context.Context, table *pgout.Table) (lines [][]byte, done bool, err error) {
	err = s.use(ctx, "load "+table.FullName(), func(ctx context.Context) error {
		lines, done, err = s.next(ctx, table)
		return err
	})
	return lines, done, err
}

func (s *snapshot) next(ctx context.Context, table *pgout.Table) ([][]byte, bool, error) {
	if !s.copying {
		s.conn.Frontend().SendQuery(&pgproto3.Query{String: copySQL(table)})
		if err := s.conn.Frontend().Flush(); err != nil {
			return nil, false, err
		}
		s.copying = true
	}
	var lines [][]byte
	size := 0
	for size < batchBytes {
		msg, err := s.conn.ReceiveMessage(ctx)
		if err != nil {
			return nil, false, err
		}
		switch msg := msg.(type) {
		case *pgproto3.CopyData:
			lines = append(lines, append([]byte(nil), msg.Data...))
			size += len(msg.Data) + 64
		case *pgproto3.ErrorResponse:
			return nil, false, pgconn.ErrorResponseToPgError(msg)
		case *pgproto3.ReadyForQuery:
			s.copying = false
			return lines, true, nil
		}
	}
	return lines, false, nil
}

func copySQL(t *pgout.Table) string {
	columns := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = quoteIdent(c.Name)
	}
	where := ""
	if t.Filter != "" {
		where = " WHERE " + t.Filter
	}
	return fmt.Sprintf("COPY (SELECT %s FROM ONLY %s.%s%s) TO STDOUT", strings.Join(columns, ", "), quoteIdent(t.Schema), quoteIdent(t.Name), where)
}
