package writer_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
)

// grown is a world with three segments of three records each, the last one active,
// killed without a stop. The files can be damaged before the next start.
func grown(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		w.cfg = segment.Config{SegmentMaxBytes: 180}
		w.start()
		for i := range 9 {
			w.append(numbered(i, 1)...)
		}
		if got := w.log().Segments(); !slices.Equal(got, []pos.Offset{0, 3, 6}) {
			t.Fatalf("segments %v", got)
		}
		w.crash()
		f(t, w)
	})
}

const (
	oldIndex    = "00000000000000000003.index"
	activeIndex = "00000000000000000006.index"
	active      = "00000000000000000006.segment"
)

func TestIndexesAreRebuilt(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"short":   func(b []byte) []byte { return b[:40] },
		"long":    func(b []byte) []byte { return append(b, b[8:37]...) },
		"garbage": func(b []byte) []byte { return bytes.Repeat([]byte{0xee}, len(b)) },
		"zeros":   func(b []byte) []byte { clear(b[37:]); return b },
		"empty":   func(b []byte) []byte { return nil },
		"missing": nil,
	} {
		for _, file := range []string{oldIndex, activeIndex} {
			t.Run(name+" "+file, func(t *testing.T) {
				grown(t, func(t *testing.T, w *world) {
					was := w.bytes(file)
					if spoil == nil {
						if err := w.disk.Remove(string(stream), file); err != nil {
							t.Fatal(err)
						}
					} else {
						w.put(file, spoil(bytes.Clone(was)))
					}
					w.start()
					if got := w.bytes(file); !bytes.Equal(got, was) {
						t.Errorf("rebuilt\n%x, want\n%x", got, was)
					}
					if got := w.read(0); !slices.Equal(got, numbered(0, 9)) {
						t.Errorf("read %q", got)
					}
				})
			})
		}
	}
}

func TestTheActiveIndexIsNotBelievedAfterACrash(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		was := w.bytes(activeIndex)
		spoilt := bytes.Clone(was)
		clear(spoilt[37 : 37+29]) // a page in the middle that was not written
		w.put(activeIndex, spoilt)
		w.start()
		if got := w.bytes(activeIndex); !bytes.Equal(got, was) {
			t.Errorf("index %x, want %x", got, was)
		}
	})
}

func TestAChunkThatIsNotIndexedIsKept(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		w.put(activeIndex, w.bytes(activeIndex)[:8+29])
		w.start()
		if got := w.read(0); !slices.Equal(got, numbered(0, 9)) {
			t.Errorf("read %q", got)
		}
	})
}

func TestATornTailIsCut(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"cut in the data":   func(b []byte) []byte { return b[:len(b)-1] },
		"cut in the header": func(b []byte) []byte { return b[:len(b)-50] },
		"wrong data":        func(b []byte) []byte { b[len(b)-1]++; return b },
		"rubbish behind":    func(b []byte) []byte { return append(b[:len(b)-60], "no chunk at all, but bytes"...) },
	} {
		t.Run(name, func(t *testing.T) {
			grown(t, func(t *testing.T, w *world) {
				w.put(active, spoil(w.bytes(active)))
				w.start()
				if got := w.read(0); !slices.Equal(got, numbered(0, 8)) {
					t.Errorf("read %q", got)
				}
				w.append("again")
				w.stop()
				w.start()
				if got := w.read(0); !slices.Equal(got, append(numbered(0, 8), "again")) {
					t.Errorf("read %q", got)
				}
			})
		})
	}
}

func TestUnexpectedFilesAreIgnored(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		w.put("notes.txt", []byte("hello"))
		w.put("00000000000000000007.index", segment.IndexHeader())
		w.put("00000000000000000009.segment", segment.FileHeader())
		w.put("00000000000000000009.index", nil)
		w.start()
		if got := w.read(0); !slices.Equal(got, numbered(0, 9)) {
			t.Errorf("read %q", got)
		}
		if got := w.names(); len(got) != 7 || !slices.Contains(got, "notes.txt") {
			t.Errorf("files %v: the index without segment and the empty pair go, notes stay", got)
		}
	})
}

func TestSegmentsThatDoNotJoinAreLeftAlone(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		if err := w.disk.Remove(string(stream), "00000000000000000003.segment"); err != nil {
			t.Fatal(err)
		}
		w.start()
		if l := w.log(); l.First() != 6 || !strings.Contains(w.status().Damage, "do not join") {
			t.Errorf("first %s, status %+v", l.First(), w.status())
		}
		if got := w.names(); !slices.Contains(got, "00000000000000000000.segment") {
			t.Errorf("files %v", got)
		}
	})
}

func TestDamageIsNotTakenForATornTail(t *testing.T) {
	damage := func(w *world) {
		b := w.bytes(active)
		b[60]++ // in the first chunk's data; two whole chunks follow
		w.put(active, b)
	}
	t.Run("the process died: refuse", func(t *testing.T) {
		grown(t, func(t *testing.T, w *world) {
			damage(w)
			w.start()
			if s := w.status(); s.State != "waiting" || !strings.Contains(s.Why, "damaged") {
				t.Errorf("status %+v", s)
			}
		})
	})
	t.Run("the power failed: cut and say so", func(t *testing.T) {
		grown(t, func(t *testing.T, w *world) {
			damage(w)
			w.state = w.state.Restart(true)
			w.start()
			if got := w.read(0); !slices.Equal(got, numbered(0, 6)) || !strings.Contains(w.status().Damage, "whole chunks follow") {
				t.Errorf("read %q, status %+v", got, w.status())
			}
		})
	})
}

func TestALogOfALaterEpochIsRefused(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		b := w.bytes(active)
		b[8+23] = 9
		w.put(active, b[:8+(len(b)-8)/3])
		w.start()
		if s := w.status(); s.State != "waiting" || !strings.Contains(s.Why, "epoch 9") {
			t.Fatalf("status %+v", s)
		}
		row := w.row()
		row.Epoch = 9
		if err := w.meta.SwapStreams(context.Background(), []port.Stream{row}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if s := w.status(); s.State != "running" || s.Epoch != 10 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestALostFolderStartsAtTheSeam(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setPointer(500)
		w.start()
		if at, fromStore := w.log().Born(); at != 500 || !fromStore {
			t.Errorf("born at %s, from the store %v", at, fromStore)
		}
		w.crash()
		w.start()
		if at, fromStore := w.log().Born(); at != 500 || !fromStore {
			t.Errorf("after a crash born at %s, from the store %v", at, fromStore)
		}
		w.stop()
		w.start()
		if at, fromStore := w.log().Born(); at != 500 || !fromStore {
			t.Errorf("after a stop born at %s, from the store %v", at, fromStore)
		}
		if a := w.append("x"); a.First != 500 {
			t.Errorf("answer %+v", a)
		}
		w.crash()
		w.start()
		if at, fromStore := w.log().Born(); at != 500 || fromStore {
			t.Errorf("with a record born at %s, from the store %v", at, fromStore)
		}
	})
}

func TestALogThatEndsBeforeTheSeamIsReplaced(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		w.setPointer(12)
		w.start()
		if at, fromStore := w.log().Born(); at != 12 || !fromStore || len(w.names()) != 2 {
			t.Errorf("born at %s, from the store %v, files %v", at, fromStore, w.names())
		}
		if a := w.append("x"); a.First != 12 {
			t.Errorf("answer %+v", a)
		}
	})
}

func TestALogShorterThanItWasLeftIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.append("1")
		w.append("2")
		w.stop()
		b := w.bytes("00000000000000000000.segment")
		w.put("00000000000000000000.segment", b[:8+(len(b)-8)/2])
		w.start()
		if s := w.status(); s.State != "waiting" || !strings.Contains(s.Why, "committed up to 2") {
			t.Errorf("status %+v", s)
		}
		if got := w.bytes("00000000000000000000.segment"); len(got) != 8+(len(b)-8)/2 {
			t.Error("a refused log was changed")
		}
	})
}

func TestStartingACleanLogReadsLittle(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var reads atomic.Int64
		count := func(op, what string) error {
			if op == "readat" {
				reads.Add(1)
			}
			return nil
		}
		w.cfg = segment.Config{SegmentMaxBytes: 1 << 20}
		w.start()
		for i := range 30 {
			w.append(strings.Repeat("x", 200_000), numbered(i, 1)[0])
		}
		w.stop()
		w.disk.Fault = count
		w.start()
		if l := w.log(); l.Committed() != 60 || len(l.Segments()) < 5 || reads.Load() > int64(8*len(l.Segments())) {
			t.Errorf("%d reads for %d segments", reads.Load(), len(l.Segments()))
		}
	})
}

func TestAFailedSyncInRecoveryWritesAgain(t *testing.T) {
	grown(t, func(t *testing.T, w *world) {
		var fails, writes atomic.Int64
		fails.Store(2)
		w.disk.Fault = func(op, what string) error {
			if op == "sync" && strings.HasSuffix(what, ".segment") && fails.Add(-1) >= 0 {
				return port.Unclassified
			}
			if op == "writeat" && strings.HasSuffix(what, ".segment") {
				writes.Add(1)
			}
			return nil
		}
		w.start()
		if s := w.status(); s.State != "waiting" {
			t.Errorf("status %+v", s)
		}
		pass(time.Minute)
		if s := w.status(); s.State != "running" || writes.Load() < 2 {
			t.Errorf("status %+v after %d writes", s, writes.Load())
		}
		w.disk = w.disk.CrashClone(nil)
		w.kill()
		w.state = w.state.Restart(true)
		w.start()
		if got := w.read(0); !slices.Equal(got, numbered(0, 9)) {
			t.Errorf("read %q", got)
		}
	})
}

func TestReadersFollowTheTail(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cfg = segment.Config{SegmentMaxBytes: 300}
		w.start()
		c, err := hooks.OpenCursor(w.disk, w.log(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var got []string
		for i := range 20 {
			w.append(numbered(i, 1)...)
			bodies, err := drain(c, 0)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, bodies...)
		}
		synctest.Wait()
		if !slices.Equal(got, numbered(0, 20)) {
			t.Errorf("read %q", got)
		}
	})
}
