package storemonitor

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/probe"
)

// A store that needs most of a minute for each answer, from the start, is one that can be used.
func TestASlowStoreIsUnderstood(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.store.Latency = func(string, string) time.Duration { return 50 * time.Second }
		b.start()
		pass(probe.Timeout)
		if b.gate.Trusted() {
			t.Fatal("it has answered")
		}
		b.shows("unknown", 1, port.Unavailable)
		pass(10 * time.Minute) // its marker is looked for, put, and read back, each time as slowly
		if !b.gate.Trusted() {
			t.Errorf("not admitted: %+v", b.h.Status())
		}
		if err := b.put(b.t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A store that swallowed questions and answers again is found to be well within the time for one,
// though what it swallowed is still open.
func TestAStoreThatIsBackIsFoundSoon(t *testing.T) {
	inBubble(t, func(b *bench) {
		var silent atomic.Bool
		b.store.Latency = func(string, string) time.Duration {
			if silent.Load() {
				return time.Hour
			}
			return 0
		}
		b.start()
		b.shows("yes", 1, passes)
		pass(4 * time.Minute)
		silent.Store(true)
		pass(2*time.Minute + probe.Timeout/2)
		b.shows("unknown", 1, passes)
		if b.open.Load() < 2 {
			t.Errorf("%d questions are open", b.open.Load())
		}
		silent.Store(false)
		pass(probe.Timeout)
		b.shows("yes", 1, passes)
		if n := b.open.Load(); n != 0 {
			t.Errorf("%d questions are open that are answered", n)
		}
	})
}

// One that gave up waiting is no answer while another is open; and a question is put so many
// times at most.
func TestAQuestionIsPutAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		var gets, probes atomic.Int64
		b.store.Latency = func(op, _ string) time.Duration {
			if op == "probe" {
				probes.Add(1)
			}
			if op != "get" {
				return 0
			}
			return []time.Duration{15 * time.Second, 20 * time.Second, time.Second, 0}[min(gets.Add(1)-1, 3)]
		}
		began, fault := time.Now(), b.store.Fault
		b.store.Fault = func(op, key string) error {
			if op == "get" && gets.Load() <= 3 && time.Since(began) < 20*time.Second {
				return port.Timeout
			}
			return fault(op, key)
		}
		b.start()
		pass(16 * time.Second)
		if n, next := gets.Load(), probes.Load(); n != 2 || next != 0 {
			t.Fatalf("put %d times, and the next question %d times, after one gave up", n, next)
		}
		pass(5 * time.Second) // the third is put after 20 s and answered a second later
		b.shows("yes", 1, passes)
	})
	inBubble(t, func(b *bench) {
		var gets atomic.Int64
		b.store.Latency = func(op, _ string) time.Duration {
			if op == "get" {
				gets.Add(1)
			}
			return time.Hour
		}
		b.start()
		pass(probe.GiveUp - time.Second)
		if n := gets.Load(); n != int64(probe.GiveUp/probe.Timeout) {
			t.Errorf("put %d times", n)
		}
		b.shows("unknown", 1, port.Unavailable)
		pass(time.Second)
		if n := b.open.Load(); n != 1 { // which is whether it takes a write
			t.Errorf("%d questions are open after the time for one", n)
		}
	})
}

// While the store's writes hang it is asked whose it is: the marker that goes is noticed in the
// time in which it would be else, and who asks for a look is answered.
func TestTheMarkerGoesWhileWritesHang(t *testing.T) {
	inBubble(t, func(b *bench) {
		var hangs atomic.Bool
		b.store.Latency = func(op, _ string) time.Duration {
			if op == "probe" && hangs.Load() {
				return time.Hour
			}
			return 0
		}
		b.start()
		synctest.Wait()
		hangs.Store(true)
		pass(5*time.Minute + time.Second) // its probe hangs now
		if b.open.Load() != 1 {
			t.Fatalf("%d questions are open", b.open.Load())
		}
		began := time.Now()
		if answer, err := b.h.Call(b.t.Context(), Look{}); err != nil || answer != (Looked{Ours: true}) || time.Since(began) > 0 {
			t.Fatalf("%v, %v after %s", answer, err, time.Since(began))
		}
		if err := b.put(b.t.Context()); err != nil {
			t.Fatal(err)
		}
		b.store.Drop("p/cluster")
		pass(probe.Active - time.Millisecond)
		if !b.gate.Trusted() {
			t.Fatal("the test is to begin before its time is over")
		}
		pass(time.Millisecond)
		b.shows("no (the cluster's marker is missing)", 0, port.Denied)
		if b.open.Load() != 0 {
			t.Errorf("%d questions are open", b.open.Load())
		}
	})
}

// A marker whose answer does not come in time is put again, and what it was put for is told.
func TestAMarkerThatTakesLongIsPutAgain(t *testing.T) {
	for late, want := range map[int64]port.Class{probe.RestoreTries - 1: port.Unclassified, probe.RestoreTries: port.Timeout} {
		inBubble(t, func(b *bench) {
			var puts atomic.Int64
			fault := b.store.Fault
			b.store.Fault = func(op, key string) error {
				if op == "put" && puts.Add(1) <= late {
					return port.Timeout
				}
				return fault(op, key)
			}
			puts.Store(late)
			b.start()
			b.shows("yes", 1, passes)
			puts.Store(0)
			b.store.Drop("p/cluster")
			if put, err := b.restore(); put != (want == port.Unclassified) || port.ClassOf(err) != want {
				t.Errorf("%d late: put %v, %v", late, put, err)
			}
			if n, before := puts.Load(), b.tries.Load(); n != probe.RestoreTries || before != probe.RestoreTries-1 {
				t.Errorf("put %d times, the last one with %d behind it", n, before)
			}
			synctest.Wait()
			if logged := strings.Contains(b.log.String(), "could not be claimed for an operator"); logged != (want == port.Timeout) {
				t.Errorf("%d late: in the log %v", late, logged)
			}
		})
	}
}

// A marker that was put, which the answer did not say, is one that was put: it may be another store.
func TestAMarkerThatWasPutUnnoticedCounts(t *testing.T) {
	inBubble(t, func(b *bench) {
		var late atomic.Bool
		b.store.After = func(op, _ string) error {
			if op == "put" && late.CompareAndSwap(true, false) {
				return port.Timeout
			}
			return nil
		}
		b.start()
		b.shows("yes", 1, passes)
		b.store.Drop("p/cluster")
		late.Store(true)
		if put, err := b.restore(); !put || err != nil || late.Load() {
			t.Errorf("put %v, %v", put, err)
		}
	})
}

// One that fails for another reason than time is an answer, though another is open.
func TestATryThatFailsIsAnAnswer(t *testing.T) {
	inBubble(t, func(b *bench) {
		var gets, probes atomic.Int64
		b.store.Latency = func(op, _ string) time.Duration {
			switch op {
			case "probe":
				probes.Add(1)
			case "get":
				return []time.Duration{15 * time.Second, time.Hour}[min(gets.Add(1)-1, 1)]
			}
			return 0
		}
		b.fails(port.Unavailable)
		b.start()
		pass(15*time.Second - time.Millisecond)
		if n, next := gets.Load(), probes.Load(); n != 2 || next != 0 {
			t.Fatalf("put %d times, and the next question %d times, before any failed", n, next)
		}
		pass(time.Millisecond)
		if probes.Load() != 1 {
			t.Error("the next question is not put")
		}
	})
}
