package reader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/answertime"
	"millrace/core/fetch"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/resolve"
	"millrace/core/segment"
)

func TestAStoreThatIsDownIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.upload(2)
		f.trim()
		down := true
		f.store.Fault = func(op, what string) error {
			if down {
				return port.Throttled
			}
			return nil
		}
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		_, err := c.pull(1, 10*time.Second)
		wantClass(t, err, fetch.Throttled)
		down = false
		c.until(8)
		f.stop(h)
	})
}

// A store whose answers all take long: how long one is waited for, whoever asks it knows.
func TestAStoreThatIsSlowIsReadAllTheSame(t *testing.T) {
	for _, takes := range []time.Duration{16 * time.Second, answertime.Most} {
		bubble(t, func(t *testing.T, f *fixture) {
			f.append(4)
			f.upload(2)
			f.trim()
			f.store.Latency = func(string, string) time.Duration { return takes }
			h := f.start(resolve.First(), nil)
			began := time.Now()
			f.consume(h).until(8)
			if took := time.Since(began); took != 2*takes {
				t.Errorf("two fragments took %s", took)
			}
			f.stop(h)
		})
	}
}

// told is a store that reads nothing before the third try, and keeps which try each was.
type told struct {
	port.ObjectStore
	tries []int
}

func (s *told) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	s.tries = append(s.tries, port.Tries(ctx))
	if len(s.tries) < 3 {
		return nil, port.Unavailable
	}
	return s.ObjectStore.GetRange(ctx, key, off, n)
}

// A store is told how often a range has failed: it may need longer than others.
func TestAStoreIsToldWhatHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.upload(2)
		f.trim()
		store := &told{ObjectStore: f.store}
		f.reads = store
		h := f.start(resolve.First(), nil)
		f.consume(h).until(8)
		f.stop(h)
		if !slices.Equal(store.tries, []int{0, 1, 2, 0}) {
			t.Errorf("tries %v", store.tries)
		}
	})
}

func TestAFragmentThatRetentionTookIsLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(8)
		f.upload(2)
		f.trim()
		h := f.start(resolve.At(5), nil)
		e := f.live.Entries[1]
		f.store.Drop(fragment.Key(prefix, stream, e.First, e.UID))
		m, err := f.live.Apply(manifest.RemoveHeadEdit(f.live, 2))
		f.must(err)
		c := f.consume(h)
		time.AfterFunc(100*time.Millisecond, func() { f.live = m; f.publishRow() })
		got, err := c.pull(1, time.Minute)
		f.must(err)
		if got.Moved == nil || *got.Moved != (resolve.Moved{From: 5, To: 8, Why: resolve.Retention}) || len(got.Chunks) != 1 {
			t.Errorf("%+v", got)
		}
		f.stop(h)
	})
}

func TestDamageInTheStoreIsNeverHandedOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.upload(4)
		f.trim()
		e := f.live.Entries[0]
		key := fragment.Key(prefix, stream, e.First, e.UID)
		good, _ := f.store.Object(key)
		bad, _ := f.store.Object(key)
		bad[fragment.DataStart+e.Size-3] ^= 1
		f.store.Replace(key, bad)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		c.until(6)
		_, err := c.pull(1, time.Hour)
		wantClass(t, err, fetch.Damaged)
		f.store.Replace(key, good)
		for range 100 {
			if _, err := c.pull(1, time.Minute); err == nil && c.at == 8 {
				break
			}
			<-time.After(10 * time.Second)
		}
		if c.at != 8 {
			t.Errorf("after the repair the consumer stands at %d", c.at)
		}
		f.stop(h)
	})
}

func TestDamageOnTheDiskIsNeverHandedOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(2)
		file, err := f.disk.Open(string(stream), segment.FileName(0), true)
		f.must(err)
		f.write(file, []byte{0xff}, f.refs[1].Position+f.refs[1].Size-2)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		c.until(2)
		_, err = c.pull(1, time.Hour)
		wantClass(t, err, fetch.Damaged)
		f.stop(h)
	})
}

// What the store has too is read there, once for each damaged place; what it has not is
// an error that lasts, until the upload or a repair brings it.
func TestDamageOnTheDiskIsHealedFromTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(3)
		f.upload(1)
		f.append(2)
		rot := func(i int) {
			file, err := f.disk.Open(string(stream), segment.FileName(0), true)
			f.must(err)
			f.write(file, []byte{0xff}, f.refs[i].Position+f.refs[i].Size-2)
		}
		rot(1)
		rot(4)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		c.until(8)
		if c.far != 1 || f.metrics.get("reader_local_damage_total/true") != 1 {
			t.Errorf("%d chunks came from the store, %d damages were counted", c.far, f.metrics.get("reader_local_damage_total/true"))
		}
		_, err := c.pull(1, time.Hour)
		wantClass(t, err, fetch.Damaged)
		if f.metrics.get("reader_local_damage_total/false") == 0 {
			t.Error("damage that nothing heals is not counted")
		}
		f.upload(1)
		for range 100 {
			if _, err := c.pull(1, time.Minute); err == nil && c.at == 10 {
				break
			}
			<-time.After(10 * time.Second)
		}
		if c.at != 10 || c.far != 2 {
			t.Errorf("after the upload the consumer stands at %d, %d chunks came from the store", c.at, c.far)
		}
		f.stop(h)
	})
}

// A reader whose stream's manifest is not known says what that waits for.
func TestTheReaderTellsWhatTheManifestWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(4)
		f.upload(4)
		f.trim()
		f.setRow(nil)
		f.why = "stalled: the root is damaged"
		h := f.start(resolve.First(), nil)
		_, err := f.consume(h).pull(1, time.Minute)
		wantClass(t, err, fetch.Unavailable)
		if err == nil || !strings.Contains(err.Error(), f.why) {
			t.Errorf("it says %v", err)
		}
		f.stop(h)
	})
}

func TestADiskThatFailsIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.append(2)
		h := f.start(resolve.First(), nil)
		c := f.consume(h)
		f.disk.Fault = func(op, what string) error {
			if op == "readat" {
				return errors.New("input/output error")
			}
			return nil
		}
		_, err := c.pull(1, 10*time.Second)
		wantClass(t, err, fetch.Fault)
		f.disk.Fault = nil
		c.until(4)
		f.stop(h)
	})
}
