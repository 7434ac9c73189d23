package upload

import (
	"testing"
	"time"

	"millrace/core/pos"
)

// Item 30: a store that takes nothing for long is not told of at every try, and what passes
// within moments is no stall.
func TestItem30ManyFailuresAreLoggedSparsely(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	ref, notes, began := refs[0], 0, r.now
	for range 1000 {
		r.failUpload(ref, FaultTransient, 0)
		notes += len(all[Note](r))
		if stalled := r.m.Status().Pipeline.Stalled != pos.NoOffset; stalled != (r.now >= began.Add(Passes)) {
			t.Fatalf("%s after the first failure it is shown as a stall: %v", r.now.Sub(began), stalled)
		}
		if f := r.m.flights[0]; f.stage != stageSubmitted {
			r.after(f.at.Sub(r.now))
		}
		ref = r.m.flights[0].ref
		r.grant(ref)
	}
	if notes < 5 || notes > 10 {
		t.Fatalf("%d lines for 1000 failures", notes)
	}
}

// Item 30, where uploads fail now and then and each is made good for at once: neither the
// failures nor what ends them is told of each time, and after a calm the next one is again.
func TestItem30FlappingIsLoggedSparsely(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 1_000_000))
	from, failures, ends := pos.Offset(100), 0, 0
	flap := func(failed int) {
		t.Helper()
		r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(from, from+20)})
		from += 20
		ref := one[Submit](r).Ref
		r.grant(ref)
		for range failed {
			r.failUpload(ref, FaultTransient, 0)
			failures += len(all[Note](r))
			if f := r.m.flights[0]; f.stage != stageSubmitted {
				r.after(f.at.Sub(r.now))
			}
			ref = r.m.flights[0].ref
			r.grant(ref)
		}
		r.upload(ref)
		ends += len(all[Note](r))
		r.persist()
	}
	for range 200 {
		flap(1)
	}
	if failures != 8 || ends != failures {
		t.Errorf("%d failures and %d ends are told of 200", failures, ends)
	}
	failures, ends = 0, 0
	flap(lastsFrom)
	if failures != 1 || ends != 1 {
		t.Errorf("of one that lasts %d failures and %d ends are told", failures, ends)
	}
	r.after(calm + time.Second)
	failures, ends = 0, 0
	flap(1)
	if failures != 1 || ends != 1 {
		t.Errorf("after a calm %d failures and %d ends are told of", failures, ends)
	}
}
