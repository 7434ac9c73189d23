package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"millrace/test/pgserver"
	"millrace/test/shop"
)

// refusal is a capture that PostgreSQL's state stands in the way of.
type refusal struct {
	name   string // of its capture and stream
	d      *database
	config string
	why    string // part of what the status says
	heal   string // what to run; "": the statement in the hint
}

// statement finds what a hint says to run.
var statement = regexp.MustCompile(`((?:CREATE|ALTER|SELECT) .*?)(?:, or | and restart |$)`)

// TestCaptureRefusals has several captures wait for somebody to run a statement, each
// for another one, runs it, and sees them go on by themselves.
func TestCaptureRefusals(t *testing.T) {
	t.Parallel()
	const password = "hunter2-is-secret"
	server, err := clusters.get()
	must(t, err)
	_, err = server.PSQL("CREATE ROLE mute LOGIN; GRANT pg_read_all_data TO mute; CREATE ROLE guarded LOGIN REPLICATION PASSWORD 'another'; GRANT pg_read_all_data TO guarded")
	must(t, err)
	demandPassword(t, server, "guarded")

	made := func() *database { return newDatabase(t, "") }
	var refusals []refusal
	add := func(name, who, why, heal, more string, d *database) {
		url, err := shop.URL(d.url, who, d.name)
		must(t, err)
		c := fmt.Sprintf("name = %q\nurl = %q\nslot = %q\n%s", name, url, d.name, more)
		refusals = append(refusals, refusal{name, d, c, why, heal})
	}
	add("no_publication", role, `publication "nowhere" does not exist`, "", `publication = "nowhere"`, made())
	add("no_replication", "mute", "SQLSTATE 42501", "", `publication = "millrace_shop"`, made())
	taken := made()
	taken.exec(fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'test_decoding')", taken.name))
	add("slot_taken", role, "exists and is not this capture's", "", `publication = "millrace_shop"`, taken)
	root := newDatabase(t, "ALTER PUBLICATION millrace_shop SET (publish_via_partition_root = true)")
	add("via_root", role, "publish_via_partition_root", "", `publication = "millrace_shop"`, root)
	add("no_such_password", "guarded:"+password, "password authentication failed", "ALTER ROLE guarded PASSWORD '"+password+"'", `publication = "millrace_shop"`, made())

	captures := config{}
	for _, r := range refusals {
		captures["capture "+r.name] = r.config
	}
	n := idleNode(t, captures)
	n.start()
	said := ""
	for i := range refusals {
		said += refused(t, n, &refusals[i])
	}
	for _, r := range refusals {
		r.d.exec(r.heal)
	}
	for _, r := range refusals {
		n.streaming(r.name, 50*time.Second)
		r.d.exec("INSERT INTO mark VALUES (7)")
	}
	for _, r := range refusals {
		n.until(10*time.Second, r.name, "the commit arrives", func(s streamStatus) bool { return s.Next == 3 })
	}
	eventually(t, 5*time.Second, "the node is ready", func() (bool, string) { return n.reasons() })
	n.stop()
	must(t, leaks(password, said, n.log()))
}

// refused waits until a capture waits, and checks what is said of that everywhere. It
// fills in the statement that the hint names, and gives all that was said.
func refused(t *testing.T, n *node, r *refusal) string {
	t.Helper()
	s := n.until(20*time.Second, r.name, "the capture is refused", func(s streamStatus) bool { return s.Capture.Waiting != nil })
	w := s.Capture.Waiting
	if !strings.Contains(w.Why, r.why) || s.Capture.State != "waiting" {
		t.Errorf("%s: it is %s for: %s", r.name, s.Capture.State, w.Why)
	}
	if r.heal == "" {
		m := statement.FindStringSubmatch(w.Hint)
		if m == nil {
			t.Fatalf("%s: the hint names no statement: %s", r.name, w.Hint)
		}
		r.heal = m[1]
	}
	a := n.millrace("status", r.name)
	a.want(t, 0, "waiting.why", r.why, w.Hint)
	ready, reasons := n.reasons()
	if ready || !strings.Contains(reasons, "capture "+r.name+": waiting: "+w.Why) || !strings.Contains(reasons, w.Hint) {
		t.Errorf("%s: ready %v: %s", r.name, ready, reasons)
	}
	all := n.millrace("status")
	all.want(t, 0, "NOT READY", "capture "+r.name)
	_, tree := n.get("/tree", n.token())
	_, metrics := n.get("/metrics", "")
	_, json := n.get("/streams", n.token())
	return a.out + a.err + reasons + all.out + tree + metrics + json
}

// demandPassword makes a server ask a role for its password.
func demandPassword(t *testing.T, server *pgserver.Server, who string) {
	t.Helper()
	file, err := server.PSQL("SHOW hba_file")
	must(t, err)
	old, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, append([]byte("host all "+who+" 127.0.0.1/32 scram-sha-256\n"), old...), 0o600))
	_, err = server.PSQL("SELECT pg_reload_conf()")
	must(t, err)
}

// TestServerTroubles has a server that is down when the node starts, comes up with the
// wrong wal_level, and later loses the slot, twice.
func TestServerTroubles(t *testing.T) {
	t.Parallel()
	server := cluster(t, "troubles", pgserver.Setting("wal_level", "replica"))
	d := databaseOn(t, server, "CREATE TABLE mark (n int PRIMARY KEY); CREATE PUBLICATION millrace_shop FOR TABLE mark; INSERT INTO mark VALUES (-1)")
	must(t, server.Stop(pgserver.Fast))
	publication := `publication = "millrace_shop"` + "\n"
	n := idleNode(t, config{"capture": d.capture(publication)})
	n.start()

	down := refusal{name: "shop", d: d, why: "connecting to database", heal: "none"}
	refused(t, n, &down)
	must(t, server.Restart())
	level := refusal{name: "shop", d: d, why: `wal_level is "replica"`}
	n.until(20*time.Second, "shop", "the server is reached", func(s streamStatus) bool {
		return s.Capture.Waiting != nil && strings.Contains(s.Capture.Waiting.Why, level.why)
	})
	refused(t, n, &level)
	d.exec(level.heal)
	must(t, server.Stop(pgserver.Fast))
	must(t, server.Restart())
	n.streaming("shop", 50*time.Second)
	d.caughtUp(n, 10*time.Second)
	// An orderly stop of the server waits until the capture has confirmed all there is.
	began := time.Now()
	must(t, server.Stop(pgserver.Fast))
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("PostgreSQL took %s to stop", took)
	}
	must(t, server.Restart())
	n.streaming("shop", 20*time.Second)
	d.caughtUp(n, 10*time.Second)

	n.errors = append(n.errors, "is lost: the server removed WAL it needs")
	loseSlot(t, n, d)
	n.start()
	n.streaming("shop", 20*time.Second)
	d.caughtUp(n, 10*time.Second)
	if voids := voidsOf(t, d.verify(n)); voids != 2 {
		t.Errorf("after the slot was lost once the load began %d times, want 2", voids)
	}

	n.configure(config{"capture": d.capture(publication + `on_slot_lost = "stop"`)})
	loseSlot(t, n, d)
	n.start()
	lost := refusal{name: "shop", d: d, why: "is lost", heal: "none"}
	refused(t, n, &lost)
	n.millrace("status", "shop").want(t, 0, `on_slot_lost = "reload"`)
	n.stop()
	n.configure(config{"capture": d.capture(publication)})
	n.start()
	n.streaming("shop", 20*time.Second)
	d.caughtUp(n, 10*time.Second)
	if voids := voidsOf(t, d.verify(n)); voids != 3 {
		t.Errorf("after the slot was lost twice the load began %d times, want 3", voids)
	}
}

// loseSlot stops the node, and has the server remove WAL that the slot needs.
func loseSlot(t *testing.T, n *node, d *database) {
	t.Helper()
	n.stop()
	d.exec("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
	d.exec("SELECT pg_reload_conf()")
	eventually(t, 20*time.Second, "the slot is lost", func() (bool, string) {
		d.exec("CREATE TABLE IF NOT EXISTS filler (n int); INSERT INTO filler VALUES (1); SELECT pg_switch_wal()")
		d.exec("CHECKPOINT")
		status := d.value(fmt.Sprintf("SELECT coalesce(wal_status, '') FROM pg_replication_slots WHERE slot_name = '%s'", d.name))
		return status == "lost", status
	})
	d.exec("DELETE FROM mark WHERE n < 0; INSERT INTO mark SELECT min(n) - 100 FROM mark")
}

// voidsOf counts how often the load of the table mark began.
func voidsOf(t *testing.T, v *verdict) int {
	t.Helper()
	voids := 0
	for _, r := range v.records {
		if e := r.event(t); e.Op == "t" && e.Source.Snapshot == "first" && e.Table() == "public.mark" {
			voids++
		}
	}
	return voids
}

// TestAPublicationThatWasAway drops the publication while its changes stream, and makes
// it again, as the status says. What changed meanwhile cannot be read from the slot.
func TestAPublicationThatWasAway(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "")
	n := idleNode(t, config{"capture": d.capture(`publication = "millrace_shop"`)})
	n.errors = append(n.errors, "can't be read any more")
	n.start()
	n.streaming("shop", 20*time.Second)
	d.caughtUp(n, 10*time.Second)
	d.exec("DROP PUBLICATION millrace_shop")
	d.exec("INSERT INTO mark VALUES (-7)")
	r := refusal{name: "shop", d: d, why: `publication "millrace_shop" does not exist in database`}
	n.until(20*time.Second, "shop", "the capture misses the publication", func(s streamStatus) bool {
		return s.Capture.Waiting != nil && strings.Contains(s.Capture.Waiting.Why, r.why)
	})
	refused(t, n, &r)
	d.exec(r.heal)
	steady := func() bool { // a start that fails at once streams for a moment, too
		time.Sleep(2 * time.Second)
		s, _ := n.status("shop")
		return s.Capture.State == "streaming"
	}
	n.until(50*time.Second, "shop", "the capture streams again", func(s streamStatus) bool { return s.Capture.State == "streaming" && steady() })
	d.caughtUp(n, 10*time.Second)
	d.verify(n)
}
