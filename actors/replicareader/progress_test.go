package replicareader

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
)

// line is the way to a store over a slow line that all uploads share.
type line struct {
	port.ObjectStore
	free chan struct{} // has an element while nobody sends
	rate int64         // bytes a second
	puts atomic.Int64
}

func newLine(store port.ObjectStore, rate int64) *line {
	l := &line{ObjectStore: store, free: make(chan struct{}, 1), rate: rate}
	l.free <- struct{}{}
	return l
}

func (l *line) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	l.puts.Add(1)
	return l.ObjectStore.Put(ctx, key, &shared{body, l, ctx}, size, ifAbsent)
}

type shared struct {
	port.Body
	line *line
	ctx  context.Context
}

// Read takes its turn on the line.
func (s *shared) Read(p []byte) (int, error) {
	n, err := s.Body.Read(p[:min(len(p), 4096)])
	select {
	case <-s.line.free:
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	<-time.After(time.Duration(n) * time.Second / time.Duration(s.line.rate))
	s.line.free <- struct{}{}
	return n, err
}

// What was kept while a store was away goes over a slow line together, and each of it takes long by
// that. It ends, each object is sent once, and none is taken to have failed.
func TestASlowLineCarriesWhatSharesIt(t *testing.T) {
	inBubble(t, func(b *bench) {
		slow := newLine(b.store, 16<<10)
		const fragments, records = 16, 40_000
		for range fragments {
			b.growBy(records)
		}
		b.start(func(cfg *Config) { cfg.Uploads, cfg.Fragment.TargetBytes = slow, 1 })
		began := time.Now()
		for b.lastSeam() < b.next && time.Since(began) < time.Hour {
			b.pass(time.Second)
		}
		if took := time.Since(began); took > 20*time.Minute {
			t.Fatalf("up to %s of %s after %s", b.lastSeam(), b.next, took)
		}
		if n := slow.puts.Load(); n != fragments {
			t.Errorf("%d objects were sent %d times", fragments, n)
		}
		b.until(b.next)
		b.verify()
	})
}

// It is told now and then that an upload moves, and not of one that does by a few bytes.
func TestProgressIsToldNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		p := newProgress(port.NewBody(strings.NewReader(strings.Repeat("x", 1<<20)), 0), func() { told++ })
		read := func(n int) {
			t.Helper()
			if _, err := io.ReadFull(p, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		read(tellBytes)
		<-time.After(tellEvery - 1)
		if read(1); told != 0 {
			t.Fatal("told too early")
		}
		<-time.After(1)
		if read(1); told != 1 {
			t.Fatal("not told")
		}
		<-time.After(time.Hour)
		if read(tellBytes - 1); told != 1 {
			t.Fatal("told of a few bytes")
		}
		if read(1); told != 2 {
			t.Fatal("not told again")
		}
	})
}
