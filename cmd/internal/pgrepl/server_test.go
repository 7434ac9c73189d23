package pgrepl

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/actors/port"
	"millrace/test/pgserver"
	"millrace/test/porttest/pgtest"
)

// live is the cluster of this package's tests.
var live *pgserver.Server

func TestMain(m *testing.M) { os.Exit(withServer(m)) }

func withServer(m *testing.M) int {
	var err error
	live, err = pgserver.Start("", pgserver.Setting("wal_sender_timeout", "1s"), pgserver.Setting("max_prepared_transactions", "5"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := live.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// session is a plain connection.
type session struct {
	t    *testing.T
	conn *pgconn.PgConn
}

func connect(t *testing.T) *session {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), live.DSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(conn) })
	return &session{t, conn}
}

func (s *session) exec(format string, args ...any) string {
	s.t.Helper()
	results, err := s.conn.Exec(context.Background(), fmt.Sprintf(format, args...)).ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, r := range results {
		for _, row := range r.Rows {
			for _, v := range row {
				out = append(out, string(v))
			}
		}
	}
	return strings.Join(out, "|")
}

// clean drops everything that an earlier test made.
func clean(t *testing.T) *session {
	t.Helper()
	s := connect(t)
	s.exec(`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL`)
	for s.exec(`SELECT count(*) FROM pg_replication_slots WHERE active`) != "0" {
		<-time.After(10 * time.Millisecond)
	}
	s.exec(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots`)
	for _, name := range strings.Split(s.exec(`SELECT quote_ident(pubname) FROM pg_publication`), "|") {
		if name != "" {
			s.exec(`DROP PUBLICATION %s`, name)
		}
	}
	s.exec(`DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	return s
}

func open(t *testing.T, opt Options) *Database {
	t.Helper()
	d, err := Open(live.DSN(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestContract(t *testing.T) {
	pgtest.Run(t, func(t *testing.T) pgtest.Server {
		s := clean(t)
		s.exec(`CREATE TABLE t (id int8 PRIMARY KEY, text text); CREATE TABLE noise (id int8); CREATE PUBLICATION pub FOR TABLE t`)
		return &contract{t: t}
	})
}

type contract struct{ t *testing.T }

func (c *contract) Postgres() port.Postgres {
	return open(c.t, Options{LockTimeout: 300 * time.Millisecond, StatusEvery: 100 * time.Millisecond})
}

func (c *contract) Begin() pgtest.Tx {
	s := connect(c.t)
	s.exec("BEGIN")
	return tx{s}
}

func (c *contract) Crash() {
	c.t.Helper()
	if err := live.Stop(pgserver.Immediate); err != nil {
		c.t.Fatal(err)
	}
	if err := live.Restart(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *contract) DropPublication() { connect(c.t).exec(`DROP PUBLICATION pub`) }

func (c *contract) CreatePublication() { connect(c.t).exec(`CREATE PUBLICATION pub FOR TABLE t`) }

func (c *contract) Noise() { connect(c.t).exec(`INSERT INTO noise VALUES (1)`) }

type tx struct{ s *session }

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func (t tx) Insert(id, text string) { t.s.exec(`INSERT INTO t VALUES (%s, %s)`, id, quote(text)) }
func (t tx) Update(id, newID, text string) {
	t.s.exec(`UPDATE t SET id = %s, text = %s WHERE id = %s`, newID, quote(text), id)
}
func (t tx) Delete(id string) { t.s.exec(`DELETE FROM t WHERE id = %s`, id) }
func (t tx) Truncate()        { t.s.exec(`TRUNCATE t`) }
func (t tx) Savepoint()       { t.s.exec(`SAVEPOINT s`) }
func (t tx) RollbackTo()      { t.s.exec(`ROLLBACK TO s`) }
func (t tx) Commit()          { t.s.exec(`COMMIT`) }
func (t tx) Rollback()        { t.s.exec(`ROLLBACK`) }
