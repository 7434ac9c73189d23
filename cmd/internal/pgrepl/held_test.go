package pgrepl

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/core/pgout"
)

// A stream begins with one walsender, as it also does where the role has no ordinary connection. It
// knows where its slot is either way.
func TestAStreamBeginsWithWhatTheServerHasLeft(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE t (a int4 PRIMARY KEY); CREATE PUBLICATION pub FOR TABLE t`)
	d := open(t, Options{})
	snap, err := d.CreateSlot(t.Context(), "s", "pub", false)
	if err != nil {
		t.Fatal(err)
	}
	point := snap.Consistent()
	snap.Close()
	begins := func(d *Database) {
		t.Helper()
		repl, held, err := d.Stream(t.Context(), "s", "pub", point)
		if err != nil {
			t.Fatal(err)
		}
		defer repl.Close()
		if want := s.exec(`SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE active`); held.Confirmed != point || held.Confirmed.String() != want {
			t.Fatalf("told %+v, the slot is at %s and was made at %s", held, want, point)
		}
	}

	s.exec(`DROP ROLE IF EXISTS sender; CREATE ROLE sender LOGIN REPLICATION CONNECTION LIMIT 0`)
	defer s.exec(`DROP ROLE sender`)
	u, err := url.Parse(live.DSN())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("sender")
	narrow, err := Open(u.String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := narrow.ordinary(t.Context(), "try"); err == nil || !strings.Contains(err.Error(), "too many connections") {
		t.Fatalf("an ordinary connection: %v", err)
	}
	begins(narrow)

	var taken []*pgconn.PgConn
	for err == nil {
		var conn *pgconn.PgConn
		if conn, err = d.connect(t.Context(), "take"); err == nil {
			t.Cleanup(func() { hangUp(conn) })
			taken = append(taken, conn)
		}
	}
	refused(t, err, pgout.Unavailable, "max_wal_senders")
	hangUp(taken[0])
	all := fmt.Sprint(len(taken))
	for s.exec(`SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'`) == all {
		<-time.After(10 * time.Millisecond)
	}
	begins(d)
}

// What another connection tells of a slot that the stream's own backend doesn't hold says nothing of
// the stream's.
func TestTheSlotOfAnotherBackend(t *testing.T) {
	s := clean(t)
	s.exec(`CREATE TABLE t (a int4 PRIMARY KEY); CREATE PUBLICATION pub FOR TABLE t`)
	d := open(t, Options{})
	for _, name := range []string{"s", "free", "held"} {
		snap, err := d.CreateSlot(t.Context(), name, "pub", false)
		if err != nil {
			t.Fatal(err)
		}
		snap.Close()
	}
	begin := func(name string) *stream {
		t.Helper()
		repl, _, err := d.Stream(t.Context(), name, "pub", 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(repl.Close)
		st, _ := repl.(*stream)
		return st
	}
	st, other := begin("s"), begin("held")
	for name, want := range map[string]string{
		"free": "is told of one that nobody holds", "none": "is told of no such slot",
		"held": fmt.Sprintf("is told of one that backend %d holds", other.conn.PID()),
	} {
		_, err := st.heldAt(t.Context(), name)
		refused(t, err, pgout.Unavailable, "lead to one server")
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := st.heldAt(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}
