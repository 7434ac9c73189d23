package capturesim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/capturer"
	"millrace/actors/port"
	"millrace/actors/writer"
	"millrace/core/chunk"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/registry"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakepg"
	"millrace/test/fake/fakestate"
)

const (
	stream = pos.StreamID("__app_1")
	node   = pos.NodeID("n1")
)

// bench is a node with one stream's writer and its capturer.
type bench struct {
	t     *testing.T
	db    *fakepg.DB
	disk  *fakedisk.Disk
	meta  *fakemeta.Meta
	state *fakestate.State
	sys   *actors.System
	reg   *registry.Registry
	hooks *hooks.Hooks
	mode  segment.SyncMode
	w, c  *actors.Handle
	rows  int
	batch int // BatchRecords
}

type nothing struct{}

func (nothing) Count(string, int64, ...string)   {}
func (nothing) Gauge(string, float64, ...string) {}
func (nothing) Forget(...string)                 {}

// inBubble runs f on a node whose server has the tables a, b and c, of which a and b are
// published and hold rows.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, db: fakepg.New(), disk: fakedisk.New(), meta: fakemeta.New(), state: fakestate.New(node)}
		b.db.LockTimeout, b.db.Batch = 2*time.Second, 20
		b.db.CreateTable("a", pgout.IdentityDefault, 1, columns...)
		b.db.CreateTable("b", pgout.IdentityFull, 1, columns...)
		b.db.CreateTable("c", pgout.IdentityDefault, 1, columns...)
		b.db.CreatePublication("pub", "a", "b")
		if _, err := b.meta.CreateStream(context.Background(), port.Stream{ID: stream, Name: "app", Phase: port.PhaseNew}); err != nil {
			t.Fatal(err)
		}
		b.insert(50)
		b.boot()
		b.startWriter()
		b.startCapturer()
		f(b)
		b.end()
	})
}

func (b *bench) boot() {
	b.sys, b.reg, b.hooks = actors.NewSystem(7), registry.New(), hooks.New()
}

func (b *bench) startWriter() {
	b.w = b.start("writer", func() actors.Process {
		return writer.New(writer.Config{Stream: stream, Node: node, Log: segment.Config{Mode: b.mode}, Disk: b.disk, Metadata: b.meta, State: b.state,
			Hooks: b.hooks, Registry: b.reg, Logger: zerolog.Nop()})
	})
}

func (b *bench) startCapturer() {
	b.c = b.start("capturer", func() actors.Process {
		return capturer.New(capturer.Config{Name: "app", Node: node, Stream: stream, Slot: "millrace", Publication: "pub", Hooks: b.hooks, Registry: b.reg,
			Disk: b.disk, Metadata: b.meta, Postgres: b.db, Metrics: nothing{}, Log: zerolog.Nop(),
			BatchRecords: b.batch})
	})
}

func (b *bench) start(path string, f func() actors.Process) *actors.Handle {
	b.t.Helper()
	h, err := b.sys.Start(context.Background(), actors.Spec{Path: path, New: f})
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// end ends what runs, as kill -9 does.
func (b *bench) end() {
	b.c.Kill()
	<-b.c.Gone()
	b.w.Kill()
	<-b.w.Gone()
	b.sys.Close()
	synctest.Wait()
}

func (b *bench) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bench) status() pgout.Status { return b.c.Status().(pgout.Status) }

// insert commits n rows in a, one transaction each ten.
func (b *bench) insert(n int) {
	for n > 0 {
		b.db.Exec(func(tx *fakepg.Tx) {
			for range min(n, 10) {
				b.rows++
				tx.Insert("a", fakepg.T(fmt.Sprint(b.rows)), fakepg.T("text"), fakepg.N())
				tx.Insert("b", fakepg.T(fmt.Sprint(b.rows)), fakepg.T("text"), fakepg.N())
				n--
			}
		})
	}
}

// records reads the stream from its log.
func (b *bench) records() [][]byte {
	b.t.Helper()
	l, ok := b.hooks.Lookup(stream)
	if !ok {
		b.t.Fatal("the log is not up")
	}
	cur, err := hooks.OpenCursor(b.disk, l, l.First())
	if err != nil {
		b.t.Fatal(err)
	}
	defer cur.Close()
	var all [][]byte
	for {
		_, body, err := cur.Read(nil)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			b.t.Fatal(err)
		}
		for r, err := range chunk.Records(body) {
			if err != nil {
				b.t.Fatal(err)
			}
			all = append(all, append([]byte(nil), r.Body...))
		}
	}
}

// settled waits until the stream equals the tables, and everything is confirmed.
func (b *bench) settled() {
	b.t.Helper()
	var err error
	for range 600 {
		b.pass(time.Second)
		if s := b.status(); s.State != "streaming" || s.Waiting != nil {
			err = fmt.Errorf("%+v, waiting %+v", s, s.Waiting)
			continue
		}
		if err = same(b.db, b.records()); err == nil {
			return
		}
	}
	b.t.Fatal(err)
}

func TestLoadAndStream(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.insert(200)
		b.pass(5 * time.Second)
		if err := same(b.db, b.records()); err != nil {
			t.Fatal(err)
		}
		s := b.status()
		confirmed, active, ok := b.db.Slot("millrace")
		if !ok || !active || confirmed != b.db.Flushed() || s.Confirmed != confirmed.String() {
			t.Fatalf("slot %s %v %v, WAL ends at %s, status %+v", confirmed, active, ok, b.db.Flushed(), s)
		}
		if s.Phase != pgout.PhaseStreaming || s.Commits != 20 || s.LagMillis != 0 || s.Events != 100+2+2+400 {
			t.Fatalf("status %+v", s)
		}
		if _, ok := b.reg.WhereIs(registry.Name{Kind: "capturer", ID: "app", Node: string(node)}); !ok {
			t.Fatal("not registered")
		}
	})
}

// An idle publication on a busy server holds no WAL back.
func TestKeepalivesAreConfirmed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.db.Noise(1 << 30)
		b.pass(20 * time.Second)
		if confirmed, _, _ := b.db.Slot("millrace"); confirmed != b.db.Flushed() {
			t.Fatalf("confirmed %s, WAL ends at %s", confirmed, b.db.Flushed())
		}
	})
}

func TestEverythingIsKilledAgainAndAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		for round := range 12 {
			b.insert(30)
			b.pass(time.Duration(round*170) * time.Millisecond)
			switch round % 4 {
			case 0:
				b.c.Kill()
				<-b.c.Gone()
				b.startCapturer()
			case 1:
				b.w.Kill()
				<-b.w.Gone()
				b.startWriter()
			case 2:
				disk := b.disk.KillClone()
				b.end()
				b.disk, b.state = disk, b.state.Restart(false)
				b.boot()
				b.startWriter()
				b.startCapturer()
			case 3:
				b.db.BreakConnections()
			}
		}
		b.settled()
		if n := b.db.Slots(); n != 1 {
			t.Fatalf("%d slots", n)
		}
	})
}

func TestPowerLoss(t *testing.T) {
	for _, mode := range []segment.SyncMode{segment.Always, segment.Interval, segment.Never} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.end()
				b.mode = mode
				b.boot()
				b.startWriter()
				b.startCapturer()
				for range 5 {
					b.insert(40)
					b.pass(1300 * time.Millisecond)
					disk := b.disk.CrashClone(func(unsynced int) int { return unsynced / 2 })
					b.end()
					b.disk, b.state = disk, b.state.Restart(true)
					b.boot()
					b.startWriter()
					b.startCapturer()
				}
				b.settled()
			})
		})
	}
}

func TestMetadataOutageHoldsConfirmationsOnly(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		var away atomic.Bool
		b.meta.Fault = func(op, what string) error {
			if away.Load() {
				return port.Unavailable
			}
			return nil
		}
		before, _, _ := b.db.Slot("millrace")
		away.Store(true)
		b.insert(40)
		b.pass(10 * time.Minute)
		if err := same(b.db, b.records()); err != nil {
			t.Fatal(err)
		}
		if confirmed, _, _ := b.db.Slot("millrace"); confirmed != before || len(b.status().Warnings) == 0 {
			t.Fatalf("confirmed %s, before %s; status %+v", confirmed, before, b.status())
		}
		away.Store(false)
		b.pass(20 * time.Second)
		if confirmed, _, _ := b.db.Slot("millrace"); confirmed != b.db.Flushed() || len(b.status().Warnings) != 0 {
			t.Fatalf("confirmed %s, WAL ends at %s; status %+v", confirmed, b.db.Flushed(), b.status())
		}
	})
}

func TestServerAwayIsAState(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.db.SetDown(true)
		b.pass(time.Hour)
		if s := b.status(); s.State != "waiting" || s.Waiting == nil || s.Waiting.Until == 0 || !b.c.Alive() {
			t.Fatalf("status %+v", s)
		}
		b.db.SetDown(false)
		b.insert(10)
		b.settled()
	})
}

// A slot waits for open transactions, but not for ever, and says so.
func TestOpenTransactionHoldsTheSlotUp(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		tx := b.db.Begin()
		b.db.RemoveSlot("millrace")
		b.db.BreakConnections()
		b.pass(time.Minute)
		if s := b.status(); s.Waiting == nil {
			t.Fatalf("status %+v", s)
		}
		tx.Commit()
		b.settled()
	})
}

func TestTableNewInThePublication(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.db.Exec(func(tx *fakepg.Tx) { tx.Insert("c", fakepg.T("1"), fakepg.T("before"), fakepg.N()) })
		b.db.Publish("pub", "c")
		b.db.Exec(func(tx *fakepg.Tx) {
			tx.Insert("c", fakepg.T("2"), fakepg.T("after"), fakepg.N())
			tx.Insert("a", fakepg.T("x"), fakepg.T("beside"), fakepg.N())
		})
		b.settled()
		b.db.Exec(func(tx *fakepg.Tx) { tx.Update("c", "1", fakepg.T("1"), fakepg.T("changed"), fakepg.N()) })
		b.settled()
		if s := b.status(); b.db.Slots() != 1 || s.Losses != 0 {
			t.Fatalf("%d slots, %+v", b.db.Slots(), s)
		}
	})
}

// The records of a transaction are seen while it is still arriving.
func TestLargeTransactionIsVisibleChunkByChunk(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.settled()
		b.c.Kill()
		<-b.c.Gone()
		b.batch = 100
		b.startCapturer()
		b.db.Exec(func(tx *fakepg.Tx) {
			for i := range 5000 {
				tx.Insert("a", fakepg.T(fmt.Sprint("big", i)), fakepg.T("text"), fakepg.N())
			}
		})
		b.settled()
		chunks := 0
		l, _ := b.hooks.Lookup(stream)
		cur, err := hooks.OpenCursor(b.disk, l, l.First())
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		for {
			ref, _, err := cur.Read(nil)
			if err != nil {
				break
			}
			if ref.Header.Records > 0 {
				chunks++
			}
		}
		if chunks < 50 {
			t.Fatalf("%d chunks", chunks)
		}
	})
}
