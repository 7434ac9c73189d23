package writer_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/actors/writer"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
)

func TestFilesByteForByte(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		// The bubble's clock begins at 2000-01-01, which is 946684800000 ms = 0xdc6acfac00.
		w.start()
		if got := w.append("a", "bcd"); got != (segment.Appended{First: 0, Next: 2}) {
			t.Errorf("answer %+v", got)
		}
		w.append("e")
		want := "4f53494c 00000001" +
			"50 00 0002 00000002 000000dc6acfac00 0000000000000001 0000000000000000 2d065f8c 0000000c 00000000 00 000000 00000001 61 00000003 626364" +
			"50 00 0001 00000001 000000dc6acfac00 0000000000000001 0000000000000002 e2e1538b 00000005 00000000 00 000000 00000001 65"
		if got := w.bytes("00000000000000000000.segment"); !bytes.Equal(got, unhex(want)) {
			t.Errorf("segment\n%x, want\n%x", got, unhex(want))
		}
		want = "4f534949 00000001" +
			"0000000000000000 000000dc6acfac00 0000000000000001 00000008 00" +
			"0000000000000002 000000dc6acfac00 0000000000000001 00000044 00"
		if got := w.bytes("00000000000000000000.index"); !bytes.Equal(got, unhex(want)) {
			t.Errorf("index\n%x, want\n%x", got, unhex(want))
		}
	})
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func TestEveryStartIsANewEpoch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for epoch := pos.Epoch(1); epoch < 4; epoch++ {
			w.start()
			w.append("x")
			row, rec := w.row(), w.replica()
			if row.Epoch != epoch || row.Phase != port.PhaseReady || row.Writer != node || !row.Settled || w.log().Epoch != epoch {
				t.Errorf("row %+v", row)
			}
			if rec.PromisedEpoch != epoch || rec.Ballot != row.Ballot || rec.LogIncarnation != row.Members[0].LogIncarnation {
				t.Errorf("record %+v, row %+v", rec, row)
			}
			w.stop()
		}
		w.start()
		if got := w.read(0); !slices.Equal(got, []string{"x", "x", "x"}) {
			t.Errorf("read %q", got)
		}
	})
}

func TestUnknownOutcomeOfTheElectionIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var lost atomic.Bool
		w.meta.After = func(op, what string) error {
			if op == "swapstreams" && !lost.Swap(true) {
				return port.UnknownOutcome
			}
			return nil
		}
		w.start()
		w.append("x")
		if row := w.row(); row.Epoch != 1 || w.log().Epoch != 1 {
			t.Errorf("row %+v, log epoch %s", row, w.log().Epoch)
		}
	})
}

func TestMetadataAwayIsAStateNotACrash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var back atomic.Bool
		w.meta.Fault = func(op, what string) error {
			if !back.Load() {
				return port.Unavailable
			}
			return nil
		}
		w.start()
		if s := w.status(); s.State != "waiting" || s.Why == "" || s.Until == 0 {
			t.Errorf("status %+v", s)
		}
		answer := make(chan segment.Appended, 1)
		go func() { answer <- w.append("held") }()
		pass(time.Minute) // virtual
		if s := w.status(); s.Held != 1 {
			t.Errorf("status %+v", s)
		}
		back.Store(true)
		if got := <-answer; got.Next != 1 {
			t.Errorf("answer %+v", got)
		}
		if s := w.status(); s.State != "running" || s.Why != "" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestNameAndHooks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		h, ok := w.reg.WhereIs(writer.Name(stream, node))
		if !ok || h != w.h || w.log().Writer != h || w.log().Name != "orders" || !w.log().Alive() {
			t.Errorf("registered %v, log %+v", h, w.log())
		}
		l := w.log()
		w.stop()
		if _, ok := w.hooks.Lookup(stream); ok || l.Alive() {
			t.Error("the log of a stopped writer is still up")
		}
	})
}

func TestExpectNextIsComparedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.append("0", "1")
		if a, err := w.ask(1, "x"); err != nil || a.(segment.Refused).Next != 2 {
			t.Errorf("answer %+v, %v", a, err)
		}
		if a, err := w.ask(2, "2"); err != nil || a != (segment.Appended{First: 2, Next: 3}) {
			t.Errorf("answer %+v, %v", a, err)
		}
		if a, err := w.ask(3); err != nil || a != (segment.Appended{First: 3, Next: 3}) {
			t.Errorf("an empty append: %+v, %v", a, err)
		}
		if a, err := w.ask(9); err != nil || a.(segment.Refused).Next != 3 {
			t.Errorf("an empty append elsewhere: %+v, %v", a, err)
		}
		if got := w.read(0); !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("read %q", got)
		}
	})
}

func TestALargeAppendSpansChunksAndIsContiguous(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		answers := make(chan segment.Appended, 3)
		for range 3 {
			go func() { answers <- w.append(numbered(0, 3000)...) }()
		}
		for range 3 {
			a := <-answers
			if a.Next-a.First != 3000 {
				t.Errorf("answer %+v", a)
			}
			if got := w.read(a.First)[:3000]; !slices.Equal(got, numbered(0, 3000)) {
				t.Errorf("records from %s are mixed", a.First)
			}
		}
		c, err := hooks.OpenCursor(w.disk, w.log(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var sizes []uint32
		for {
			ref, err := c.Header()
			if err != nil {
				break
			}
			sizes = append(sizes, ref.Header.Records)
		}
		if !slices.Equal(sizes[:4], []uint32{32, 64, 128, 256}) || slices.Max(sizes) > chunk.MaxEntries {
			t.Errorf("chunk sizes %v", sizes)
		}
	})
}

func TestFramesOfAnIdleStream(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.append("1", "2", "3")
		if c := w.log().LastChunk(); c != 0 {
			t.Errorf("three records at once are %s chunks", c)
		}
		w.append(strings.Repeat("x", chunk.MaxBytes+1), "y")
		if l := w.log(); l.Committed() != 5 || l.LastChunk() != 4 {
			t.Errorf("a large record is a chunk of its own: committed %s, last chunk %s", l.Committed(), l.LastChunk())
		}
	})
}

func TestARecordThatFitsNoChunkIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		body := make([]byte, chunk.MaxRecord+1) // never touched, so it takes no memory
		a, err := w.h.Call(t.Context(), segment.Append{ExpectNext: pos.NoOffset, Records: []segment.Record{{Body: body}}})
		if err != nil || !strings.Contains(a.(segment.Refused).Why, "bytes") {
			t.Errorf("answer %+v, %v", a, err)
		}
	})
}

func TestFullDiskLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start()
		w.append("before")
		w.disk.SetCapacity(200)
		big := strings.Repeat("b", 500)
		answer := make(chan any, 2)
		go func() {
			a, err := w.ask(1, big, "after")
			answer <- a
			if err != nil {
				t.Error(err)
			}
		}()
		pass(30 * time.Second)
		if s := w.status(); s.State != "waiting" || s.Held != 1 || s.Last != 1 || !strings.Contains(s.Why, "space") {
			t.Errorf("status %+v", s)
		}
		if got := w.read(0); !slices.Equal(got, []string{"before"}) {
			t.Errorf("read %q", got)
		}
		w.disk.SetCapacity(1 << 20)
		if got := <-answer; got != (segment.Appended{First: 1, Next: 3}) {
			t.Errorf("answer %+v", got)
		}
		if got := w.read(0); !slices.Equal(got, []string{"before", big, "after"}) {
			t.Errorf("read %q", got)
		}
	})
}

func TestRetentionHelpsAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cfg = segment.Config{SegmentMaxBytes: 100}
		w.start()
		for i := range 8 {
			w.append(numbered(i, 1)...)
		}
		w.disk.SetCapacity(w.log().Bytes())
		answer := make(chan segment.Appended, 1)
		go func() { answer <- w.append("more") }()
		pass(time.Minute)
		before := time.Now()
		w.h.Send(segment.Seam{Next: 6})
		if a := <-answer; a.First != 8 || time.Since(before) > 0 {
			t.Errorf("answer %+v after %v", a, time.Since(before))
		}
	})
}

func TestHoldingIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.tune = func(c *writer.Config) { c.HoldBytes = 1000 }
		w.meta.Fault = func(op, what string) error { return port.Unavailable }
		w.start()
		go func() {
			if _, err := w.ask(pos.NoOffset, strings.Repeat("x", 900)); err == nil {
				t.Error("answered although the writer was killed")
			}
		}()
		synctest.Wait()
		if a, err := w.ask(pos.NoOffset, strings.Repeat("y", 200)); err != nil || !strings.Contains(a.(segment.Refused).Why, "waiting") {
			t.Errorf("answer %+v, %v", a, err)
		}
		w.kill()
	})
}

func TestFailedSyncEndsTheWriter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var fail atomic.Bool
		w.disk.Fault = func(op, what string) error {
			if op == "sync" && fail.Load() {
				return port.Unclassified
			}
			return nil
		}
		w.start()
		w.append("safe")
		fail.Store(true)
		if a, err := w.ask(pos.NoOffset, "lost"); err == nil {
			t.Errorf("answer %+v", a)
		}
		<-w.h.Done()
		if why := w.h.Reason(); why.Kind != actors.Crash || !strings.Contains(why.Detail, "sync") {
			t.Errorf("ended with %v", why)
		}
		fail.Store(false)
		w.sys.Close()
		w.start()
		if got := w.read(0); !slices.Equal(got, []string{"safe"}) || w.log().Epoch != 2 {
			t.Errorf("read %q in epoch %s", got, w.log().Epoch)
		}
	})
}

func TestRollAndRetention(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cfg = segment.Config{SegmentMaxBytes: 100, Retention: segment.Retention{LocalMinBytes: 150}}
		w.start()
		for i := range 10 {
			w.append(numbered(i, 1)...)
		}
		if got := len(w.log().Segments()); got != 5 {
			t.Errorf("%d segments", got)
		}
		w.h.Send(segment.Seam{Next: 7})
		synctest.Wait()
		if l := w.log(); l.First() != 6 || l.Bytes() < 150 {
			t.Errorf("first %s, %d bytes", l.First(), l.Bytes())
		}
		if _, err := hooks.OpenCursor(w.disk, w.log(), 3); err == nil || !strings.Contains(err.Error(), "begins at 6") {
			t.Errorf("reading what was trimmed: %v", err)
		}
		if got := w.names(); len(got) != 4 || got[0] != "00000000000000000006.index" {
			t.Errorf("files %v", got)
		}
		w.h.Send(segment.SetRetention{Retention: segment.Retention{LocalMaxBytes: 1}})
		synctest.Wait()
		if l := w.log(); l.First() != 8 || w.status().Retention.LocalMaxBytes != 1 {
			t.Errorf("first %s, status %+v", l.First(), w.status())
		}
		if got := w.read(8); !slices.Equal(got, numbered(8, 2)) {
			t.Errorf("read %q", got)
		}
	})
}

func TestTheSuccessorWaitsForTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		free, err := w.disk.Lease(t.Context(), string(stream))
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		pass(10 * time.Second)
		if s := w.status(); s.State != "stuck" || !strings.Contains(s.Why, "former writer") {
			t.Errorf("status %+v", s)
		}
		free()
		w.append("x")
	})
}

func TestOrderlyStopAnswersWhatIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var slow atomic.Bool
		w.disk.Fault = func(op, what string) error {
			if op == "sync" && slow.Load() {
				pass(time.Second)
			}
			return nil
		}
		w.start()
		w.append("1")
		slow.Store(true)
		answer := make(chan segment.Appended, 1)
		go func() { answer <- w.append("2") }()
		pass(100 * time.Millisecond)
		w.stop()
		if a := <-answer; a.Next != 2 {
			t.Errorf("answer %+v", a)
		}
	})
}
