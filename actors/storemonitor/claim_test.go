package storemonitor

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/upload"
)

// A monitor that dies between an operator's claim and its next look leaves it to its successor
// to tell of it.
func TestAClaimOutlivesTheMonitor(t *testing.T) {
	inBubble(t, func(b *bench) {
		told := b.reader("0")
		b.start()
		b.shows("yes", 1, passes)
		b.store.Drop("p/cluster")
		var put, read atomic.Bool
		b.store.After = func(op, _ string) error {
			read.Store(put.Load() && (read.Load() || op == "get"))
			put.Store(put.Load() || op == "put")
			return nil
		}
		b.store.Latency = func(op, _ string) time.Duration {
			if read.Load() && op == "get" { // the look that follows, as the marker was read back
				return time.Hour
			}
			return 0
		}
		told.Store(new([]any))
		b.restored()
		synctest.Wait()
		b.kill()
		if got := *told.Load(); len(got) != 2 || got[0] != (upload.StoreDisowned{}) || got[1] == (upload.StoreReclaimed{}) {
			t.Fatalf("told %v already: the test does not do what it is for", *told.Load())
		}
		told.Store(new([]any))
		if b.gate.Trusted() {
			t.Error("trusted before anybody is told that it may be another store")
		}
		b.store.Latency = nil
		for _, want := range []any{upload.StoreReclaimed{}, upload.StoreOwned{}} {
			b.start()
			synctest.Wait()
			if got := *told.Swap(new([]any)); len(got) == 0 || got[0] != want {
				t.Errorf("told %#v, want %#v first", got, want)
			}
			b.kill()
		}
	})
}

// A marker that was put is found by the successor of a monitor that never heard of it, which takes
// the store for the one that was if nobody tells: whoever began to put it did.
func TestAMonitorThatDiesWhileAMarkerIsPut(t *testing.T) {
	inBubble(t, func(b *bench) {
		told := b.reader("0")
		b.start()
		b.shows("yes", 1, passes)
		told.Store(new([]any))
		b.store.Drop("p/cluster")
		hold := make(chan struct{})
		b.store.After = func(op, _ string) error {
			if op == "put" {
				<-hold // it is there, and nobody is told
			}
			return nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := b.restore()
			done <- err
		}()
		synctest.Wait()
		if _, put := b.store.Object("p/cluster"); !put || b.gate.Trusted() || slices.Contains(*told.Load(), any(upload.StoreReclaimed{})) {
			t.Fatalf("put %v, trusted %v, told %v", put, b.gate.Trusted(), *told.Load())
		}
		// It is found meanwhile, and nothing is let in for that.
		pass(time.Minute)
		b.shows("unknown since 2000-01-01T00:00:00Z (an operator claims the prefix, and it is not known yet what lies there); yes before that", 1, port.Unavailable)
		b.kill()
		if err := <-done; err == nil {
			t.Fatal("it is told to have been put")
		}
		told.Store(new([]any))
		b.start()
		synctest.Wait()
		if got := *told.Load(); len(got) == 0 || got[0] != (upload.StoreReclaimed{}) || !b.gate.Trusted() {
			t.Errorf("told %v, trusted %v", got, b.gate.Trusted())
		}
		b.store.After = nil
		close(hold)
	})
}
