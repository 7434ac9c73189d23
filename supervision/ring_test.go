package supervision_test

import (
	"fmt"
	"sync"
	"testing"

	"millrace/actors"
	"millrace/supervision"
)

func seqs(list []supervision.Numbered) string {
	if len(list) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d..%d of %d", list[0].Seq, list[len(list)-1].Seq, len(list))
}

func TestRing(t *testing.T) {
	var r supervision.Ring
	if list, last, _ := r.Since(0); len(list) != 0 || last != 0 {
		t.Errorf("an empty ring has %v, %d", list, last)
	}
	crash := supervision.Event{Kind: supervision.EventChildTerminated, ID: "crash", Reason: actors.Reason{Kind: actors.Crash}}
	r.Add(crash)
	for i := range 2 * supervision.RingSize {
		r.Add(supervision.Event{Kind: supervision.EventStarted, ID: fmt.Sprint(i)})
	}
	list, last, more := r.Since(0)
	// What starts does not push out what went wrong.
	if got := seqs(list); got != "1..513 of 257" || last != 513 || list[0].ID != "crash" || list[1].Seq != 258 || list[256].ID != "511" {
		t.Errorf("kept %s, last %d: %+v", got, last, list[:2])
	}
	for since, want := range map[uint64]string{1: "258..513 of 256", 257: "258..513 of 256", 500: "501..513 of 13", 513: "none", 514: "1..513 of 257"} {
		if list, _, _ := r.Since(since); seqs(list) != want {
			t.Errorf("since %d: %s, want %s", since, seqs(list), want)
		}
	}
	select {
	case <-more:
		t.Error("told of more, and there is none")
	default:
	}
	r.Add(crash)
	<-more
	if list, last, _ := r.Since(513); seqs(list) != "514..514 of 1" || last != 514 {
		t.Errorf("since 513: %s, last %d", seqs(list), last)
	}
}

// Whoever follows the ring sees every number once and in order, while others add.
func TestRingIsFollowed(t *testing.T) {
	var r supervision.Ring
	const adders, each = 4, 60 // fewer than it keeps
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				r.Add(supervision.Event{})
			}
		})
	}
	seen := uint64(0)
	for seen < adders*each {
		list, last, more := r.Since(seen)
		for _, e := range list {
			if e.Seq != seen+1 {
				t.Fatalf("%d follows %d", e.Seq, seen)
			}
			seen = e.Seq
		}
		if seen != last {
			t.Fatalf("saw up to %d, the last is %d", seen, last)
		}
		if seen < adders*each {
			<-more
		}
	}
	wg.Wait()
}

func TestTrouble(t *testing.T) {
	crash := actors.Reason{Kind: actors.Crash}
	calm := map[supervision.EventKind]bool{supervision.EventStarted: true, supervision.EventIgnored: true,
		supervision.EventRestarted: true, supervision.EventAutoShutdown: true}
	for k := supervision.EventStarted; k <= supervision.EventStuck; k++ {
		if got := (supervision.Event{Kind: k, Reason: crash}).Trouble(); got == calm[k] {
			t.Errorf("%s: trouble %v", k, got)
		}
	}
	if (supervision.Event{Kind: supervision.EventChildTerminated}).Trouble() {
		t.Error("a normal end is trouble")
	}
	if got := (supervision.EventStuck + 1).String(); got != "event 11" {
		t.Errorf("an unknown kind is %s", got)
	}
}
