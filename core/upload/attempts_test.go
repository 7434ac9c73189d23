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

// What is read of the store while resolving is told how often it, and nothing else, has failed in a
// row: that may take longer than others.
func TestWhatIsReadIsToldHowOftenItFailed(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	away, missing := Result{FaultTransient, "no answer"}, Result{FaultMissing, "no such key"}
	point := func() int {
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
		return one[ReadRoot](r).Tries
	}
	look := func() int {
		r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: stored().Encode()})
		return one[LookFor](r).Tries
	}
	list := func() int {
		r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: missing})
		return one[ListRoots](r).Tries
	}
	again := func(in Input) {
		t.Helper()
		r.do(in)
		r.after(time.Minute)
		one[ReadPointer](r)
	}
	var roots, looks, lists []int
	for range 3 { // the root, then its first object
		roots = append(roots, point())
		again(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: away})
	}
	for range 3 {
		roots = append(roots, point())
		looks = append(looks, look())
		again(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: away})
	}
	point()
	again(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: missing})
	for range 3 { // a reset
		r.ask(1)
		roots = append(roots, point()) // that it is not there is an answer
		lists = append(lists, list())
		r.do(RootsListed{Stamp: r.stamp(), Gen: r.m.gen, Result: away})
		r.after(time.Minute)
		point()
		again(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: missing})
	}
	point()
	looks = append(looks, look())
	r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen})
	one[Inspect](r)
	if len(r.m.unanswered) != 0 {
		t.Errorf("kept when it is resolved: %v", r.m.unanswered)
	}
	if !slices.Equal(roots, []int{0, 1, 2, 3, 0, 0, 0, 0, 0}) || !slices.Equal(looks, []int{0, 1, 2, 3}) || !slices.Equal(lists, []int{0, 1, 2}) {
		t.Errorf("roots %v, objects %v, lists %v", roots, looks, lists)
	}
}
