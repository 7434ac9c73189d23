package pgtest

import (
	"strings"
	"time"

	"millrace/core/pgout"
)

// testUnreadable: the publication is looked up as it was at the change.
func testUnreadable(s *suite) {
	point := s.create()
	s.DropPublication()
	s.commit(func(tx Tx) { tx.Insert("1", "a") })
	s.CreatePublication()
	s.commit(func(tx Tx) { tx.Insert("2", "b") })
	server, err := s.pg.Inspect(s.ctx, slot, "pub")
	s.must(err)
	if server.Publication == nil {
		s.Fatal("Inspect does not see the publication")
	}
	for range 2 {
		repl, held, err := s.pg.Stream(s.ctx, slot, "pub", point)
		for err == nil {
			if held.Confirmed != point {
				s.Fatalf("the slot is at %s, and was made at %s", held.Confirmed, point)
			}
			_, err = repl.Receive(s.ctx)
		}
		s.refused(err, pgout.Unreadable)
		if repl != nil {
			repl.Close()
		}
		for s.slotState().ActivePID != 0 {
			<-time.After(10 * time.Millisecond)
		}
	}
	s.must(s.pg.DropSlot(s.ctx, slot))
	point = s.create()
	s.commit(func(tx Tx) { tx.Insert("3", "c") })
	if got := s.reader(point).texts(1); got[0] != "+3 c" {
		s.Fatalf("streamed %q", got)
	}
}

// testCaptureUnreadable: whether the capture streams meanwhile or is started behind it.
func testCaptureUnreadable(s *suite) {
	w := &World{Postgres: s.pg, Now: 1, Patience: 100 * time.Millisecond, Tables: map[string]pgout.TableRow{},
		Config: pgout.Config{Name: "app", Stream: "__app_1", Slot: slot, Publication: "pub"}}
	defer func() { w.Kill(false, 0) }()
	settle := func() {
		for n := 0; n < 300 && (n < 10 || !w.Quiet() || w.Status().State != "streaming"); n++ {
			w.Do(0)
			w.Sync(len(w.Log))
			w.Pass(100)
		}
	}
	w.Start()
	settle()
	for i, id := range []string{"1", "2"} {
		if i == 1 {
			w.Kill(false, 0)
		}
		s.DropPublication()
		s.commit(func(tx Tx) { tx.Insert(id, "while there was none") })
		s.CreatePublication()
		s.commit(func(tx Tx) { tx.Insert(id+"0", "behind it") })
		if i == 1 {
			w.Start()
		}
		settle()
		s.same(w)
	}
	s.must(w.Wrong)
	voids := 0
	for _, body := range w.Log {
		e, err := pgout.DecodeRecord(body)
		s.must(err)
		if e.Source.Snapshot == pgout.SnapshotFirst {
			voids++
		}
	}
	if len(w.Reloads) != 3 || len(w.Losses) != 2 || voids != 3 || !strings.Contains(w.Losses[0], "did not exist") {
		s.Fatalf("loads %q, losses %q, %d voids", w.Reloads, w.Losses, voids)
	}
}
