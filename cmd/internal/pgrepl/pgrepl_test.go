package pgrepl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
)

// odd are values whose text depends on settings, or that others print wrongly.
var odd = []struct{ kind, value string }{
	{"int2", "-32768"}, {"int4", "2147483647"}, {"int8", "-9223372036854775808"},
	{"float4", "'NaN'"}, {"float4", "0.1"}, {"float8", "'-Infinity'"}, {"float8", "0.1::float8 + 0.2"}, {"float8", "1e308"}, {"float8", "'-0'"}, {"float8", "5e-324"},
	{"numeric", "'NaN'"}, {"numeric", "'Infinity'"}, {"numeric", "'-Infinity'"}, {"numeric", "1.00"}, {"numeric", "1e-16383"}, {"numeric(5,-2)", "12345"}, {"numeric", "repeat('9', 1000)::numeric"},
	{"bool", "true"}, {"bool", "false"}, {"money", "'-1234.56'"}, {"text", "''"}, {"text", `E'tab\tnl\nback\\slash\r "quote" \b\f\v'`}, {"text", "'\\N'"}, {"text", "chr(233) || chr(128512)"},
	{"char(5)", "'ab'"}, {"varchar(3)", "'abc'"}, {"name", "'n'"}, {`"char"`, "'c'"},
	{"bytea", `'\x00ff5c'`}, {"date", "'infinity'"}, {"date", "'0044-03-15 BC'"}, {"date", "'2026-03-01'"},
	{"timestamp", "'-infinity'"}, {"timestamp", "'4713-01-01 00:00:00 BC'"}, {"timestamp", "'294276-12-31 23:59:59.999999'"},
	{"timestamptz", "'2026-03-01 12:00:00.123456+09'"}, {"timestamptz", "'infinity'"}, {"timestamptz", "'0001-01-01 00:00:00+00 BC'"}, {"time", "'24:00:00'"}, {"timetz", "'12:00:00+09'"},
	{"interval", "'1 year -2 days 03:04:05.678901'"}, {"interval", "'-1 month'"}, {"interval", "'0'"},
	{"uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"}, {"json", `'{"a": 1,  "b":null}'`}, {"jsonb", `'{"b":[1,2.50],"a":"\u00e9"}'`}, {"xml", "'<a>1</a>'"},
	{"int4[]", "'{1,NULL,3}'"}, {"text[]", `ARRAY['a,b','c"d','',NULL]`}, {"float8[]", "'{NaN,0.1}'"}, {"timestamptz[]", "ARRAY['2026-03-01 12:00:00+09'::timestamptz]"},
	{"int4range", "'[1,5)'"}, {"tstzrange", "'[2026-03-01 00:00:00+09,infinity]'"}, {"nummultirange", "'{[1,2),[3,4)}'"},
	{"inet", "'10.0.0.1/8'"}, {"cidr", "'10.0.0.0/8'"}, {"macaddr", "'08:00:2b:01:02:03'"}, {"bit(3)", "B'101'"}, {"varbit", "B'1'"}, {"point", "'(1.1,2)'"}, {"tsvector", "'a:1 b:2'"},
	{"public.mood", "'sad ''n'' \"low\"'"}, {"public.positive", "7"}, {"public.pair", `ROW(1, 'x,"y"')`}, {"regclass", "'public.other'"}, {"pg_lsn", "'1/A3000028'"}, {"oid", "42"}, {"int4", "NULL"},
}

// What a role may not read Inspect tells, as COPY would find it.
func TestInspectTellsPrivileges(t *testing.T) {
	s := clean(t)
	s.exec(`DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN REPLICATION; DROP SCHEMA IF EXISTS hidden CASCADE; CREATE SCHEMA hidden;
		GRANT USAGE ON SCHEMA public TO reader;
		CREATE TABLE good (id int8 PRIMARY KEY); GRANT SELECT ON good TO reader;
		CREATE TABLE columns (id int8 PRIMARY KEY, a text, b text); GRANT SELECT (id, a) ON columns TO reader;
		CREATE TABLE allcolumns (id int8 PRIMARY KEY, a text); GRANT SELECT (id, a) ON allcolumns TO reader;
		CREATE TABLE none (id int8 PRIMARY KEY);
		CREATE TABLE nocolumns (); ALTER TABLE nocolumns REPLICA IDENTITY FULL; GRANT SELECT ON nocolumns TO reader;
		CREATE TABLE policy (id int8 PRIMARY KEY); ALTER TABLE policy ENABLE ROW LEVEL SECURITY; GRANT SELECT ON policy TO reader;
		CREATE TABLE hidden.t (id int8 PRIMARY KEY); GRANT SELECT ON hidden.t TO reader;
		CREATE PUBLICATION pub FOR ALL TABLES`)
	defer s.exec(`DROP OWNED BY reader; DROP ROLE reader; DROP SCHEMA hidden CASCADE`)
	d, err := Open(fmt.Sprintf("postgres://reader@127.0.0.1:%d/postgres?sslmode=disable", live.Port()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := d.Inspect(t.Context(), "slot", "pub")
	if err != nil {
		t.Fatal(err)
	}
	snap, err := d.CreateSlot(t.Context(), "slot", "pub", true)
	if err != nil {
		t.Fatal(err)
	}
	snap.Close()
	want := map[string]string{"public.good": "", "public.columns": "select", "public.allcolumns": "", "public.none": "select", "public.nocolumns": "", "public.policy": "rls", "hidden.t": "usage"}
	for _, table := range server.Publication.Tables {
		got := ""
		for what, is := range map[string]bool{"select": table.NoSelect, "usage": table.NoUsage, "rls": table.RowSecurity} {
			if is {
				got += what
			}
		}
		if got != want[table.FullName()] {
			t.Errorf("%s: %q, want %q", table.FullName(), got, want[table.FullName()])
		}
		delete(want, table.FullName())
		// The load itself agrees.
		snap, err := d.CreateSlot(t.Context(), "slot_"+table.Name, "pub", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := snap.Next(t.Context(), &table); (err == nil) != table.Readable() {
			t.Errorf("%s: loading it: %v", table.FullName(), err)
		}
		snap.Close()
	}
	if len(want) != 0 {
		t.Errorf("not seen: %v", want)
	}
}

// The load and the stream print alike, whatever the role's own settings are.
func TestLoadAndStreamPrintAlike(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TYPE public.mood AS ENUM ('ok', 'sad ''n'' "low"'); CREATE DOMAIN public.positive AS int4 CHECK (VALUE > 0);
		CREATE TYPE public.pair AS (a int4, b text); CREATE TABLE public.other ()`)
	var columns, values []string
	for i, o := range odd {
		columns = append(columns, fmt.Sprintf("c%d %s", i, o.kind))
		values = append(values, o.value)
	}
	s.exec(`CREATE TABLE odd (%s); CREATE PUBLICATION pub FOR TABLE odd`, strings.Join(columns, ", "))
	insert := `INSERT INTO odd VALUES (` + strings.Join(values, ", ") + `)`
	s.exec("%s", insert)
	for _, setting := range []string{"datestyle = 'German'", "intervalstyle = 'postgres_verbose'", "timezone = 'Asia/Tokyo'", "extra_float_digits = 0", "bytea_output = 'escape'",
		"client_encoding = 'LATIN1'", "search_path = 'public'", "statement_timeout = '1ms'", "lc_monetary = 'C'"} {
		s.exec(`ALTER ROLE postgres SET %s`, setting)
	}
	defer s.exec(`ALTER ROLE postgres RESET ALL`)
	d := open(t, Options{})
	snap, err := d.CreateSlot(t.Context(), "odd", "pub", false)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	s.exec("%s", insert)
	table, loaded := load(t, snap)
	snap.Close()
	streamed, rel := firstInsert(t, d, "odd", snap)
	if !rel.SameShape(&table.Relation) {
		t.Errorf("the stream has %+v, the catalog %+v", rel, table.Relation)
	}
	for i := range odd {
		if loaded[i].Kind != streamed[i].Kind || string(loaded[i].Text) != string(streamed[i].Text) {
			t.Errorf("%s %s: loaded %q, streamed %q", odd[i].kind, odd[i].value, loaded[i].Text, streamed[i].Text)
		}
	}
	text := func(i int) string { return odd[i].kind + " " + string(loaded[i].Text) }
	for i, want := range map[int]string{6: "float8 0.30000000000000004", 19: "money -$1,234.56", 28: `bytea \x00ff5c`} {
		if text(i) != want {
			t.Errorf("column %d is %q, want %q", i, text(i), want)
		}
	}
}

// load reads the only row of the only table.
func load(t *testing.T, snap port.Snapshot) (pgout.Table, pgout.Tuple) {
	t.Helper()
	tables, err := snap.Tables(t.Context())
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	lines, done, err := snap.Next(t.Context(), &tables[0])
	if err != nil || !done || len(lines) != 1 {
		t.Fatalf("%d lines, %v, %v", len(lines), done, err)
	}
	row, _, err := pgout.ParseCopyLine(lines[0], len(tables[0].Columns), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tables[0], row
}

func firstInsert(t *testing.T, d *Database, slot string, snap port.Snapshot) (pgout.Tuple, *pgout.Relation) {
	t.Helper()
	repl, _, err := d.Stream(t.Context(), slot, "pub", snap.Consistent())
	if err != nil {
		t.Fatal(err)
	}
	defer repl.Close()
	var decoder pgout.Decoder
	var rel *pgout.Relation
	for {
		batch, err := repl.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range batch {
			if w.Data == nil {
				continue
			}
			m, err := decoder.Decode(w.Data)
			if err != nil {
				t.Fatal(err)
			}
			switch m := m.(type) {
			case *pgout.Relation:
				rel = m
			case *pgout.Insert:
				return m.New, rel
			case *pgout.Begin, *pgout.Commit, *pgout.Origin, *pgout.TypeName, *pgout.Logical, *pgout.Update, *pgout.Delete, *pgout.Truncate, *pgout.Table:
			}
		}
	}
}

func TestPublicationAsTheCatalogHasIt(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE root (id int8, at date) PARTITION BY RANGE (at); CREATE TABLE leaf1 PARTITION OF root FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
		CREATE TABLE leaf2 PARTITION OF root FOR VALUES FROM ('2026-02-01') TO ('2026-03-01'); ALTER TABLE leaf2 REPLICA IDENTITY FULL;
		CREATE TABLE wide (a int4 PRIMARY KEY, b int4, hidden int4, twice int4 GENERATED ALWAYS AS (b * 2) STORED);
		CREATE TABLE indexed (a int4 NOT NULL, b text); CREATE UNIQUE INDEX byA ON indexed (a); ALTER TABLE indexed REPLICA IDENTITY USING INDEX byA;
		CREATE TABLE loose (a int4); CREATE TABLE deferred (a int4 PRIMARY KEY DEFERRABLE);
		CREATE PUBLICATION pub FOR TABLE root, wide (a, b) WHERE (a > 10), indexed, loose, deferred WITH (publish = 'insert, update, delete')`)
	server, err := open(t, Options{}).Inspect(t.Context(), "none", "pub")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, table := range server.Publication.Tables {
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, fmt.Sprintf("%s:%v", c.Name, c.Key))
		}
		got = append(got, fmt.Sprintf("%s %c %v keyless=%v %s", table.Name, table.Identity, columns, table.Keyless, table.Filter))
	}
	want := []string{"deferred d [a:false] keyless=true ", "indexed i [a:true b:false] keyless=false ", "leaf1 d [id:false at:false] keyless=true ",
		"leaf2 f [id:true at:true] keyless=false ", "loose d [a:false] keyless=true ", "wide d [a:true b:false] keyless=false (a > 10)"}
	if !slices.Equal(got, want) {
		t.Errorf("tables %q, want %q", got, want)
	}
	if !slices.Equal(server.Publication.Missing, []string{"truncate"}) {
		t.Errorf("missing %q", server.Publication.Missing)
	}
	member := func() uint32 {
		server, err := open(t, Options{}).Inspect(t.Context(), "none", "pub")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(server.Publication.Tables, func(t pgout.Table) bool { return t.Name == "leaf1" })
		return server.Publication.Tables[i].Member
	}
	before := member()
	s.exec(`ALTER PUBLICATION pub DROP TABLE root; ALTER PUBLICATION pub ADD TABLE root`)
	if after := member(); after == before {
		t.Errorf("a table that left and came back is the same member %d", after)
	}
	s.exec(`DROP PUBLICATION pub; CREATE PUBLICATION pub FOR TABLES IN SCHEMA public; CREATE PUBLICATION every FOR ALL TABLES`)
	for _, name := range []string{"pub", "every"} {
		server, err := open(t, Options{}).Inspect(t.Context(), "none", name)
		if err != nil || len(server.Publication.Tables) != 6 || server.Publication.Tables[0].Member == 0 {
			t.Errorf("publication %s: %+v, %v", name, server.Publication, err)
		}
	}
}

// Rows of the filter, columns of the list, and no row of an inheritance child.
func TestLoadTakesWhatThePublicationHas(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE t (a int4 PRIMARY KEY, b text, hidden text); CREATE TABLE child () INHERITS (t);
		INSERT INTO t VALUES (1, 'no', 'x'), (11, 'yes', 'x'); INSERT INTO child VALUES (12, 'child', 'x');
		CREATE PUBLICATION pub FOR TABLE ONLY t (a, b) WHERE (a > 10)`)
	snap, err := open(t, Options{}).CreateSlot(t.Context(), "s", "pub", true)
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	_, row := load(t, snap)
	if len(row) != 2 || string(row[0].Text) != "11" || string(row[1].Text) != "yes" {
		t.Fatalf("loaded %q", row)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE t (a int4 PRIMARY KEY); CREATE PUBLICATION pub FOR TABLE t;
		DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN; DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN REPLICATION`)
	defer s.exec(`DROP OWNED BY blind; DROP ROLE weak; DROP ROLE blind`)
	as := func(role string) *Database {
		d, err := Open(strings.Replace(live.DSN(), "postgres@", role+":s3cret@", 1), Options{LockTimeout: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	_, err := as("weak").Inspect(t.Context(), "s", "pub")
	refused(t, err, pgout.Misconfigured, "ALTER ROLE \"weak\" REPLICATION")
	_, err = as("nobody").Inspect(t.Context(), "s", "pub")
	refused(t, err, pgout.Denied, "")
	snap, err := as("blind").CreateSlot(t.Context(), "s", "pub", true)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := snap.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = snap.Next(t.Context(), &tables[0])
	refused(t, err, pgout.Denied, "grant the role SELECT")
	snap.Close()
	s.exec(`GRANT USAGE ON SCHEMA public TO blind; GRANT SELECT ON t TO blind; ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON t USING (a > 1)`)
	if snap, err = as("blind").CreateSlot(t.Context(), "s2", "pub", true); err != nil {
		t.Fatal(err)
	}
	_, _, err = snap.Next(t.Context(), &tables[0])
	refused(t, err, pgout.Misconfigured, "BYPASSRLS")
	snap.Close()

	s.exec(`BEGIN; SELECT pg_current_xact_id()`)
	_, err = as("blind").CreateSlot(t.Context(), "s3", "pub", false)
	refused(t, err, pgout.Unavailable, "end the transactions")
	if !strings.Contains(err.Error(), "pid "+s.exec("SELECT pg_backend_pid()")) {
		t.Errorf("does not name the pid: %v", err)
	}
	s.exec(`COMMIT`)
	d, err := Open("postgres://u:s3cret@127.0.0.1:1/db?connect_timeout=1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Inspect(t.Context(), "s", "pub")
	refused(t, err, pgout.Unavailable, "")
	if _, err := Open("postgres://u:s3cret@host:port/db", Options{}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("connection string: %v", err)
	}
}

func refused(t *testing.T, err error, class pgout.Class, hint string) {
	t.Helper()
	e, ok := errors.AsType[*port.PostgresError](err)
	if !ok || e.Class != class || !strings.Contains(e.Hint, hint) {
		t.Fatalf("got %v (%+v), want class %s and a hint %q", err, e, class, hint)
	}
	if strings.Contains(e.Error()+e.Hint, "s3cret") {
		t.Fatalf("a secret in %v", e)
	}
}

// A consumer that is busy for longer than wal_sender_timeout (1 s here), with more to
// read than the stream reads ahead, is not cut off.
func TestABusyConsumerIsNotCutOff(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE t (a int4 PRIMARY KEY, b text); CREATE PUBLICATION pub FOR TABLE t`)
	d := open(t, Options{ReadAhead: 64 << 10})
	snap, err := d.CreateSlot(t.Context(), "s", "pub", false)
	if err != nil {
		t.Fatal(err)
	}
	snap.Close()
	s.exec(`INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i`)
	repl, _, err := d.Stream(t.Context(), "s", "pub", snap.Consistent())
	if err != nil {
		t.Fatal(err)
	}
	defer repl.Close()
	got := 0
	busy := time.After(1600 * time.Millisecond)
	for got < 20000 {
		batch, err := repl.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if busy != nil {
			<-busy
			busy = nil
			st := repl.(*stream)
			st.mu.Lock()
			ahead := st.bytes
			st.mu.Unlock()
			if ahead > 2*(64<<10) {
				t.Fatalf("read %d bytes ahead", ahead)
			}
		}
		for _, w := range batch {
			if len(w.Data) > 0 && w.Data[0] == 'I' {
				got++
			}
		}
	}
}

// A slot whose WAL was removed is told as lost, not as a server that is away.
func TestLostSlot(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE t (a int4 PRIMARY KEY); CREATE TABLE noise (b text); CREATE PUBLICATION pub FOR TABLE t`)
	d := open(t, Options{})
	snap, err := d.CreateSlot(t.Context(), "s", "pub", false)
	if err != nil {
		t.Fatal(err)
	}
	snap.Close()
	s.exec(`ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'`)
	defer s.exec(`SELECT pg_reload_conf()`)
	defer s.exec(`ALTER SYSTEM RESET max_slot_wal_keep_size`)
	s.exec(`SELECT pg_reload_conf()`)
	for range 4 {
		s.exec(`INSERT INTO noise VALUES ('x'); SELECT pg_switch_wal()`)
		s.exec(`CHECKPOINT`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server, err := d.Inspect(ctx, "s", "pub")
	if err != nil || server.Slot == nil || !server.Slot.Lost() {
		t.Fatalf("slot %+v, %v", server.Slot, err)
	}
	_, _, err = d.Stream(ctx, "s", "pub", snap.Consistent())
	refused(t, err, pgout.SlotLost, "")
}
