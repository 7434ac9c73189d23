package capturesim

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/test/fake/fakepg"
)

// voids counts the voids in the stream.
func (b *bench) voids() int {
	b.t.Helper()
	n := 0
	for _, body := range b.records() {
		e, err := pgout.DecodeRecord(body)
		if err != nil {
			b.t.Fatal(err)
		}
		if e.Source.Snapshot == pgout.SnapshotFirst {
			n++
		}
	}
	return n
}

// A publication made anew makes the slot unreadable for ever: one load, and it goes on.
func TestPublicationMadeAnew(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.db.DropPublication("pub")
		b.insert(10)
		b.db.CreatePublication("pub", "a", "b")
		b.insert(10)
		b.settled()
		b.pass(time.Hour)
		if s, voids := b.status(), b.voids(); voids != 4 || s.Losses != 1 || s.State != "streaming" {
			t.Fatalf("%d voids, %+v", voids, s)
		}
		if confirmed, _, _ := b.db.Slot("millrace"); confirmed != b.db.Flushed() {
			t.Fatalf("confirmed %s, WAL ends at %s", confirmed, b.db.Flushed())
		}
	})
}

// Somebody drops the slot and makes it again while the node is down.
func TestSlotMadeAnewWhileStopped(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.db.Noise(100)
		b.pass(time.Minute)
		b.c.Kill()
		<-b.c.Gone()
		b.startCapturer()
		b.settled()
		if s := b.status(); s.Losses != 0 || b.voids() != 2 {
			t.Fatalf("a restart: %+v", s)
		}
		b.c.Kill()
		<-b.c.Gone()
		b.insert(10)
		b.db.RemoveSlot("millrace")
		b.db.AddSlot("millrace")
		b.startCapturer()
		b.settled()
		if s := b.status(); s.Losses != 1 || b.voids() != 4 {
			t.Fatalf("%d voids, %+v", b.voids(), s)
		}
	})
}

// A table that can't be read is refused before anything is touched.
func TestTableWithoutSelect(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.db.SetReadable("b", false)
		b.insert(10)
		b.settled()
		before := len(b.records())
		b.db.RemoveSlot("millrace")
		b.pass(10 * time.Hour)
		s := b.status()
		if s.State != "waiting" || !strings.Contains(s.Waiting.Hint, `GRANT SELECT ON "public"."b" TO "millrace"`) || len(b.records()) != before || b.db.Slots() != 0 {
			t.Fatalf("%d records, before %d; %d slots; %+v, waiting %+v", len(b.records()), before, b.db.Slots(), s, s.Waiting)
		}
		b.db.SetReadable("b", true)
		b.settled()
	})
}

// A load that fails in the middle again and again does not fill the stream.
func TestLoadThatFailsAgainAndAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		var bad atomic.Bool
		bad.Store(true)
		b.db.Fault = func(op, what string) error {
			if bad.Load() && op == "load" && what == "public.b" {
				return &port.PostgresError{Op: op, Class: pgout.Broken, Err: fmt.Errorf("a value that can't be printed")}
			}
			return nil
		}
		b.db.RemoveSlot("millrace")
		b.pass(24 * time.Hour)
		if voids := b.voids(); voids > 2+2*32 {
			t.Fatalf("%d voids in a day", voids)
		}
		bad.Store(false)
		b.pass(time.Hour)
		b.settled()
	})
}

// The walsender stops: connections stand, and nothing comes.
func TestSilentServerIsNotReady(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.pass(time.Minute)
		b.db.FreezeStreams(true)
		b.insert(10)
		b.pass(time.Minute)
		if s := b.status(); s.State != "silent" || s.Waiting == nil || s.LagMillis < 50_000 {
			t.Fatalf("%+v, waiting %+v", s, s.Waiting)
		}
		b.db.FreezeStreams(false)
		b.settled()
		for range 100 {
			b.db.Exec(func(tx *fakepg.Tx) {
				tx.Insert("c", fakepg.T(fmt.Sprint("n", b.rows)), fakepg.N(), fakepg.N())
				b.rows++
			})
			b.pass(7 * time.Second)
			if s := b.status(); s.State != "streaming" || s.LagMillis > 10_000 {
				t.Fatalf("a busy server with nothing for us: %+v", s)
			}
		}
	})
}

// A full disk is said, and how much WAL the server keeps for it.
func TestFullDiskShowsRetainedWAL(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.end()
		b.mode = segment.Always
		b.boot()
		b.startWriter()
		b.startCapturer()
		b.settled()
		var full atomic.Bool
		b.disk.Fault = func(op, _ string) error {
			if full.Load() && op == "writeat" {
				return port.Full
			}
			return nil
		}
		full.Store(true)
		b.insert(10)
		for range 10 {
			b.db.Noise(1 << 30)
			b.pass(2 * time.Minute)
			server, err := b.db.Inspect(t.Context(), "millrace", "pub")
			if err != nil {
				t.Fatal(err)
			}
			s := b.status()
			said := fmt.Sprint(s.Waiting, s.Warnings)
			if s.Waiting != nil {
				said += s.Waiting.Why
			}
			if pos.LSN(s.Retained) != server.Flush-server.Slot.Restart || !strings.Contains(said, "nothing can be confirmed meanwhile") || !strings.Contains(said, "takes no records") {
				t.Fatalf("retained %d, the server says %d; %+v", s.Retained, server.Flush-server.Slot.Restart, s)
			}
		}
		full.Store(false)
		b.pass(10 * time.Minute)
		b.settled()
	})
}
