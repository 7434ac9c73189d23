package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"millrace/core/pos"
	"millrace/test/fold"
	"millrace/test/pgserver"
	"millrace/test/shop"
)

// TestTheOracleOnPostgreSQLItself proves workload, fold and comparison without the
// node: pgoutput's messages, read over SQL and turned into records here in the
// plainest way, must fold into PostgreSQL's tables; and a message left out must show.
func TestTheOracleOnPostgreSQLItself(t *testing.T) {
	ctx := context.Background()
	server := serve(t)
	url, err := shop.Create(ctx, server.DSN(), 300)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := shop.Tables(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	plain := &capture{t: t, relations: map[uint32]*pglogrepl.RelationMessage{}}
	query(t, url, "SELECT pg_create_logical_replication_slot('plain', 'pgoutput')")
	for _, table := range tables {
		plain.load(ctx, url, table)
	}
	w := shop.Start(url, 4, 0, 11)
	for deadline := time.After(30 * time.Second); w.Commits() < 300; {
		select {
		case err := <-w.Failed():
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("only %d commits in 30 s", w.Commits())
		case <-time.After(10 * time.Millisecond):
		}
	}
	acked := w.Stop()
	plain.stream(url)

	judge := func(events []*fold.Event) *check {
		c := newCheck(tables)
		for i, e := range events {
			if err := c.visit(pos.Offset(i), e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.compare(ctx, url, tables, acked); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := judge(plain.events)
	if c.first != nil || c.ledger.Commits != w.Commits() {
		t.Errorf("%d commits and first difference %v, want %d and none", c.ledger.Commits, c.first, w.Commits())
	}
	t.Logf("%d events, %d commits, %d tables", c.ledger.Events, c.ledger.Commits, len(tables))
	plain.spoil(judge)
}

// capture makes records of pgoutput's messages.
type capture struct {
	t         *testing.T
	relations map[uint32]*pglogrepl.RelationMessage
	events    []*fold.Event
	commit    pglogrepl.LSN
	seq       int64
}

func (c *capture) load(ctx context.Context, url string, table shop.Table) {
	err := shop.Rows(ctx, url, table, func(columns []string, row [][]byte) error {
		after := map[string]any{}
		for i, name := range columns {
			after[name] = text(row[i])
		}
		c.emit("r", table.Name, "yes", map[string]any{"after": after})
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func text(b []byte) any {
	if b == nil {
		return nil
	}
	return string(b)
}

// emit writes a record as JSON and reads it back.
func (c *capture) emit(op, table, snapshot string, rest map[string]any) {
	schema, name, _ := strings.Cut(table, ".")
	rest["op"] = op
	rest["source"] = map[string]any{"lsn": c.commit.String(), "seq": c.seq, "last": false, "schema": schema, "table": name, "snapshot": snapshot}
	c.seq++
	record, err := json.Marshal(rest)
	if err != nil {
		c.t.Fatal(err)
	}
	e, err := fold.ParseEvent(record)
	if err != nil {
		c.t.Fatal(err)
	}
	c.events = append(c.events, &e)
}

// stream reads what the slot holds.
func (c *capture) stream(url string) {
	for _, data := range query(c.t, url, "SELECT data FROM pg_logical_slot_peek_binary_changes('plain', NULL, NULL, 'proto_version', '1', 'publication_names', 'millrace_shop')") {
		raw, err := hex.DecodeString(strings.TrimPrefix(data, `\x`))
		if err != nil {
			c.t.Fatal(err)
		}
		message, err := pglogrepl.Parse(raw)
		if err != nil {
			c.t.Fatal(err)
		}
		c.message(message)
	}
}

func (c *capture) message(message pglogrepl.Message) {
	switch m := message.(type) {
	case *pglogrepl.RelationMessage:
		c.relations[m.RelationID] = m
	case *pglogrepl.BeginMessage:
		c.commit, c.seq = m.FinalLSN, 0
	case *pglogrepl.CommitMessage:
		c.events[len(c.events)-1].Source.Last = true
	case *pglogrepl.InsertMessage:
		c.row("c", m.RelationID, 0, nil, m.Tuple)
	case *pglogrepl.UpdateMessage:
		c.row("u", m.RelationID, m.OldTupleType, m.OldTuple, m.NewTuple)
	case *pglogrepl.DeleteMessage:
		c.row("d", m.RelationID, m.OldTupleType, m.OldTuple, nil)
	case *pglogrepl.TruncateMessage:
		for _, id := range m.RelationIDs {
			c.row("t", id, 0, nil, nil)
		}
	}
}

// row writes a change. An old tuple that is a key holds the key's columns only.
func (c *capture) row(op string, relation uint32, kind uint8, old, fresh *pglogrepl.TupleData) {
	rel := c.relations[relation]
	rest := map[string]any{}
	if old != nil {
		before := map[string]any{}
		for i, v := range old.Columns {
			if kind == pglogrepl.UpdateMessageTupleTypeOld || rel.Columns[i].Flags == 1 {
				before[rel.Columns[i].Name] = text(v.Data)
			}
		}
		rest["before"] = before
	}
	if fresh != nil {
		after, unchanged := map[string]any{}, []string{}
		for i, v := range fresh.Columns {
			name := rel.Columns[i].Name
			if v.DataType == pglogrepl.TupleDataTypeToast {
				unchanged = append(unchanged, name)
			} else {
				after[name] = text(v.Data)
			}
		}
		rest["after"], rest["unchanged"] = after, unchanged
	}
	c.emit(op, rel.Namespace+"."+rel.RelationName, "no", rest)
}

// spoil leaves out, doubles and exchanges one event of each kind in turn: each time
// a difference must be found.
func (c *capture) spoil(judge func([]*fold.Event) *check) {
	seen := map[string]bool{}
	for i, e := range c.events {
		kind := e.Op + " " + e.Table()
		if seen[kind] || i < len(c.events)/3 || i+1 == len(c.events) {
			continue
		}
		seen[kind] = true
		before, after := c.events[:i], c.events[i+1:]
		for what, events := range map[string][]*fold.Event{
			"left out":  join(before, after),
			"doubled":   join(before, []*fold.Event{e, e}, after),
			"exchanged": join(before, []*fold.Event{after[0], e}, after[1:]),
		} {
			if c2 := judge(events); c2.first == nil {
				c.t.Errorf("event %d, %s, was %s, and nothing differed", i, e, what)
			}
		}
	}
	if len(seen) < 20 {
		c.t.Errorf("only %d kinds of events were spoilt: %v", len(seen), seen)
	}
}

func join(parts ...[]*fold.Event) (all []*fold.Event) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// query gives the first column of a statement's rows.
func query(t *testing.T, url, sql string) (column []string) {
	ctx := context.Background()
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"datestyle": "ISO", "intervalstyle": "iso_8601", "timezone": "UTC",
		"extra_float_digits": "3", "bytea_output": "hex", "lc_monetary": "C"} {
		cfg.RuntimeParams[name] = value
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results[0].Rows {
		column = append(column, string(row[0]))
	}
	if err := conn.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return column
}

// serve starts a PostgreSQL that ends with the test. Who it runs as must get through
// the folders above its own.
func serve(t *testing.T) *pgserver.Server {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := pgserver.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(pgserver.Immediate); err != nil {
			t.Error(err)
		}
	})
	return server
}
