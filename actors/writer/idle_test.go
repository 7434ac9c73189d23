package writer_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
)

func TestAnIdleLogExpiresAsAWhole(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cfg = segment.Config{Retention: segment.Retention{MaxAge: time.Hour}}
		w.start()
		w.append("1", "2")
		pass(2 * time.Hour)
		if l := w.log(); l.First() != 2 || l.Committed() != 2 || l.LastChunk() != pos.NoOffset || len(w.names()) != 2 {
			t.Errorf("first %s, committed %s, files %v", l.First(), l.Committed(), w.names())
		}
		w.stop()
		w.start()
		at, fromStore := w.log().Born()
		if at != 2 || fromStore {
			t.Errorf("born at %s, from the store %v: what retention took is not lost", at, fromStore)
		}
		if a := w.append("3"); a.First != 2 {
			t.Errorf("answer %+v", a)
		}
	})
}

// open counts the handles a disk hands out and gets back.
func TestAnIdleLogHoldsNoFile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var opened, closed atomic.Int64
		w.disk.After = func(op, what string) error {
			switch op {
			case "open", "create":
				opened.Add(1)
			case "close":
				closed.Add(1)
			}
			return nil
		}
		w.start()
		if opened.Load() == 0 || opened.Load() != closed.Load() {
			t.Errorf("a log that nobody wrote yet: %d files opened, %d closed", opened.Load(), closed.Load())
		}
		w.append("1")
		pass(3 * time.Minute)
		if opened.Load() == 0 || opened.Load() != closed.Load() {
			t.Errorf("%d files opened, %d closed", opened.Load(), closed.Load())
		}
		if rec := w.replica(); !rec.Clean || rec.CommittedAtCleanStop != 1 {
			t.Errorf("record %+v", rec)
		}
		w.append("2")
		if rec := w.replica(); rec.Clean {
			t.Errorf("a log that is written is not clean: %+v", rec)
		}
		if got := w.read(0); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("read %q", got)
		}
	})
}

func TestAStateThatCannotBeWrittenHoldsAppends(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var back atomic.Bool
		w.state.Fault = func(op, what string) error {
			if !back.Load() && op == "putreplica" {
				return port.Full
			}
			return nil
		}
		w.start()
		answer := make(chan segment.Appended, 1)
		go func() { answer <- w.append("x") }()
		pass(20 * time.Second)
		if s := w.status(); s.State != "waiting" || s.Last != 0 || !strings.Contains(s.Why, "space") {
			t.Errorf("status %+v", s)
		}
		back.Store(true)
		if a := <-answer; a.Next != 1 {
			t.Errorf("answer %+v", a)
		}
	})
}

func TestSyncModes(t *testing.T) {
	for _, mode := range []segment.SyncMode{segment.Interval, segment.Never} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.cfg = segment.Config{Mode: mode, SyncEvery: 2 * time.Second}
				var syncs atomic.Int64
				w.disk.After = func(op, what string) error {
					if op == "sync" && strings.HasSuffix(what, ".segment") {
						syncs.Add(1)
					}
					return nil
				}
				w.start()
				syncs.Store(0)
				w.append("1")
				if l := w.log(); l.Committed() != 1 || l.Synced() != 0 || syncs.Load() != 0 {
					t.Errorf("committed %s, synced %s after %d syncs", l.Committed(), l.Synced(), syncs.Load())
				}
				pass(10 * time.Second)
				want := map[segment.SyncMode]int64{segment.Interval: 1, segment.Never: 0}[mode]
				if syncs.Load() != want || w.log().Synced() != pos.Offset(want) {
					t.Errorf("%d syncs, synced %s", syncs.Load(), w.log().Synced())
				}
				w.append("2")
				w.log().Notify(w.h, 1, true, "synced")
				pass(10 * time.Second)
				if w.log().Synced() != 2 {
					t.Errorf("somebody waits, synced %s", w.log().Synced())
				}
				w.append("3")
				pass(3 * time.Minute)
				if rec := w.replica(); w.log().Synced() != 3 || !rec.Clean || rec.CommittedAtCleanStop != 3 {
					t.Errorf("idle: synced %s, record %+v", w.log().Synced(), rec)
				}
				w.append("4")
				w.stop()
				if rec := w.replica(); !rec.Clean || rec.CommittedAtCleanStop != 4 {
					t.Errorf("stopped: record %+v", rec)
				}
			})
		})
	}
}
