package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
	"millrace/test/fold"
	"millrace/test/pgserver"
	"millrace/test/shop"
)

// TestPostgresCrashes takes PostgreSQL down without a word in the first load and while
// its changes stream.
func TestPostgresCrashes(t *testing.T) {
	t.Parallel()
	server := cluster(t, "crashes")
	n, d := shopNode(t, server, 8000)
	rows := int64(0)
	tables, err := shop.Tables(context.Background(), d.url)
	must(t, err)
	for _, table := range tables {
		must(t, shop.Rows(context.Background(), d.url, table, func([]string, [][]byte) error { rows++; return nil }))
	}
	n.start()
	s := n.until(30*time.Second, "shop", "a part is loaded", func(s streamStatus) bool { return int64(s.Next) > rows/20 })
	must(t, server.Stop(pgserver.Immediate))
	if int64(s.Next) > rows*9/10 {
		t.Fatalf("%s of %d rows were loaded before the server could be stopped", s.Next, rows)
	}
	n.until(20*time.Second, "shop", "the capture finds the server gone", func(s streamStatus) bool { return s.Capture.Waiting != nil })
	must(t, server.Restart())
	n.streaming("shop", 40*time.Second)

	writers := shop.Start(d.url, 3, 20*time.Millisecond, 11)
	work := func(commits int64) {
		t.Helper()
		target := writers.Commits() + commits
		eventually(t, 30*time.Second, "the writers work", func() (bool, string) {
			return writers.Commits() >= target, fmt.Sprintf("%d of %d commits", writers.Commits(), target)
		})
	}
	for range 2 {
		work(60)
		must(t, server.Stop(pgserver.Immediate))
		must(t, server.Restart())
		n.streaming("shop", 20*time.Second)
	}
	work(60)
	writers.Stop()
	select {
	case err := <-writers.Failed():
		t.Fatal(err)
	default:
	}
	d.caughtUp(n, 30*time.Second)
	v := d.verify(n)
	voids := 0
	for _, r := range v.records {
		if e := r.event(t); e.Op == "t" && e.Source.Snapshot == "first" && e.Table() == "public.audit" {
			voids++
		}
	}
	if losses := n.metric("millrace_capture_losses_total"); voids != 2 || losses != 0 {
		t.Errorf("the load began %d times, want 2; %v losses", voids, losses)
	}
	t.Logf("%d events, %d commits, %d rows", v.ledger.Events, v.ledger.Commits, v.rows)
}

// TestChangesOfTheSource begins with an empty publication and goes through what happens
// to a database in its life: new tables, new columns, large values, large transactions,
// and a node that is down meanwhile.
func TestChangesOfTheSource(t *testing.T) {
	t.Parallel()
	server, err := clusters.get()
	must(t, err)
	d := databaseOn(t, server, "CREATE PUBLICATION millrace_shop")
	n := newNode(t, small(config{
		"log":     `segment_max_bytes = "4MiB"`,
		"local":   `min_bytes = "8MiB"`,
		"capture": d.capture("max_value = \"64KiB\"\n"),
	}))
	n.start()
	if s := n.streaming("shop", 20*time.Second); s.Next != 0 {
		t.Errorf("an empty publication has %s records", s.Next)
	}

	// Tables that are new in the publication, with rows from before and from meanwhile.
	d.exec(`CREATE TABLE mark (n int PRIMARY KEY); CREATE TABLE late (id int PRIMARY KEY, name text, big text);
		INSERT INTO late SELECT i, 'early' FROM generate_series(1, 100) i;
		ALTER PUBLICATION millrace_shop ADD TABLE mark, late`)
	d.exec("INSERT INTO late VALUES (101, 'meanwhile')")
	n.until(40*time.Second, "shop", "both tables are voided and loaded", func(s streamStatus) bool { return s.Next >= 2+101+2 })
	d.caughtUp(n, 10*time.Second)

	d.exec("ALTER TABLE late ADD COLUMN extra int DEFAULT 5")
	d.exec("UPDATE late SET name = name || '!'")
	d.exec("INSERT INTO late VALUES (102, 'large', repeat(md5('x'), 3125), 6)")
	d.exec("UPDATE late SET name = 'still large' WHERE id = 102")
	d.exec("INSERT INTO late SELECT i, 'bulk ' || i, repeat('b', 60), i FROM generate_series(1001, 201000) i")
	d.caughtUp(n, 60*time.Second)

	n.stop()
	for i := range 3 {
		d.exec(fmt.Sprintf("INSERT INTO late VALUES (%d, 'while the node is down'); DELETE FROM late WHERE id = %d", 500+i, 1001+i))
	}
	n.start()
	d.caughtUp(n, 20*time.Second)
	readFromAKilledNode(t, n)
	n.start()
	n.streaming("shop", 20*time.Second)
	idleWAL(t, d)

	v := d.verify(n)
	checkChanges(t, v)
	if v.ledger.Commits < 10 || v.rows != 102+200_000+d.marks {
		t.Errorf("%d commits, and %d rows are equal", v.ledger.Commits, v.rows)
	}
}

// checkChanges looks for the records that a consumer would.
func checkChanges(t *testing.T, v *verdict) {
	t.Helper()
	seen := map[string]int{}
	transactions := map[fold.LSN]int{}
	for _, r := range v.records {
		e := r.event(t)
		if e.Source.Table != "late" {
			continue
		}
		var m struct{ Message struct{ Kind string } }
		switch {
		case e.Op == "m":
			must(t, json.Unmarshal(r.Record, &m))
			seen["m "+m.Message.Kind]++
		case e.Omitted["big"] == 100_000:
			seen["omitted "+e.Op]++
		case e.Op == "t":
			seen["void "+e.Source.Snapshot]++
		case e.Op == "r":
			seen["loaded"]++
		case strings.HasPrefix(e.After["name"].Text, "bulk"):
			transactions[e.Source.LSN]++
			if e.Source.Last {
				seen["last of bulk"]++
			}
		}
	}
	// A node tells a table's shape when it has changed, and when it first sees the table.
	for what, want := range map[string]int{"m loaded": 1, "m schema": 2, "void first": 1, "last of bulk": 1, "omitted c": 1} {
		if seen[what] != want {
			t.Errorf("%d of %q, want %d; all are %v", seen[what], what, want, seen)
		}
	}
	if seen["loaded"] < 100 || len(transactions) != 1 {
		t.Errorf("%d rows were loaded; the large transaction has the positions %v", seen["loaded"], transactions)
	}
}

// readFromAKilledNode kills the node while a command reads from it: the command prints
// whole lines only, says where to go on, and fails.
func readFromAKilledNode(t *testing.T, n *node) {
	t.Helper()
	r := n.read("shop", "--from", "50")
	last := pos.Offset(49)
	for range 10 {
		rec, ok := r.next(t)
		if !ok || rec.Offset != last+1 {
			t.Fatalf("offset %s came after %s", rec.Offset, last)
		}
		last = rec.Offset
	}
	n.kill()
	for {
		rec, ok := r.next(t)
		if !ok {
			break
		}
		if rec.Offset != last+1 {
			t.Fatalf("offset %s came after %s", rec.Offset, last)
		}
		last = rec.Offset
	}
	if code := r.wait(t, 10*time.Second); code != 1 || !strings.Contains(r.err.String(), fmt.Sprintf("go on with: millrace read shop --from %d", last+1)) {
		t.Errorf("behind %s: exit code %d: %s", last, code, &r.err)
	}
	if last > 150_000 {
		t.Errorf("the node was killed behind offset %s: that is no more in the middle", last)
	}
}

// idleWAL has 100 MB of WAL written that the publication does not see: the server may
// forget it soon.
func idleWAL(t *testing.T, d *database) {
	t.Helper()
	d.exec("CREATE TABLE unseen (text text)")
	before := d.value("SELECT pg_current_wal_lsn()")
	d.exec("INSERT INTO unseen SELECT repeat(md5(i::text), 60) FROM generate_series(1, 55000) i")
	if written := d.number(fmt.Sprintf("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '%s')::bigint", before)); written < 100<<20 {
		t.Fatalf("only %d bytes of WAL were written", written)
	}
	eventually(t, 45*time.Second, "the server keeps little WAL for the slot", func() (bool, string) {
		// A slot can move up to where running transactions were logged, as a checkpoint does.
		d.exec("CHECKPOINT")
		time.Sleep(200 * time.Millisecond)
		kept := d.retained()
		return kept < 8<<20, fmt.Sprint(kept, " bytes are kept")
	})
}
