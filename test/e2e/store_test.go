package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
)

// killStore moves the store's folder away, which to the node is a server that does not
// answer; the function it returns moves it back.
func killStore(t *testing.T, n *node) (revive func()) {
	t.Helper()
	must(t, os.Rename(n.store, n.store+".away"))
	return func() {
		t.Helper()
		must(t, os.Rename(n.store+".away", n.store))
	}
}

// fill commits n transactions of about 100 KB each, one after the other.
func fill(d *database, n int) {
	d.t.Helper()
	for range n {
		d.exec("INSERT INTO filler (text) SELECT repeat(md5(random()::text), 10) FROM generate_series(1, 250)")
	}
}

// stored is a stream that is in the store as a whole.
func stored(s streamStatus) bool { return s.SeamNext == s.Next }

// inBothTiers is one whose oldest records are in the store alone by now.
func inBothTiers(s streamStatus) bool { return stored(s) && s.LocalFirst > 0 }

const fillerSQL = "CREATE TABLE filler (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text); ALTER PUBLICATION millrace_shop ADD TABLE filler;"

// TestADeadStore takes the object store away for a while: neither the capture nor local
// reading notices, and afterwards everything gets there.
func TestADeadStore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n := newNode(t, small(config{"capture": d.capture("")}))
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	before := n.until(20*time.Second, "shop", "the stream lies in both tiers", inBothTiers)

	revive := killStore(t, n)
	failed := n.metric("millrace_transfers_failed_total")
	fill(d, 8)
	d.caughtUp(n, 10*time.Second)
	s := n.until(time.Minute, "shop", "uploads stall", func(s streamStatus) bool { return s.Tiering.Pipeline.StalledWhy != "" })
	if s.Capture.State != "streaming" || s.SeamNext != before.SeamNext || s.LocalFirst > s.SeamNext || n.metric("millrace_transfers_failed_total") == failed {
		t.Errorf("while the store is dead: %+v; %v transfers failed, before %v", s, n.metric("millrace_transfers_failed_total"), failed)
	}
	if stalled := n.metric("millrace_upload_stalled"); stalled != 1 {
		t.Errorf("millrace_upload_stalled is %v", stalled)
	}
	remote := n.metric("millrace_reader_chunks_total", `tier="remote"`)
	if got := n.records("shop", "--from", s.LocalFirst.String()); len(got) != int(s.Next-s.LocalFirst) {
		t.Errorf("%d records were read from local disk, want %d", len(got), s.Next-s.LocalFirst)
	}
	if n.metric("millrace_reader_chunks_total", `tier="remote"`) != remote {
		t.Error("reading local disk asked the store")
	}
	// A reading that needs the store waits for it.
	waits := n.read("shop", "--limit", "3")
	eventually(t, 10*time.Second, "the reading finds the store dead", func() (bool, string) {
		return n.metric("millrace_reader_failures_total") > 0, "no failure is counted"
	})
	revive()
	for at := range 3 {
		if r, ok := waits.next(t); !ok || r.Offset != pos.Offset(at) {
			t.Errorf("the reading that waited for the store got %s in the place of %d", r.Offset, at)
		}
	}
	if code := waits.wait(t, 5*time.Second); code != 0 {
		t.Errorf("the reading that waited for the store ended with exit code %d: %s", code, &waits.err)
	}
	after := n.until(45*time.Second, "shop", "everything is in the store", func(s streamStatus) bool { return s.SeamNext == s.Next && s.LocalFirst > before.Next })
	if gaps := n.metric("millrace_gaps_total"); gaps != 0 || after.First != 0 {
		t.Errorf("%v gaps, and the first offset is %s", gaps, after.First)
	}
	v := d.verify(n)
	for at := range v.records {
		if at%137 != 0 && pos.Offset(at) != after.LocalFirst && pos.Offset(at) != after.LocalFirst-1 && at != len(v.records)-1 {
			continue
		}
		if got, err := n.fetch("shop", fmt.Sprint(at), 1); err != nil || len(got) != 1 || got[0].Offset != pos.Offset(at) {
			t.Errorf("offset %d: %d records, %v", at, len(got), err)
		}
	}
}

// TestAReadingWithoutAnObject waits until a reading gives up an object that is not where
// it should be: it has printed what lies before, and says where to go on.
func TestAReadingWithoutAnObject(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n := idleNode(t, small(config{"capture": d.capture("")}))
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 4)
	s := n.until(20*time.Second, "shop", "the stream lies in both tiers", func(s streamStatus) bool {
		return s.Next > 1000 && inBothTiers(s)
	})
	whole, err := n.fetch("shop", "first", 0)
	must(t, err)
	objects, err := filepath.Glob(filepath.Join(n.store, "millrace", "*", "data", "*.fragment"))
	must(t, err)
	broken := objects[3]
	must(t, os.Rename(broken, broken+".away"))
	first, _, _ := strings.Cut(filepath.Base(broken), ".")
	var at int
	_, err = fmt.Sscanf(first, "%d", &at)
	must(t, err)

	commanded := n.read("shop")
	status, body := n.get("/streams/shop/records", n.token())
	lines := strings.Split(strings.TrimSpace(body), "\n")
	var refusal struct {
		Error, Hint string
		Next        int
	}
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &refusal))
	if _, after, ok := strings.Cut(refusal.Hint, "read on behind it with --from "); !ok || after != strings.TrimLeft(strings.Split(filepath.Base(objects[4]), ".")[0], "0") {
		t.Errorf("the hint does not name %s: %s", objects[4], refusal.Hint)
	}
	if status != 200 || len(lines) != at+1 || refusal.Error == "" || refusal.Next != at {
		t.Errorf("over HTTP: status %d, %d lines, the last one %+v", status, len(lines), refusal)
	}
	out, err := io.ReadAll(commanded.out)
	must(t, err)
	a := answer{commanded.wait(t, 20*time.Second), string(out), commanded.err.String()}
	a.want(t, 1, "reading broke off", fmt.Sprintf("go on with: millrace read shop --from %d", at))
	if got := parse(t, a.out); len(got) != at || at == 0 || at >= int(s.LocalFirst) {
		t.Errorf("%d records were printed, want the %d before the object that is gone", len(got), at)
	}
	must(t, os.Rename(broken+".away", broken))
	if rest := n.records("shop", "--from", fmt.Sprint(at)); len(rest) != len(whole)-at {
		t.Errorf("%d records follow, want %d", len(rest), len(whole)-at)
	}
}

// TestAGap lets local retention take what a dead store did not: the hole is shown,
// counted, and crossed with a notice.
func TestAGap(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n := newNode(t, small(config{
		"local":   "min_bytes = \"96KiB\"\nmax_bytes = \"384KiB\"",
		"capture": d.capture(""),
	}))
	n.start()
	n.streaming("shop", 20*time.Second)
	var before streamStatus
	for range 2 { // no faster than the store takes it: the local window is small
		fill(d, 1)
		d.caughtUp(n, 10*time.Second)
		before = n.until(20*time.Second, "shop", "everything is in the store", stored)
	}

	revive := killStore(t, n)
	fill(d, 15)
	d.caughtUp(n, 10*time.Second)
	s := n.until(20*time.Second, "shop", "local retention has passed the seam", func(s streamStatus) bool { return s.LocalFirst > s.SeamNext })
	if s.LocalBytes > 512<<10 || s.SeamNext != before.SeamNext {
		t.Errorf("the local window has %d bytes, and the seam is at %s, before at %s", s.LocalBytes, s.SeamNext, before.SeamNext)
	}
	eventually(t, 10*time.Second, "that local disk was trimmed past the seam is counted", func() (bool, string) {
		return n.metric("millrace_local_floor_passed_seam_total") > 0, "it is not"
	})
	eventually(t, 10*time.Second, "what is lost is shown before it is declared", func() (bool, string) {
		shown := n.millrace("status", "shop")
		return strings.Contains(shown.out, "LOST") && n.metric("millrace_undeclared_gap_records") > 0, shown.out
	})
	revive()
	d.caughtUp(n, 10*time.Second)
	s = n.until(45*time.Second, "shop", "everything is in the store", stored)

	if lost := n.metric("millrace_undeclared_gap_records"); lost != 0 || strings.Contains(n.millrace("status", "shop").out, "LOST") {
		t.Errorf("%v records are lost and not declared, after the gap was", lost)
	}
	a := n.millrace("read", "shop", "--from", "first")
	a.want(t, 0)
	records := parse(t, a.out)
	var from, to int
	if _, err := fmt.Sscanf(a.err, "millrace: offsets %d to %d are gone (gap); reading on from %d\n", &from, &to, new(int)); err != nil || strings.Count(a.err, "\n") != 1 {
		t.Fatalf("the notice of the gap: %v: %s", err, a.err)
	}
	lost := to - from + 1
	if pos.Offset(from) < before.SeamNext || lost < 100 || len(records) != int(s.Next)-lost || records[len(records)-1].Offset != s.Next-1 {
		t.Errorf("offsets %d to %d are gone; of %s records %d were read", from, to, s.Next, len(records))
	}
	for i := 1; i < len(records); i++ {
		if hole := records[i].Offset - records[i-1].Offset; hole != 1 && (int(records[i-1].Offset) != from-1 || int(records[i].Offset) != to+1) {
			t.Errorf("offset %s follows %s", records[i].Offset, records[i-1].Offset)
		}
	}
	inside := n.millrace("read", "shop", "--json", "--limit", "1", "--from", fmt.Sprint(from+lost/2))
	inside.want(t, 0, fmt.Sprintf(`{"moved":{"from":%d,"to":%d,"why":"gap"}}`, from+lost/2, to+1), fmt.Sprintf(`{"offset":%d,`, to+1))
	if gaps, n := n.metric("millrace_gaps_total"), n.metric("millrace_gap_records_total"); gaps != 1 || int(n) != lost {
		t.Errorf("%v gaps with %v records are counted, want 1 with %d", gaps, n, lost)
	}
	if moves := n.metric("millrace_reader_moves_total", `why="gap"`); moves < 2 {
		t.Errorf("%v moves of readers are counted", moves)
	}
	if log := n.log(); !strings.Contains(log, fmt.Sprintf("gap: [%d, %d) is in no tier", from, to+1)) {
		t.Errorf("the log does not name the gap [%d, %d)", from, to+1)
	}
	// Also behind a restart, when the counters begin anew.
	for range 2 {
		if status := n.millrace("status", "shop"); !regexp.MustCompile(`gaps +1\n`).MatchString(status.out) {
			t.Errorf("the status does not show the gap: %s", status.out)
		}
		n.stop()
		n.start()
		n.until(10*time.Second, "shop", "the manifest is known", func(now streamStatus) bool { return now.SeamNext == s.Next && now.Next == s.Next })
	}
}

// TestLostLocalFiles takes the local window away while the node is down. Confirmed events
// were in it, in the store's keeping, and the capture loads anew.
func TestLostLocalFiles(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n := newNode(t, small(config{"capture": d.capture("publication = \"millrace_shop\"")}))
	n.errors = append(n.errors, "the local log was lost and began anew at the object store's seam")
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 3)
	d.caughtUp(n, 10*time.Second)
	before := n.until(20*time.Second, "shop", "everything is in the store", stored)
	n.stop()
	folders, err := filepath.Glob(filepath.Join(n.data, "streams", "*"))
	must(t, err)
	for _, folder := range folders {
		must(t, os.RemoveAll(folder))
	}
	d.exec("DELETE FROM filler WHERE id % 2 = 0")
	n.start()
	n.streaming("shop", 20*time.Second)
	d.caughtUp(n, 10*time.Second)
	if losses := n.metric("millrace_capture_losses_total"); losses != 1 {
		t.Errorf("%v losses are counted", losses)
	}
	v := d.verify(n)
	if voids := voidsOf(t, v); voids != 2 || v.records[before.Next].event(t).Source.Snapshot != "first" {
		t.Errorf("the load began %d times; behind what was lost stands %s", voids, v.records[before.Next].Record)
	}
}

// TestRetention bounds a stream in both tiers: what leaves the bound is deleted, and a
// reader is told.
func TestRetention(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	c := small(config{"retention": `max_bytes = "400KiB"`, "capture": d.capture("")})
	c["tiering"] += "\nroot_grace = \"1s\""
	n := newNode(t, c)
	n.start()
	n.streaming("shop", 20*time.Second)
	for range 9 { // no faster than the store takes it: local disk is bounded as well
		fill(d, 1)
		d.caughtUp(n, 10*time.Second)
		n.until(20*time.Second, "shop", "everything is in the store", stored)
	}
	eventually(t, 20*time.Second, "the store holds no more than the stream", func() (bool, string) {
		held := bytesBelow(t, filepath.Join(n.store, "millrace"), ".fragment")
		return held < 500<<10, fmt.Sprint(held, " bytes")
	})
	s := n.until(5*time.Second, "shop", "the oldest records are gone", func(s streamStatus) bool { return s.First > 500 })
	a := n.millrace("read", "shop", "--from", "3")
	a.want(t, 0)
	if got := parse(t, a.out); len(got) != int(s.Next-s.First) || got[0].Offset != s.First || got[0].Offset >= s.LocalFirst {
		t.Errorf("%d records were read from %s, want all from %s to %s", len(got), place(got), s.First, s.Next)
	}
	if said := fmt.Sprintf("millrace: offsets 3 to %d are gone (retention); reading on from %d\n", s.First-1, s.First); a.err != said {
		t.Errorf("want %q: %s", said, a.err)
	}
	if gaps, expired := n.metric("millrace_gaps_total"), n.metric("millrace_fragments_expired_total"); gaps != 0 || expired == 0 {
		t.Errorf("%v gaps and %v expired objects are counted", gaps, expired)
	}
}

// TestLocalRetention bounds a stream that lies on local disk alone, by its size and then
// by its age, which takes an idle stream too.
func TestLocalRetention(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	bounded := func(by string) config {
		return small(config{"tiering": "enabled = false", "retention": by, "capture": d.capture("")})
	}
	n := newNode(t, bounded(`max_bytes = "400KiB"`))
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 10)
	d.caughtUp(n, 10*time.Second)
	s := n.until(20*time.Second, "shop", "the oldest records are gone", func(s streamStatus) bool { return s.First > 500 && s.LocalBytes < 470<<10 })
	a := n.millrace("read", "shop", "--from", "3")
	a.want(t, 0)
	if got := parse(t, a.out); len(got) != int(s.Next-s.First) || got[0].Offset != s.First {
		t.Errorf("%d records were read from %s, want all from %s to %s", len(got), place(got), s.First, s.Next)
	}
	if said := fmt.Sprintf("millrace: offsets 3 to %d are gone (retention); reading on from %d\n", s.First-1, s.First); a.err != said {
		t.Errorf("want %q: %s", said, a.err)
	}
	if got := n.records("shop", "--from", "first", "--limit", "1"); got[0].Offset != s.First {
		t.Errorf("the first record is %s, want %s", got[0].Offset, s.First)
	}

	n.stop()
	n.configure(bounded(`max_age = "1s"`))
	n.start()
	n.streaming("shop", 20*time.Second)
	n.until(20*time.Second, "shop", "all records have expired", func(s streamStatus) bool { return s.First == s.Next })
	if a := n.millrace("read", "shop"); a.code != 0 || a.out != "" || !strings.Contains(a.err, "nothing to print") {
		t.Errorf("of a stream whose records are gone: exit code %d, %q, %q", a.code, a.out, a.err)
	}
	d.exec("INSERT INTO mark VALUES (-1)")
	n.until(10*time.Second, "shop", "the stream goes on", func(now streamStatus) bool { return now.Next > s.Next })
}

// TestTieringOff turns tiering off: what only the store has is refused with what to do.
func TestTieringOff(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n := newNode(t, small(config{"capture": d.capture("")}))
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 4)
	d.caughtUp(n, 10*time.Second)
	s := n.until(20*time.Second, "shop", "the stream lies in both tiers", inBothTiers)
	n.stop()
	off := small(config{"capture": d.capture("")})
	off["tiering"] += "\nenabled = false"
	n.configure(off)
	held := bytesBelow(t, n.store, ".fragment")
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 2)
	d.caughtUp(n, 10*time.Second)
	time.Sleep(time.Second) // five times the age at which a fragment is cut
	if now := bytesBelow(t, n.store, ".fragment"); now != held {
		t.Errorf("with tiering off %d bytes were uploaded", now-held)
	}
	n.millrace("read", "shop", "--from", "0").want(t, 1, "tiering is disabled: enable tiering")
	if got := n.records("shop", "--from", s.LocalFirst.String()); got[0].Offset != s.LocalFirst {
		t.Errorf("local disk was read from %s on, want %s", got[0].Offset, s.LocalFirst)
	}
	eventually(t, 10*time.Second, "the node is ready", func() (bool, string) { return n.reasons() })
	n.millrace("status").want(t, 0, "disabled")
	n.stop()
	n.configure(small(config{"capture": d.capture("")}))
	n.start()
	n.until(20*time.Second, "shop", "the store has caught up", func(s streamStatus) bool { return s.SeamNext == s.Next && s.Next > 0 })
	d.verify(n)
}

// bytesBelow adds up the files below a folder whose names end in suffix.
func bytesBelow(t *testing.T, dir, suffix string) (sum int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == suffix {
			if info, err := d.Info(); err == nil { // else it went meanwhile
				sum += info.Size()
			}
		}
		return nil
	}))
	return sum
}
