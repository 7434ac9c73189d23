package reader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/fetch"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// bubble runs a test on virtual time, and ends its processes.
func bubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		test(t, f)
		f.sys.Close()
	})
}

func TestExactlyOnceInOrderAcrossTheSeam(t *testing.T) {
	for _, ranges := range []int64{1, 100, 1 << 20} {
		bubble(t, func(t *testing.T, f *fixture) {
			f.ranges = ranges
			f.append(10)
			f.upload(3)
			f.trim()
			f.append(4) // what is local only
			h := f.start(resolve.First(), nil)
			c := f.consume(h)
			c.until(f.next)
			if c.seen != 14 || c.far != 10 {
				t.Errorf("%d chunks, %d of them remote; want 14 and 10", c.seen, c.far)
			}
			f.stop(h)
		})
	}
}

func TestEverySpec(t *testing.T) {
	for _, c := range []struct {
		spec  resolve.Spec
		first pos.Offset // of the first chunk
		far   bool
	}{
		{resolve.First(), 0, true}, {resolve.At(0), 0, true}, {resolve.At(7), 6, true}, {resolve.At(19), 18, true},
		{resolve.At(20), 20, false}, {resolve.At(23), 22, false}, {resolve.Last(), 26, false},
		{resolve.Since(0), 0, true}, {resolve.Since(61), 8, true}, {resolve.Since(181), 20, false}, {resolve.Since(230), 24, false},
	} {
		bubble(t, func(t *testing.T, f *fixture) {
			f.append(10)
			f.upload(3)
			f.trim()
			f.append(4)
			h := f.start(c.spec, nil)
			got, err := f.consume(h).pull(1, time.Minute)
			f.must(err)
			id, err := chunk.ParseHeader(got.Chunks[0])
			f.must(err)
			if id.ID != c.first || got.Remote != c.far {
				t.Errorf("%s: chunk %d, remote %v; want %d, %v", c.spec, id.ID, got.Remote, c.first, c.far)
			}
			f.stop(h)
		})
	}
}

func TestNextWaitsForWhatIsAppended(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(2)
		opened, closed := 0, 0
		f.disk.Fault = func(op, what string) error {
			switch op {
			case "open":
				opened++
			case "close":
				closed++
			}
			return nil
		}
		h := f.start(resolve.Next(), nil)
		c := f.consume(h)
		begin := time.Now()
		got, err := c.pull(1, time.Minute)
		f.must(err)
		if len(got.Chunks) != 0 || got.Next != 4 || time.Since(begin) != time.Minute {
			t.Fatalf("%+v after %s", got, time.Since(begin))
		}
		if opened == 0 || opened != closed {
			t.Errorf("%d files were opened, %d closed while there was nothing to read", opened, closed)
		}
		time.AfterFunc(time.Hour, func() { f.append(1) })
		got, err = c.pull(1, 2*time.Hour)
		f.must(err)
		if len(got.Chunks) != 1 || c.at != 6 || time.Since(begin) != time.Minute+time.Hour {
			t.Errorf("%+v after %s", got, time.Since(begin))
		}
		f.stop(h)
	})
}

func TestALocalReaderWhoseSegmentIsTrimmedGoesOnInTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		c.until(2)
		f.roll()
		f.append(4)
		f.upload(2)
		f.trim()
		c.until(f.next)
		// A segment that is open is read to its end; the next one is gone.
		if c.seen != 8 || c.far != 4 {
			t.Errorf("%d chunks, %d of them remote; want 8 and 4", c.seen, c.far)
		}
		f.stop(h)
	})
}

func TestOneAnswerHoldsManyChunks(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(5)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		got, err := c.pull(1<<20, 0)
		f.must(err)
		if len(got.Chunks) != 5 || c.at != 10 {
			t.Errorf("%d chunks, at %d", len(got.Chunks), c.at)
		}
		f.stop(h)
	})
}

func TestANewWriterIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(2)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		c.until(4)
		time.AfterFunc(time.Second, func() {
			f.hooks.Gone(f.log)
			f.log.End()
		})
		time.AfterFunc(10*time.Second, func() { f.up(2); f.append(1) })
		c.until(6)
		f.stop(h)
	})
}

func TestWithoutALogTheReaderSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.hooks.Gone(f.log)
		h := f.start(resolve.First(), nil)
		_, err := f.consume(h).pull(1, time.Second)
		wantClass(t, err, fetch.Unavailable)
		f.stop(h)
	})
}

func wantClass(t *testing.T, err error, want fetch.Class) {
	t.Helper()
	var failure *fetch.Error
	if !errors.As(err, &failure) || failure.Class != want {
		t.Errorf("got %v, want an error of class %s", err, want)
	}
}

func TestAnUnknownManifestFailsClosedAndRecovers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.upload(2)
		f.trim()
		row := f.rows.row
		for _, unknown := range []*manifest.Row{nil, {State: manifest.StatePending}} {
			f.setRow(unknown)
			h := f.start(resolve.First(), nil)
			c := f.consume(h)
			_, err := c.pull(1, time.Second)
			wantClass(t, err, fetch.Unavailable)
			f.setRow(row)
			c.until(8)
			f.stop(h)
		}
	})
}

func TestWithTieringDisabled(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.trim()
		f.append(1)
		f.tiering = false
		h := f.start(resolve.At(2), nil)
		got, err := f.consume(h).pull(1, time.Minute)
		f.must(err)
		if got.Moved == nil || *got.Moved != (resolve.Moved{From: 2, To: 8, Why: resolve.Retention}) || f.metrics.get("reader_moves_total/retention") != 1 {
			t.Errorf("without a pointer: %+v, counted %v", got, f.metrics.n)
		}
		f.stop(h)

		f.must(f.putPointer())
		h = f.start(resolve.At(2), nil)
		begin := time.Now()
		_, err = f.consume(h).pull(1, time.Minute)
		wantClass(t, err, fetch.Disabled)
		if time.Since(begin) != 0 {
			t.Error("it waited for what only an operator can change")
		}
		f.stop(h)

		f.meta.Fault = func(op, what string) error { return port.Unavailable }
		h = f.start(resolve.At(2), nil)
		c := f.consume(h)
		_, err = c.pull(1, time.Minute)
		wantClass(t, err, fetch.Unavailable)
		h2 := f.start(resolve.At(8), nil) // what is local needs no metadata store
		f.consume(h2).until(10)
		f.stop(h2)
		f.stop(h)
	})
}

func (f *fixture) putPointer() error {
	ctx := context.Background()
	row, err := f.meta.CreateStream(ctx, port.Stream{ID: stream, Name: "s"})
	if err != nil {
		return err
	}
	return f.meta.SwapPointer(ctx, row.ID, 0, port.Pointer{Revision: 1, Epoch: 1, UID: 1, Next: 4})
}

func TestClosingNeverWaitsForTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.upload(2)
		f.trim()
		f.store.Latency = func(string, string) time.Duration { return time.Hour }
		h := f.start(resolve.First(), nil)
		pulled := make(chan error, 1)
		go func() {
			_, err := h.Call(context.Background(), fetch.Pull{Wait: time.Hour})
			pulled <- err
		}()
		synctest.Wait()
		if f.budget.Used() == 0 {
			t.Error("a fetch in flight is not counted")
		}
		begin := time.Now()
		f.stop(h)
		if time.Since(begin) != 0 || <-pulled == nil {
			t.Errorf("closing took %s", time.Since(begin))
		}
	})
}

func TestAReaderEndsWithItsOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		owner := f.start(resolve.Next(), nil)
		h := f.start(resolve.First(), owner)
		f.stop(owner)
		<-h.Done()
		if h.Reason().Abnormal() {
			t.Errorf("it ended with %s", h.Reason())
		}
	})
}

func TestMemoryIsSharedAndEveryReaderGetsOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.ranges = 1 << 20
		b := chunk.NewBuilder(16)
		for range 40 {
			b.Add(make([]byte, 20<<10), nil)
			f.appendChunk(append([]byte(nil), b.Seal(f.next, 1, 0, nil)...))
			b.Reset()
		}
		f.upload(40)
		f.trim()
		f.budget = NewBudget(300 << 10)
		consumers := make([]*consumer, 20)
		for i := range consumers {
			consumers[i] = f.consume(f.start(resolve.First(), nil))
		}
		most := int64(0)
		for range 40 {
			for _, c := range consumers {
				if c.at != f.next {
					_, err := c.pull(1, time.Minute)
					f.must(err)
				}
				most = max(most, f.budget.Used())
			}
		}
		for i, c := range consumers {
			if c.at != f.next {
				t.Errorf("reader %d stands at %d", i, c.at)
			}
		}
		if limit := int64(300<<10 + len(consumers)*(64<<10+20<<10)); most > limit {
			t.Errorf("%d bytes were in use, at most %d may be", most, limit)
		}
		synctest.Wait()
		if f.budget.Used() != 0 || f.metrics.get("reader_failures_total/fault") != 0 {
			t.Errorf("at the end %d bytes are in use; counted %v", f.budget.Used(), f.metrics.n)
		}
		for _, c := range consumers {
			c.h.Stop(actors.Reason{})
			<-c.h.Gone()
		}
		if f.budget.Used() != 0 {
			t.Errorf("%d bytes are still in use", f.budget.Used())
		}
	})
}

func TestAnythingButAPullIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		h := f.start(resolve.First(), nil)
		if _, err := h.Call(context.Background(), "hello"); err == nil {
			t.Error("it was answered")
		}
		f.stop(h)
	})
}

// TestRandomHandOffs lets the log grow, roll, be uploaded, trimmed and its writer be
// replaced while one reader is pulled. Everything comes once, in order.
func TestRandomHandOffs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 40).Draw(rt, "script")
		failed := ""
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.ranges = 100
			h := f.start(resolve.First(), nil)
			c := f.consume(h)
			epoch := pos.Epoch(1)
			for _, action := range script {
				switch action {
				case 0, 1:
					f.append(2)
				case 2:
					if f.segments[len(f.segments)-1] != f.next {
						f.roll()
						f.publish()
					}
				case 3:
					f.upload(3)
				case 4:
					f.upload(2) // nothing is lost: trimmed is what was uploaded
					f.trim()
				case 5:
					epoch++
					f.up(epoch)
				case 6:
					if _, err := c.pull(100, 5*time.Second); err != nil {
						failed = err.Error()
					}
				}
			}
			c.until(f.next)
			if c.seen != len(f.chunks) {
				failed = fmt.Sprintf("%d chunks came, %d were written", c.seen, len(f.chunks))
			}
			f.stop(h)
			f.sys.Close()
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}
