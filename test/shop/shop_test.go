package shop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/test/pgserver"
)

// TestWritersCountWhatPostgreSQLDecodes runs the writers without Millrace and lets
// PostgreSQL's own text decoder say what each transaction consists of.
func TestWritersCountWhatPostgreSQLDecodes(t *testing.T) {
	ctx := context.Background()
	server := serve(t)
	url, err := Create(ctx, server.DSN(), 300)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(ctx, url, "SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')"); err != nil {
		t.Fatal(err)
	}
	w := Start(url, 4, 0, 7)
	for deadline := time.After(30 * time.Second); w.Commits() < 400; {
		select {
		case err := <-w.Failed():
			t.Fatal(err)
		case <-deadline:
			t.Fatalf("only %d commits in 30 s", w.Commits())
		case <-time.After(10 * time.Millisecond):
		}
	}
	acked := w.Stop()
	if w.Rollbacks() == 0 || w.Broken() != 0 {
		t.Errorf("%d rollbacks and %d broken connections, want some and none", w.Rollbacks(), w.Broken())
	}
	d := decode(t, url)
	d.check(t, acked)
	for _, op := range []string{"INSERT", "UPDATE", "DELETE", "TRUNCATE"} {
		if d.ops[op] == 0 {
			t.Errorf("no %s was decoded", op)
		}
	}
	if d.largest < 3000 {
		t.Errorf("the largest transaction has %d events, want thousands", d.largest)
	}
	t.Logf("%d commits, %d events %v, largest %d, %d rolled back", w.Commits(), w.Events(), d.ops, d.largest, w.Rollbacks())
}

// decoded is what the decoder says.
type decoded struct {
	events  map[string]int // by "writer n", without the row in audit
	want    map[string]int // what that row says
	ops     map[string]int
	largest int
}

var (
	change = regexp.MustCompile(`^table (.*?): (INSERT|UPDATE|DELETE|TRUNCATE): `)
	audit  = regexp.MustCompile(`^table public\.audit: INSERT: writer\[integer\]:(\d+) n\[integer\]:(\d+) events\[integer\]:(\d+) `)
)

func decode(t *testing.T, url string) decoded {
	d := decoded{map[string]int{}, map[string]int{}, map[string]int{}, 0}
	events, name := 0, ""
	err := query(context.Background(), url, "SELECT data FROM pg_logical_slot_peek_changes('decoded', NULL, NULL)", func(_ []string, row [][]byte) error {
		line := string(row[0])
		switch {
		case strings.HasPrefix(line, "BEGIN"):
			events, name = 0, ""
		case strings.HasPrefix(line, "COMMIT"):
			if name == "" {
				return fmt.Errorf("a transaction of %d events has no row in audit", events)
			}
			d.events[name] = events
			d.largest = max(d.largest, events)
		default:
			if m := audit.FindStringSubmatch(line); m != nil {
				n, err := strconv.Atoi(m[3])
				name = m[1] + " " + m[2]
				d.want[name] = n
				return err
			}
			m := change.FindStringSubmatch(line)
			if m == nil {
				return fmt.Errorf("not understood: %.100s", line)
			}
			d.ops[m[2]]++
			events++
			if m[2] == "TRUNCATE" {
				events += strings.Count(m[1], ", ")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d decoded) check(t *testing.T, acked map[int][]int) {
	n := 0
	for writer, numbers := range acked {
		for _, number := range numbers {
			n++
			name := fmt.Sprintf("%d %d", writer, number)
			if got, ok := d.events[name]; !ok || got != d.want[name] {
				t.Errorf("transaction %s: %d events decoded (%v), audit says %d", name, got, ok, d.want[name])
			}
		}
	}
	if n != len(d.events) {
		t.Errorf("%d transactions decoded, %d acknowledged", len(d.events), n)
	}
}

func TestTablesNamesTheKeyOfEachIdentity(t *testing.T) {
	ctx := context.Background()
	server := serve(t)
	url, err := Create(ctx, server.DSN(), 10)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := Tables(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	rows := 0
	for _, table := range tables {
		got = append(got, table.Name+" "+strings.Join(table.Key, ","))
		if err := Rows(ctx, url, table, func([]string, [][]byte) error { rows++; return nil }); err != nil {
			t.Error(err)
		}
	}
	want := []string{`back office.odd "values" id`, "public.audit writer,n", "public.blobs ref", "public.carts id", "public.clicks ",
		"public.customers id", "public.order_items order_id,line", "public.orders id", "public.products sku", "public.scratch id",
		"public.visits_0 id", "public.visits_1 id"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if rows < 400 {
		t.Errorf("%d rows read, want several hundred", rows)
	}
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
