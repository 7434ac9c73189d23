package writer_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/test/fake/fakedisk"
)

var (
	crashSeed = flag.Uint64("crash.seed", 0, "run this one seed of TestCrashes")
	crashRuns = flag.Uint64("crash.runs", 30, "how many seeds TestCrashes runs")
)

// TestCrashes kills the process, or cuts the power, at any operation of the disk, several
// times in a row, under concurrent producers. Everything that was answered Appended
// survives (under "interval" and "never": everything published as synced, and all of it
// when only the process died), at the offsets that were told, and nothing is served that
// was not appended as a whole.
func TestCrashes(t *testing.T) {
	first, n := uint64(1), *crashRuns
	if *crashSeed != 0 {
		first, n = *crashSeed, 1
	}
	for seed := first; seed < first+n; seed++ {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d: replay with -crash.seed=%d", seed, seed)
			r := &crasher{world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 0)), acked: map[pos.Offset]string{}}
			for range 1 + r.rnd.IntN(4) {
				r.life()
			}
			r.check()
			r.kill()
		})
	}
}

type crasher struct {
	*world
	rnd   *rand.Rand
	acked map[pos.Offset]string // what must be read at which offset
	safe  pos.Offset            // published as synced, or confirmed under "always"
	lost  bool                  // the power failed
	ops   atomic.Int64          // of the disk until the crash; 0 = none comes
	crash func() *fakedisk.Disk
	next  atomic.Pointer[fakedisk.Disk] // what the crash left
}

// life runs a writer until it crashes, or stops it in good order.
func (r *crasher) life() {
	r.cfg = segment.Config{
		Mode: segment.SyncMode(r.rnd.IntN(3)), SegmentMaxBytes: int64(200 + r.rnd.IntN(3000)), SyncEvery: time.Second,
	}
	r.next.Store(nil)
	r.lost = false
	r.ops.Store(0)
	r.t.Logf("a life: sync %s, segments of %d bytes", r.cfg.Mode, r.cfg.SegmentMaxBytes)
	if r.rnd.IntN(6) > 0 {
		r.arm(r.rnd.IntN(200))
	}
	r.start()
	answers := make(chan func(), 64)
	producers := 1 + r.rnd.IntN(3)
	for range producers {
		go r.produce(answers, 1+r.rnd.IntN(20), r.rnd.Uint64())
	}
	for producers > 0 {
		if f := <-answers; f != nil {
			f()
		} else {
			producers--
		}
	}
	if l, ok := r.hooks.Lookup(stream); ok {
		r.safe = max(r.safe, l.Synced())
	}
	r.end()
}

// produce appends batches one after the other until one fails.
func (r *crasher) produce(answers chan<- func(), batches int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	defer func() { answers <- nil }()
	for b := range batches {
		bodies := make([]string, 1+rnd.IntN(80))
		for i := range bodies {
			bodies[i] = fmt.Sprintf("%x.%d.%d:%s", seed, b, i, strings.Repeat("x", rnd.IntN(60)))
		}
		a, err := r.ask(pos.NoOffset, bodies...)
		if err != nil {
			return
		}
		got, ok := a.(segment.Appended)
		answers <- func() { r.ack(got, ok, a, bodies) }
		pass(time.Duration(rnd.IntN(2000)) * time.Millisecond)
	}
}

func (r *crasher) ack(got segment.Appended, ok bool, a any, bodies []string) {
	if !ok || int(got.Next-got.First) != len(bodies) {
		r.t.Errorf("answer %+v to %d records", a, len(bodies))
		return
	}
	if r.cfg.Mode == segment.Always {
		r.safe = max(r.safe, got.Next)
	}
	for i, b := range bodies {
		at := got.First + pos.Offset(i)
		if was, twice := r.acked[at]; twice && was != b {
			r.t.Errorf("offset %s was given to %q and to %q", at, was, b)
		}
		r.acked[at] = b
	}
}

// arm makes the disk crash after so many operations.
func (r *crasher) arm(ops int) {
	torn, d := rand.New(rand.NewPCG(r.rnd.Uint64(), 2)), r.disk
	switch r.rnd.IntN(3) {
	case 0:
		r.crash = d.KillClone
	case 1:
		r.crash = func() *fakedisk.Disk { return d.CrashClone(func(n int) int { return torn.IntN(n + 1) }) }
		r.lost = true
	case 2:
		r.crash = func() *fakedisk.Disk { return d.PageClone(func(int) bool { return torn.IntN(2) == 0 }) }
		r.lost = true
	}
	r.ops.Store(int64(ops))
	d.After = func(op, what string) error {
		if r.ops.Add(-1) == 0 {
			r.next.Store(r.crash())
		}
		return nil
	}
}

// end ends the process and makes its disk the next one's.
func (r *crasher) end() {
	defer r.ops.Store(0)
	next := r.next.Load()
	switch {
	case next != nil:
		r.kill()
		r.disk = next
	case r.h.Alive():
		r.stop()
		if next = r.next.Load(); next != nil { // the crash came during the stop
			r.disk = next
		} else if rec := r.replica(); !rec.Clean {
			r.t.Errorf("stopped in good order, record %+v", rec)
		}
	}
	r.lost = r.lost && next != nil
	r.t.Logf("it ends: crash %v, power lost %v, %d records confirmed, %s synced", next != nil, r.lost, len(r.acked), r.safe)
	r.h = nil
	r.state = r.state.Restart(r.lost)
	if r.lost {
		r.forget()
	}
}

// forget drops what a power loss may have taken: what was not synced.
func (r *crasher) forget() {
	for at := range r.acked {
		if at >= r.safe {
			delete(r.acked, at)
		}
	}
}

// check reads the whole log.
func (r *crasher) check() {
	r.start()
	pass(time.Minute)
	if s := r.status(); s.State != "running" {
		r.t.Fatalf("status %+v", s)
	}
	l := r.log()
	if l.First() != 0 {
		r.t.Errorf("first %s", l.First())
	}
	bodies := r.read(0)
	if pos.Offset(len(bodies)) != l.Committed() || l.Committed() < r.safe {
		r.t.Errorf("%d records, committed %s, %s had been published as synced", len(bodies), l.Committed(), r.safe)
	}
	for at, want := range r.acked {
		if int(at) >= len(bodies) || bodies[at] != want {
			r.t.Errorf("offset %s: %q was confirmed and is not there", at, want)
		}
	}
	for at, b := range bodies {
		if !strings.Contains(b, ":") || strings.Trim(b[strings.IndexByte(b, ':')+1:], "x") != "" {
			r.t.Errorf("offset %d: %q was never appended", at, b)
		}
	}
	r.backwards(l, bodies)
}

// backwards compares a scan from the end with what was read.
func (r *crasher) backwards(l *hooks.Log, bodies []string) {
	end := len(bodies)
	err := hooks.TailBackwards(r.disk, l, func(ref segment.ChunkRef, _ []byte) bool {
		if int(ref.Header.Next()) != end {
			r.t.Errorf("backwards: chunk %s to %s, want one that ends at %d", ref.Header.ID, ref.Header.Next(), end)
		}
		end = int(ref.Header.ID)
		return true
	})
	if err != nil || end != 0 {
		r.t.Errorf("backwards: ended at %d: %v", end, err)
	}
}
