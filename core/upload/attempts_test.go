package upload

import (
	"slices"
	"testing"
	"time"
)

// Item 13, where the same fragment is uploaded again: the end of an upload that was dropped is
// not taken for that of the next one, whose ref is another.
func TestItem13ALateUploadDoesNotStandForTheNext(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	r.do(StoreReclaimed{r.stamp()})
	r.after(time.Second)
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 120)})
	again := r.grant(r.chunks(100, 120)[0].Ref)
	if out := r.upload(refs[0]); len(out) > 0 {
		t.Fatalf("the late one is taken:\n%s", dump(out))
	}
	if r.upload(again.Ref); r.m.Status().Remote.Next != 120 {
		t.Fatalf("applied up to %s", r.m.Status().Remote.Next)
	}
}

// Of what failed attempts may have left, the latest are remembered and collected: an outage must
// not fill the memory.
func TestWhatTheLatestAttemptsMayHaveLeftIsCollected(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 120))
	ref, failed := r.chunks(100, 120)[0].Ref, []string(nil)
	for range maxRemnants + 2 {
		failed = append(failed, r.grant(ref).Key)
		r.failUpload(ref, FaultLasting, 0)
		r.after(30 * time.Second)
		ref = one[Submit](r).Ref
	}
	r.grant(ref)
	r.upload(ref)
	if got := one[Collect](r).Keys; !slices.Equal(got, failed[2:]) {
		t.Fatalf("collected %d, %v, want %v", len(got), got, failed[2:])
	}
}
