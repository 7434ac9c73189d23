package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
)

// small makes segments, fragments and the local window so small that a few hundred
// kilobytes lie in both tiers.
func small(more config) config {
	c := config{
		"log":     `segment_max_bytes = "64KiB"`,
		"local":   `min_bytes = "96KiB"`,
		"tiering": "fragment_bytes = \"32KiB\"\nfragment_max_age = \"200ms\"\npersist_interval = \"100ms\"\nreconcile_interval = \"1s\"",
	}
	for section, keys := range more {
		c[section] = keys
	}
	return c
}

const itemsSQL = `
CREATE TABLE items (id int PRIMARY KEY, name text, amount numeric(12,2), photo bytea, note text);
ALTER TABLE items ALTER COLUMN photo SET STORAGE EXTERNAL;
CREATE TABLE visits (page text, n int);
ALTER TABLE visits REPLICA IDENTITY FULL;
INSERT INTO items SELECT i, 'item ' || i, i * 1.25, decode(repeat(md5(i::text), 300), 'hex'), NULL FROM generate_series(1, 100) i;
INSERT INTO visits SELECT '/p/' || i % 3, 1 FROM generate_series(1, 50) i;
ALTER PUBLICATION millrace_shop ADD TABLE items, visits;`

// TestCapture follows a small database from its first load through every kind of
// change, and reads the stream from every kind of place.
func TestCapture(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, itemsSQL)
	n := newNode(t, small(config{"capture": d.capture("")}))
	n.start()
	n.streaming("shop", 30*time.Second)
	for i := range 10 {
		d.exec(fmt.Sprintf("INSERT INTO items SELECT i, 'new', NULL, NULL, repeat('n', 120) FROM generate_series(%d, %d) i", 1000+100*i, 1099+100*i))
	}
	d.exec("UPDATE items SET name = name || ' \"sold\"', note = '' WHERE id <= 20")
	d.exec("UPDATE items SET id = id + 5000 WHERE id BETWEEN 21 AND 30")
	d.exec("DELETE FROM items WHERE id BETWEEN 31 AND 50; DELETE FROM visits WHERE page = '/p/1'")
	d.exec("BEGIN; INSERT INTO visits VALUES ('gone', 0); TRUNCATE visits; INSERT INTO visits VALUES ('/kept', 2), ('/kept', 2); COMMIT")
	d.exec("BEGIN; INSERT INTO items VALUES (9999, 'never'); ROLLBACK")
	d.exec("INSERT INTO items (id, note) VALUES (8888, repeat('large ', 500000))") // larger than a chunk, a segment and a fragment
	d.exec("INSERT INTO items SELECT i, 'behind it' FROM generate_series(2001, 2300) i")
	d.caughtUp(n, 20*time.Second)
	s := n.until(20*time.Second, "shop", "the stream lies in both tiers", func(s streamStatus) bool {
		return s.SeamNext == s.Next && s.LocalFirst > 100 && s.First == 0
	})

	v := d.verify(n)
	ops := map[string]int{}
	for _, r := range v.records {
		e := r.event(t)
		ops[e.Op+e.Source.Snapshot]++
		if e.Op == "u" && e.Table() == "public.items" && e.After["name"].Text == "item 1 \"sold\"" && fmt.Sprint(e.Unchanged) != "[photo]" {
			t.Errorf("an update that left a large value alone says that %v is unchanged", e.Unchanged)
		}
	}
	for op, want := range map[string]int{"tfirst": 3, "ryes": 150, "mlast": 3, "cno": 1305, "uno": 30, "dno": 37, "tno": 1} {
		if ops[op] != want {
			t.Errorf("%d events of kind %s, want %d; all are %v", ops[op], op, want, ops)
		}
	}
	if v.rows != 1384 {
		t.Errorf("%d rows are equal, want 1384", v.rows)
	}
	t.Run("places", func(t *testing.T) { readPlaces(t, n, s, v.records) })
	t.Run("follow", func(t *testing.T) { readFollowing(t, n, d, v.records) })
	t.Run("refusals", func(t *testing.T) { readRefusals(t, n) })
	t.Run("stop", func(t *testing.T) { readUntilStop(t, n) })
}

// readPlaces reads from offsets and times in both tiers. all is the whole stream.
func readPlaces(t *testing.T, n *node, s streamStatus, all []record) {
	same := func(got, want []record) {
		t.Helper()
		if len(got) != len(want) || len(got) > 0 && (got[0].Offset != want[0].Offset || got[len(got)-1].Offset != want[len(want)-1].Offset) {
			t.Errorf("%d records from %s, want %d from %s", len(got), place(got), len(want), place(want))
		}
	}
	remote, local := n.metric("millrace_reader_chunks_total", `tier="remote"`), n.metric("millrace_reader_chunks_total", `tier="local"`)
	same(n.records("shop"), all)
	middle := s.LocalFirst / 2
	same(n.records("shop", "--from", middle.String()), all[middle:])
	if n.metric("millrace_reader_chunks_total", `tier="remote"`) == remote {
		t.Error("nothing was read from the store")
	}
	// The reader of the reading before may still count what it had asked for.
	eventually(t, 10*time.Second, "the readers before are at rest", func() (bool, string) {
		before := remote
		remote = n.metric("millrace_reader_chunks_total", `tier="remote"`)
		time.Sleep(300 * time.Millisecond)
		return remote == before, "chunks are still read from the store"
	})
	middle = (s.LocalFirst + s.Next) / 2
	same(n.records("shop", "--from", middle.String()), all[middle:])
	if n.metric("millrace_reader_chunks_total", `tier="local"`) == local || n.metric("millrace_reader_chunks_total", `tier="remote"`) != remote {
		t.Error("an offset on local disk was not read there")
	}
	same(n.records("shop", "--from", "7", "--limit", "5"), all[7:12])
	same(n.records("shop", "--limit", "100000"), all)

	last := n.records("shop", "--from", "last")
	from := last[0].Offset
	same(last, all[from:])
	if from == 0 || all[from-1].Timestamp.After(last[0].Timestamp) {
		t.Errorf("the last chunk begins at %s", from)
	}
	for _, at := range []pos.Offset{s.LocalFirst / 2, (s.LocalFirst + s.Next) / 2} {
		when := all[at].Timestamp
		first := 0
		for all[first].Timestamp.Before(when) {
			first++
		}
		got := n.records("shop", "--from", when.Format("2006-01-02T15:04:05.000Z07:00"))
		if len(got) == 0 || got[0].Timestamp.Before(when) {
			t.Errorf("from %s: %d records from %s", when, len(got), place(got))
			continue
		}
		same(got, all[first:])
	}
	same(n.records("shop", "--from", "next"), nil)
	for _, from := range []string{time.Now().Add(time.Hour).Format(time.RFC3339), s.Next.String(), (s.Next + 1000).String()} {
		n.nothing("shop", from, s.Next-1)
	}
}

func place(records []record) string {
	if len(records) == 0 {
		return "none"
	}
	return "offset " + records[0].Offset.String()
}

// readFollowing reads what is committed while the command runs.
func readFollowing(t *testing.T, n *node, d *database, all []record) {
	r := n.read("shop", "--from", "next", "--follow")
	whole := n.read("shop", "--follow", "--limit", strconv.Itoa(len(all)+1))
	beyond := n.read("shop", "--follow", "--limit", "1", "--from", strconv.Itoa(len(all)+2))
	eventually(t, 10*time.Second, "the readings are open", func() (bool, string) {
		_, body := n.get("/tree", n.token())
		return strings.Count(body, `"path":"node/readers/`) >= 3, body
	})
	for i := range all {
		if rec, ok := whole.next(t); !ok || rec.Offset != pos.Offset(i) {
			t.Fatalf("the reading from the first record on has %s in the place of %d", rec.Offset, i)
		}
	}
	d.exec("INSERT INTO items VALUES (7777, 'followed')")
	for _, reading := range []*reading{r, whole} {
		rec, ok := reading.next(t)
		if e := rec.event(t); !ok || rec.Offset != pos.Offset(len(all)) || e.Op != "c" || e.After["name"].Text != "followed" {
			t.Errorf("offset %s, %s came, want the insert at %d", rec.Offset, e, len(all))
		}
	}
	d.exec("INSERT INTO items VALUES (7778), (7779)")
	if rec, ok := beyond.next(t); !ok || rec.Offset != pos.Offset(len(all)+2) {
		t.Errorf("a reading from an offset that was not there yet began with %s", rec.Offset)
	}
	for _, reading := range []*reading{whole, beyond} {
		if code := reading.wait(t, 5*time.Second); code != 0 {
			t.Errorf("at its limit the reading ended with exit code %d: %s", code, &reading.err)
		}
	}
	for range 2 {
		if rec, ok := r.next(t); !ok {
			t.Errorf("the reading that follows ended at %s", rec.Offset)
		}
	}
	r.signal(t, os.Interrupt)
	if code := r.wait(t, 5*time.Second); code != 0 || r.err.Len() > 0 {
		t.Errorf("interrupted, the reading ended with exit code %d: %s", code, &r.err)
	}
}

func readRefusals(t *testing.T, n *node) {
	n.millrace("read", "nothing").want(t, 1, `there is no stream "nothing"`, "millrace streams")
	n.millrace("status", "nothing").want(t, 1, `there is no stream "nothing"`)
	n.millrace("read", "shop", "--from", "yesterday").want(t, 2, "want first, last, next, an offset")
	n.millrace("read", "shop", "--limit", "0").want(t, 2, "want a number from 1")
	n.millrace("read").want(t, 2, "STREAM is missing")
}

// readUntilStop follows the stream until the node is told to stop, which does not wait.
func readUntilStop(t *testing.T, n *node) {
	r := n.read("shop", "--from", "last", "--follow")
	last, ok := r.next(t)
	for s, known := n.status("shop"); ok && known && last.Offset < s.Next-1; {
		last, ok = r.next(t)
	}
	if took := n.stop(); took > 2*time.Second {
		t.Errorf("a stop with a follower took %s", took)
	}
	if rec, more := r.next(t); more {
		t.Errorf("behind the last record came %s", rec.Offset)
	}
	if code := r.wait(t, 5*time.Second); code != 1 || !strings.Contains(r.err.String(), fmt.Sprintf("go on with: millrace read shop --from %d", last.Offset+1)) {
		t.Errorf("the reading ended with exit code %d: %s", code, &r.err)
	}
	n.start()
}
