package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/test/fold"
	"millrace/test/pgserver"
	"millrace/test/shop"
)

// database is one that a node captures.
type database struct {
	t      *testing.T
	server *pgserver.Server
	name   string // also of its slot
	url    string // superuser's
	marks  int
}

var databases atomic.Int64

// markSQL makes a table mark, in a publication of the shop's name.
const markSQL = "CREATE TABLE mark (n int PRIMARY KEY); CREATE PUBLICATION millrace_shop FOR TABLE mark;"

// newDatabase makes a database on the shared cluster with a table mark, in a
// publication of the shop's name, and runs the statements in it.
func newDatabase(t *testing.T, sql string) *database {
	t.Helper()
	server, err := clusters.get()
	must(t, err)
	return databaseOn(t, server, markSQL+sql)
}

// databaseOn makes a database on a server and runs the statements in it.
func databaseOn(t *testing.T, server *pgserver.Server, sql string) *database {
	t.Helper()
	d := &database{t: t, server: server, name: fmt.Sprintf("d%d", databases.Add(1))}
	_, err := server.PSQL("CREATE DATABASE " + d.name)
	must(t, err)
	d.url, err = shop.URL(server.DSN(), "postgres", d.name)
	must(t, err)
	d.exec(sql)
	return d
}

// adopt takes the shop's database, which shop.Create made at url.
func adopt(t *testing.T, server *pgserver.Server, url string) *database {
	return &database{t: t, server: server, name: shop.Database, url: url}
}

// capture configures the capture of the database into the stream shop.
func (d *database) capture(more string) string {
	d.t.Helper()
	url, err := shop.URL(d.url, role, d.name)
	must(d.t, err)
	return fmt.Sprintf("name = \"shop\"\nurl = %q\nslot = %q\n%s", url, d.name, more)
}

// exec runs statements as the superuser, in a transaction of their own unless they
// begin one.
func (d *database) exec(sql string) {
	d.t.Helper()
	must(d.t, d.try(sql))
}

func (d *database) try(sql string) error {
	_, err := d.ask(sql)
	return err
}

// value gives the one value that a statement returns, "" for NULL.
func (d *database) value(sql string) string {
	d.t.Helper()
	rows, err := d.ask(sql)
	must(d.t, err)
	if len(rows) != 1 || len(rows[0]) != 1 {
		d.t.Fatalf("%s: %d rows", sql, len(rows))
	}
	return string(rows[0][0])
}

func (d *database) ask(sql string) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, d.url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%.200s: %w", sql, err)
	}
	if len(results) == 0 {
		return nil, nil
	}
	return results[len(results)-1].Rows, nil
}

// number is value for a whole number.
func (d *database) number(sql string) int64 {
	d.t.Helper()
	v, err := strconv.ParseInt(d.value(sql), 10, 64)
	must(d.t, err)
	return v
}

// retained is the WAL that the server keeps for the slot, in bytes.
func (d *database) retained() int64 {
	d.t.Helper()
	return d.number(fmt.Sprintf("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = '%s'", d.name))
}

// caughtUp commits a mark and waits until the stream ends with it. Nobody else may
// write meanwhile.
func (d *database) caughtUp(n *node, limit time.Duration) {
	d.t.Helper()
	d.marks++
	table, column := "public.mark", "n"
	if d.name == shop.Database {
		must(d.t, shop.Mark(context.Background(), d.url, 0, d.marks))
		table = "public.audit"
	} else {
		d.exec(fmt.Sprintf("INSERT INTO mark VALUES (%d)", d.marks))
	}
	want := strconv.Itoa(d.marks)
	eventually(d.t, limit, "the stream ends with the last commit", func() (bool, string) {
		n.alive()
		records, err := n.fetch("shop", "last", 0)
		if err != nil || len(records) == 0 {
			return false, fmt.Sprint(len(records), " records: ", err)
		}
		e := records[len(records)-1].event(d.t)
		return e.Table() == table && e.After[column].Text == want, e.String()
	})
}

// verdict is what a stream adds up to.
type verdict struct {
	records []record // without those of tables too large to keep, see keep
	ledger  fold.Ledger
	rows    int // equal in PostgreSQL and the stream
}

// verify reads the whole stream with the command and holds it against the database:
// nothing is missing, doubled or out of order, and each table adds up to its rows.
func (d *database) verify(n *node) *verdict {
	d.t.Helper()
	ctx := context.Background()
	tables, err := shop.Tables(ctx, d.url)
	must(d.t, err)
	keys := map[string][]string{}
	for _, t := range tables {
		keys[t.Name] = t.Key
	}
	v, folded := &verdict{}, fold.New(keys)
	first, wrong := true, 0
	n.readAll("shop", "first", func(r record) {
		if !first && r.Offset != v.records[len(v.records)-1].Offset+1 {
			d.t.Fatalf("offset %s follows offset %s", r.Offset, v.records[len(v.records)-1].Offset)
		}
		first = false
		e := r.event(d.t)
		if err := v.ledger.Apply(r.Offset, e); err != nil && wrong < 5 {
			wrong++
			d.t.Error(err)
			return
		}
		must(d.t, folded.Apply(r.Offset, e))
		v.records = append(v.records, r)
	})
	if err := v.ledger.End(); err != nil {
		d.t.Error(err)
	}
	for _, t := range tables {
		v.rows += d.compare(folded, t)
	}
	return v
}

func (d *database) compare(folded *fold.Tables, t shop.Table) int {
	d.t.Helper()
	c := folded.Compare(t.Name)
	must(d.t, shop.Rows(context.Background(), d.url, t, func(columns []string, row [][]byte) error {
		values := make([]fold.Value, len(row))
		for i, text := range row {
			values[i] = fold.Value{Text: string(text), Null: text == nil}
		}
		return c.Row(columns, values)
	}))
	rows, err := c.End()
	must(d.t, err)
	return rows
}
