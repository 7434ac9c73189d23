package capturesim

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/test/fake/fakepg"
	"millrace/test/porttest/pgtest"
)

var columns = []pgout.Column{{Name: "id", Type: 20, Mod: -1}, {Name: "text", Type: 25, Mod: -1}, {Name: "big", Type: 25, Mod: -1}}

// world is a machine and its server.
type world struct {
	*pgtest.World
	DB   *fakepg.DB
	born pos.LSN // where the tables and the publication have been made
	// alone: tables were published later. Their load shows the server at an LSN ahead of
	// the stream, and nothing tells a server that was put back in between and went on.
	alone bool
}

// newWorld has the tables a (key), b (full) and c, which is published later.
func newWorld() *world {
	db := fakepg.New()
	db.Batch, db.LockTimeout, db.KeepaliveEvery = 4, 1, time.Microsecond
	db.CreateTable("a", pgout.IdentityDefault, 1, columns...)
	db.CreateTable("b", pgout.IdentityFull, 1, columns...)
	db.CreateTable("c", pgout.IdentityDefault, 1, columns...)
	db.CreatePublication("pub", "a", "b")
	return &world{DB: db, born: db.Flushed(), World: &pgtest.World{Postgres: db, Now: 1_000_000, Patience: time.Second, Tables: map[string]pgout.TableRow{}, Config: pgout.Config{Name: "app", Stream: "__app_1", Slot: "millrace",
		Publication: "pub", BatchRecords: 3, ConfirmEvery: 50_000_000, InspectEvery: 400_000_000}}}
}

// client works on the tables with transactions that overlap.
type client struct {
	db  *fakepg.DB
	txs []*fakepg.Tx
	n   int
}

func (w *client) act(t *rapid.T) {
	if len(w.txs) == 0 || len(w.txs) < 3 && rapid.Bool().Draw(t, "begin") {
		w.txs = append(w.txs, w.db.Begin())
	}
	i := rapid.IntRange(0, len(w.txs)-1).Draw(t, "tx")
	tx := w.txs[i]
	for range rapid.IntRange(1, 8).Draw(t, "changes") {
		w.change(t, tx)
	}
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0:
		tx.Rollback()
	case 1, 2, 3:
		tx.Commit()
	default:
		return
	}
	w.txs = append(w.txs[:i], w.txs[i+1:]...)
}

func (w *client) change(t *rapid.T, tx *fakepg.Tx) {
	table := rapid.SampledFrom([]string{"a", "a", "b", "c"}).Draw(t, "table")
	key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
	w.n++
	text := fakepg.T(fmt.Sprintf("v%d", w.n))
	switch rapid.IntRange(0, 11).Draw(t, "op") {
	case 0, 1, 2, 3:
		tx.Insert(table, fakepg.T(key), text, fakepg.T("BIG"+key))
	case 4, 5:
		tx.Update(table, key, fakepg.T(key), text, fakepg.Keep())
	case 6:
		tx.Update(table, key, fakepg.T(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "to"))), text, fakepg.N())
	case 7, 8:
		tx.Delete(table, key)
	case 9:
		if rapid.IntRange(0, 3).Draw(t, "truncate") == 0 {
			tx.Truncate("a", "c")
		}
	case 10:
		tx.Savepoint()
		tx.Insert(table, fakepg.T("gone"), text, fakepg.N())
		tx.RollbackTo()
	}
}

// finish ends all transactions.
func (w *client) finish() {
	for _, tx := range w.txs {
		tx.Commit()
	}
	w.txs = nil
}

// forget drops the transactions a crash of the server ended.
func (w *client) forget() { w.txs = nil }

// settle runs until nothing happens any more.
func settle(w *world) error {
	if !w.Started() {
		w.Start()
	}
	for round := range 3000 {
		for range w.Pending() {
			w.Do(0)
			w.Sync(len(w.Log))
		}
		if s := w.Status(); s.State == "streaming" && round > 50 && w.Quiet() {
			return nil
		}
		w.Pass(1000)
	}
	s := w.Status()
	return fmt.Errorf("does not settle: %+v waiting %+v", s, s.Waiting)
}

// check folds the whole log and compares it with the tables.
func check(w *world) error { return same(w.DB, w.Log) }

func same(db *fakepg.DB, log [][]byte) error {
	f := pgtest.NewFold(func(string) []string { return []string{"id"} })
	for i, body := range log {
		if err := f.Apply(body); err != nil {
			return fmt.Errorf("offset %d: %w", i, err)
		}
	}
	server, err := db.Inspect(context.Background(), "millrace", "pub")
	if err != nil {
		return err
	}
	for _, t := range server.Publication.Tables {
		want, got := db.Rows(t.Name), f.Rows(t.FullName(), db.Columns(t.Name))
		if !maps.Equal(want, got) {
			return fmt.Errorf("table %s: PostgreSQL has %v, the stream %v", t.Name, want, got)
		}
	}
	return nil
}

// TestCaptureIsExact: whatever is killed, cut or delayed, the stream folds to the tables;
// and it is loaded again only when there is a reason.
func TestCaptureIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		defer func() { w.Kill(false, 0) }()
		app := &client{db: w.DB}
		app.act(t)
		app.finish()
		w.Start()
		reasons := map[string]bool{"first load": true, "the load was interrupted": true}
		published := false
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			step(t, w, app, reasons, &published)
		}
		app.finish()
		w.DB.HoldFlush(false)
		if err := settle(w); err != nil {
			t.Fatal(err)
		}
		if w.Wrong != nil {
			t.Fatal(w.Wrong)
		}
		if err := check(w); err != nil {
			t.Fatalf("%v\nloads: %q\nlosses: %q", err, w.Reloads, w.Losses)
		}
		for _, why := range w.Reloads {
			if !expected(why, reasons) {
				t.Fatalf("loaded without a reason: %s", why)
			}
		}
		if w.DB.Slots() > 1 {
			t.Fatalf("%d slots are left", w.DB.Slots())
		}
	})
}

func expected(why string, reasons map[string]bool) bool {
	for r := range reasons {
		if strings.HasPrefix(why, "loading: "+r) {
			return true
		}
	}
	return false
}

func step(t *rapid.T, w *world, app *client, reasons map[string]bool, published *bool) {
	if !w.Started() {
		w.Start()
	}
	switch n := rapid.IntRange(0, 39).Draw(t, "step"); {
	case n < 8:
		app.act(t)
	case n < 24:
		for range rapid.IntRange(1, 10).Draw(t, "effects") {
			w.Do(rapid.IntRange(0, 5).Draw(t, "which"))
		}
	case n < 27:
		w.Sync(len(w.Log))
	case n < 29:
		w.Sync(w.Synced + 1)
	case n < 32:
		w.Pass(pos.Millis(rapid.SampledFrom([]int{100, 1000, 60000, 500000}).Draw(t, "ms")))
	case n < 34:
		w.Kill(rapid.Bool().Draw(t, "power"), rapid.IntRange(0, 3).Draw(t, "keep"))
		// E is written when the load's records are committed: where they were not
		// synced, a power loss is seen as a log that ends too early.
		reasons["the local log ends before the last confirmed event"] = true
	case n == 34:
		w.DB.BreakConnections()
	case n == 35:
		w.Lose(rapid.IntRange(0, 5).Draw(t, "which"), rapid.Bool().Draw(t, "happened"))
	case n == 36:
		rare(t, w, app, reasons, published)
	case n == 37 && !*published:
		*published, w.alone = true, true
		w.DB.Publish("pub", "c")
	case n == 38:
		w.DB.Noise(100)
	}
}

// rare are the disasters.
func rare(t *rapid.T, w *world, app *client, reasons map[string]bool, published *bool) {
	switch rapid.IntRange(0, 9).Draw(t, "disaster") {
	case 0:
		w.DB.LoseSlot("millrace")
		reasons[`replication slot "millrace" is lost`] = true
	case 1:
		w.DB.RemoveSlot("millrace")
		reasons[`replication slot "millrace" is gone`] = true
	case 2:
		w.DB.Crash()
		app.forget()
	case 3:
		w.DB.Promote()
		app.forget()
		reasons["history broke"] = true
	case 4:
		w.DB.HoldSlot("millrace")
	case 5:
		w.DB.SetSystemID(fmt.Sprintf("80000000000000%d", app.n))
		app.forget()
		reasons["history broke"] = true
	case 6:
		// Nothing tells a server that was put back between a look and the start of the stream and has
		// as much WAL again by then.
		if w.alone || w.Status().State != "streaming" {
			return
		}
		back := pos.LSN(rapid.IntRange(0, 400).Draw(t, "back"))
		w.DB.Rewind(max(w.born, w.DB.Flushed()-back))
		app.forget()
		reasons["history broke"] = true
	case 7:
		w.alone = true
		w.DB.Unpublish("pub", "b")
		w.DB.Publish("pub", "b")
	case 8:
		w.alone = true
		w.DB.DropPublication("pub")
		w.DB.Exec(func(tx *fakepg.Tx) { tx.Insert("b", fakepg.T(fmt.Sprint("u", app.n)), fakepg.N(), fakepg.N()) })
		tables := []string{"a", "b"}
		if *published {
			tables = append(tables, "c")
		}
		w.DB.CreatePublication("pub", tables...)
		reasons[`replication slot "millrace" can't be read any more`] = true
	case 9:
		// Made anew while nobody streams, and something was committed meanwhile.
		if w.DB.HoldSlot("millrace"); w.Row == nil || w.Row.Phase != pgout.PhaseStreaming {
			return
		}
		w.DB.Exec(func(tx *fakepg.Tx) { tx.Insert("a", fakepg.T(fmt.Sprint("m", app.n)), fakepg.N(), fakepg.N()) })
		w.DB.RemoveSlot("millrace")
		w.DB.AddSlot("millrace")
		reasons[`replication slot "millrace" was moved`] = true
	}
}
