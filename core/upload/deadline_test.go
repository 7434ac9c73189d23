package upload

import (
	"testing"
	"time"
)

// Item 14: a grant or a result that never comes.
func TestItem14DeadlineAndNewGovernor(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	r.after(180*time.Second - time.Millisecond)
	none[CancelUpload](r)
	r.after(time.Millisecond)
	if got := one[CancelUpload](r).Ref; got != refs[0] {
		t.Fatalf("cancelled %d", got)
	}
	one[Release](r)
	again := one[Submit](r).Ref
	r.upload(refs[0]) // late: it has lost
	if r.m.now.Next != 100 {
		t.Fatalf("applied up to %s", r.m.now.Next)
	}
	r.do(GovernorUp{r.stamp()})
	if got := one[Withdraw](r).Refs; len(got) != 1 || got[0] != again {
		t.Fatalf("withdrawn %v, want what the new one may have heard of", got)
	}
	third := one[Submit](r).Ref
	r.do(Granted{Stamp: r.stamp(), Ref: again}) // by the former governor
	one[Release](r)
	none[Upload](r)
	r.grant(third)
	r.do(GovernorUp{r.stamp()})
	none[Submit](r) // it runs: the new governor need not know
	r.upload(third)
	if r.m.now.Next != 120 {
		t.Fatalf("applied up to %s", r.m.now.Next)
	}
	if got := one[Collect](r).Keys; len(got) != 1 {
		t.Fatalf("collected %v, want what the first attempt may have left", got)
	}
}

// An upload that moves is not given up, however long it takes: on a line that many share it would
// take no less time if it began anew. One that has stopped is.
func TestAnUploadThatMovesIsNotGivenUp(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	for range 100 {
		r.after(180*time.Second - time.Millisecond)
		none[CancelUpload](r)
		r.do(Sent{Stamp: r.stamp(), Ref: refs[0]})
	}
	r.do(Sent{Stamp: r.stamp(), Ref: refs[0] + 1}) // of another one
	r.after(180*time.Second - time.Millisecond)
	none[CancelUpload](r)
	r.after(time.Millisecond)
	one[CancelUpload](r)
	again := one[Submit](r).Ref
	r.do(Sent{Stamp: r.stamp(), Ref: refs[0]}) // late
	r.do(Sent{Stamp: r.stamp(), Ref: again})   // early
	if f := r.m.flights[0]; f.deadline != 0 || f.stage != stageSubmitted {
		t.Fatalf("%+v", f)
	}
}

func TestAHugeTransferHasMoreTime(t *testing.T) {
	if d := testConfig.withDefaults(); d.deadlineFor(2<<30) != 180*time.Second+2048*time.Second {
		t.Fatalf("2 GiB have %s", d.deadlineFor(2<<30))
	}
}
