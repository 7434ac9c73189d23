package pgtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/core/pgout"
)

// Run runs the contract. start makes a fresh server, or empties one: no slot, no row.
func Run(t *testing.T, start func(t *testing.T) Server) {
	for _, c := range []struct {
		name string
		run  func(s *suite)
	}{
		{"inspect", testInspect},
		{"snapshot and stream meet without a gap", testSnapshotMeetsStream},
		{"a snapshot's rows are COPY text", testCopyText},
		{"transactions come in commit order without what was rolled back", testCommitOrder},
		{"old rows under the default identity", testOldRows},
		{"a transaction comes whole from its commit record on and not at all above", testStart},
		{"a start below confirmed_flush is moved up", testStartMovedUp},
		{"a start beyond the WAL skips", testStartBeyond},
		{"what was not confirmed comes again after a crash", testCrash},
		{"a slot in use, and ending its backend", testSlotInUse},
		{"a temporary slot goes with its snapshot", testTemporary},
		{"a slot does not wait for ever", testOpenTransaction},
		{"slots that exist and slots that do not", testSlotNames},
		{"a capture's stream is the table", testCapture},
		{"a change made without a publication ends every stream", testUnreadable},
		{"a capture whose publication was made anew loads once", testCaptureUnreadable},
		{"a context ends a wait and the stream goes on", testReceiveContext},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			server := start(t)
			c.run(&suite{T: t, Server: server, pg: server.Postgres(), ctx: ctx})
		})
	}
}

func testInspect(s *suite) {
	server, err := s.pg.Inspect(s.ctx, slot, "pub")
	s.must(err)
	if server.SystemID == "" || server.Timeline < 1 || server.Version < 100000 || server.Flush == 0 || server.WALLevel != "logical" ||
		server.Database == "" || server.Role == "" || !server.Replication || server.Slot != nil {
		s.Fatalf("server %+v", server)
	}
	p := server.Publication
	if p == nil || p.Name != "pub" || p.ViaRoot || len(p.Missing) != 0 || len(p.Tables) != 1 {
		s.Fatalf("publication %+v", p)
	}
	t := p.Tables[0]
	want := []pgout.Column{{Name: "id", Key: true, Type: 20, Mod: -1}, {Name: "text", Type: 25, Mod: -1}}
	if t.FullName() != "public.t" || t.Identity != pgout.IdentityDefault || t.Keyless || t.OID == 0 || t.Member == 0 || !slices.Equal(t.Columns, want) {
		s.Fatalf("table %+v", t)
	}
	if server, err = s.pg.Inspect(s.ctx, slot, "none"); err != nil || server.Publication != nil {
		s.Fatalf("publication none: %+v, %v", server.Publication, err)
	}
	point := s.create()
	if k := s.slotState(); k == nil || k.Name != slot || k.Plugin != "pgoutput" || k.Database != server.Database || k.ActivePID != 0 || k.Lost() ||
		k.Confirmed != point || k.Restart == 0 || k.Restart > point {
		s.Fatalf("slot %+v, created at %s", k, point)
	}
}

func testSnapshotMeetsStream(s *suite) {
	s.commit(func(tx Tx) { tx.Insert("1", "before") })
	snap, err := s.pg.CreateSlot(s.ctx, slot, "pub", false)
	s.must(err)
	defer snap.Close()
	s.commit(func(tx Tx) { tx.Insert("2", "after") })
	if got := s.rows(snap); !slices.Equal(got, []string{"1\tbefore\n"}) {
		s.Fatalf("loaded %q", got)
	}
	point := snap.Consistent()
	snap.Close()
	r := s.reader(point)
	if got := r.texts(1); !slices.Equal(got, []string{"+2 after"}) {
		s.Fatalf("streamed %q", got)
	}
	if r.got[0].final < point {
		s.Fatalf("consistent at %s, and a transaction at %s came", point, r.got[0].final)
	}
}

func testCopyText(s *suite) {
	s.commit(func(tx Tx) { tx.Insert("1", "tab\tback\\slash\nline"); tx.Insert("2", "") })
	snap, err := s.pg.CreateSlot(s.ctx, slot, "pub", true)
	s.must(err)
	defer snap.Close()
	got := s.rows(snap)
	slices.Sort(got)
	if !slices.Equal(got, []string{"1\ttab\\tback\\\\slash\\nline\n", "2\t\n"}) {
		s.Fatalf("loaded %q", got)
	}
}

func testCommitOrder(s *suite) {
	point := s.create()
	first, second, gone := s.Begin(), s.Begin(), s.Begin()
	first.Insert("1", "a")
	second.Insert("2", "b")
	gone.Insert("3", "c")
	first.Savepoint()
	first.Insert("4", "d")
	first.RollbackTo()
	first.Insert("5", "e")
	second.Commit()
	gone.Rollback()
	first.Commit()
	s.commit(func(Tx) {})
	s.commit(func(tx Tx) { tx.Insert("6", "f"); tx.Truncate(); tx.Insert("7", "g") })
	if got := s.reader(point).texts(3); !slices.Equal(got, []string{"+2 b", "+1 a +5 e", "+6 f truncate 1 +7 g"}) {
		s.Fatalf("streamed %q", got)
	}
}

func testOldRows(s *suite) {
	s.commit(func(tx Tx) { tx.Insert("1", "a") })
	point := s.create()
	s.commit(func(tx Tx) { tx.Update("1", "1", "b"); tx.Update("1", "2", "c"); tx.Delete("2") })
	if got := s.reader(point).texts(1); !slices.Equal(got, []string{">1 b K1>2 c -K2"}) {
		s.Fatalf("streamed %q", got)
	}
}

func testStart(s *suite) {
	point := s.create()
	s.commit(func(tx Tx) { tx.Insert("1", "a"); tx.Insert("2", "b") })
	s.commit(func(tx Tx) { tx.Insert("3", "c") })
	r := s.reader(point)
	r.texts(2)
	first := r.got[0]
	r.repl.Close()
	r = s.reader(first.final)
	if got := r.texts(2); !slices.Equal(got, []string{"+1 a +2 b", "+3 c"}) {
		s.Fatalf("from the commit record on: %q", got)
	}
	r.repl.Close()
	// Whether somebody has moved the slot can be told by its place: to begin above it moves nothing.
	if got := s.slotState().Confirmed; got != point {
		s.Fatalf("the slot was made at %s, nothing was confirmed, and it is at %s", point, got)
	}
	r = s.reader(first.final + 1)
	if got := r.texts(1); !slices.Equal(got, []string{"+3 c"}) {
		s.Fatalf("from above the commit record: %q", got)
	}
	r.repl.Close()
	r = s.reader(first.end)
	if got := r.texts(1); !slices.Equal(got, []string{"+3 c"}) || s.slotState().Confirmed != point {
		s.Fatalf("from the commit record's end: %q; the slot is at %s, and was at %s", got, s.slotState().Confirmed, point)
	}
}

func testStartMovedUp(s *suite) {
	point := s.create()
	s.commit(func(tx Tx) { tx.Insert("1", "a") })
	s.commit(func(tx Tx) { tx.Insert("2", "b") })
	r := s.reader(point)
	r.texts(2)
	end := r.got[0].end
	r.repl.Confirm(end)
	for s.slotState().Confirmed < end {
		<-time.After(10 * time.Millisecond)
	}
	r.repl.Close()
	if got := s.reader(point).texts(1); !slices.Equal(got, []string{"+2 b"}) {
		s.Fatalf("streamed %q", got)
	}
}

func testStartBeyond(s *suite) {
	s.create()
	server, err := s.pg.Inspect(s.ctx, slot, "pub")
	s.must(err)
	r := s.reader(server.Flush + 1<<30)
	s.commit(func(tx Tx) { tx.Insert("1", "skipped") })
	r.nothing()
}

func testCrash(s *suite) {
	point := s.create()
	s.commit(func(tx Tx) { tx.Insert("1", "a") })
	r := s.reader(point)
	r.texts(1)
	first := r.got[0]
	s.Crash()
	s.ended(r)
	if got := s.reader(first.final).texts(1); !slices.Equal(got, []string{"+1 a"}) {
		s.Fatalf("streamed %q", got)
	}
}

// ended wants the stream to end: nobody serves it any more.
func (s *suite) ended(r *reader) {
	s.Helper()
	var err error
	for err == nil {
		_, err = r.repl.Receive(s.ctx)
	}
	if s.ctx.Err() != nil {
		s.Fatalf("the stream goes on: %v", err)
	}
}

func testSlotInUse(s *suite) {
	point := s.create()
	r := s.reader(point)
	_, _, err := s.pg.Stream(s.ctx, slot, "pub", point)
	held := s.refused(err, pgout.SlotInUse)
	if pid := s.slotState().ActivePID; pid == 0 || held != pid {
		s.Fatalf("held by %d, told %d", pid, held)
	}
	held = s.refused(s.pg.DropSlot(s.ctx, slot), pgout.SlotInUse)
	s.must(s.pg.EndBackend(s.ctx, held))
	s.must(s.pg.EndBackend(s.ctx, held))
	s.ended(r)
	if pid := s.slotState().ActivePID; pid != 0 {
		s.Fatalf("still held by %d", pid)
	}
	s.must(s.pg.DropSlot(s.ctx, slot))
}

func testTemporary(s *suite) {
	snap, err := s.pg.CreateSlot(s.ctx, slot, "pub", true)
	s.must(err)
	if s.slotState() == nil {
		s.Fatal("there is no slot")
	}
	snap.Close()
	snap.Close()
	for s.slotState() != nil {
		s.must(s.ctx.Err())
		<-time.After(10 * time.Millisecond)
	}
	if _, err := snap.Tables(s.ctx); err == nil {
		s.Fatal("a closed snapshot answers")
	}
}

func testOpenTransaction(s *suite) {
	tx := s.Begin()
	tx.Insert("1", "open")
	_, err := s.pg.CreateSlot(s.ctx, slot, "pub", false)
	s.refused(err, pgout.Unavailable)
	if k := s.slotState(); k != nil {
		s.Fatalf("slot %+v was left", k)
	}
	tx.Rollback()
	s.create()
}

func testSlotNames(s *suite) {
	s.must(s.pg.DropSlot(s.ctx, slot))
	_, _, err := s.pg.Stream(s.ctx, slot, "pub", 0)
	s.refused(err, pgout.NotFound)
	s.create()
	_, err = s.pg.CreateSlot(s.ctx, slot, "pub", false)
	s.refused(err, pgout.Misconfigured)
	s.must(s.pg.DropSlot(s.ctx, slot))
	if s.slotState() != nil {
		s.Fatal("the slot was not dropped")
	}
}

func testReceiveContext(s *suite) {
	r := s.reader(s.create())
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		_, err = r.repl.Receive(ctx)
	}
	s.commit(func(tx Tx) { tx.Insert("1", "a") })
	if got := r.texts(1); !slices.Equal(got, []string{"+1 a"}) {
		s.Fatalf("streamed %q", got)
	}
}

// testCapture runs a machine on the port, with crashes, and folds what it wrote.
func testCapture(s *suite) {
	s.commit(func(tx Tx) { tx.Insert("1", "a"); tx.Insert("2", "b\tc") })
	w := &World{Postgres: s.pg, Now: 1, Patience: 100 * time.Millisecond, Tables: map[string]pgout.TableRow{},
		Config: pgout.Config{Name: "app", Stream: "__app_1", Slot: slot, Publication: "pub", BatchRecords: 2}}
	defer w.Kill(false, 0)
	for round := range 4 {
		w.Start()
		if round > 0 {
			s.commit(func(tx Tx) {
				tx.Insert(fmt.Sprint(round+10), "n")
				tx.Update("1", "1", fmt.Sprint(round))
				tx.Insert(fmt.Sprint(round+20), "m")
			})
			s.commit(func(tx Tx) { tx.Delete(fmt.Sprint(round + 20)) })
		}
		for n := 0; n < 200 && !w.Quiet(); n++ {
			w.Do(0)
			w.Sync(len(w.Log))
			w.Pass(50)
		}
		w.Kill(round == 2, 1)
		if round == 2 {
			s.Crash()
		}
	}
	s.must(w.Wrong)
	if len(w.Reloads) != 1 || len(w.Losses) != 0 {
		s.Fatalf("loads %q, losses %q", w.Reloads, w.Losses)
	}
	s.same(w)
}

// same wants the log to fold to the table.
func (s *suite) same(w *World) {
	s.Helper()
	f := NewFold(func(string) []string { return []string{"id"} })
	for _, body := range w.Log {
		s.must(f.Apply(body))
	}
	got := slices.Sorted(maps.Values(f.Rows("public.t", []string{"id", "text"})))
	snap, err := s.pg.CreateSlot(s.ctx, "pgtest_check", "pub", true)
	s.must(err)
	defer snap.Close()
	want := s.rows(snap)
	slices.Sort(want)
	if strings.Join(got, "\n")+"\n" != strings.Join(want, "") {
		s.Fatalf("folded %q, the table is %q", got, want)
	}
}
