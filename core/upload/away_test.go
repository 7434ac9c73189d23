package upload

import (
	"testing"
	"time"
)

// While the store is away one thing of a stream tries it, and all go on when it is back.
func TestOneThingFindsOutWhetherTheStoreIsBack(t *testing.T) {
	r, refs := running(t, testConfig, 180)
	for _, ref := range refs {
		r.failUpload(ref, FaultTransient, 0)
	}
	again := r.m.flights[0].ref
	for tries := range 20 {
		if f := r.m.flights[0]; f.ref != again || len(r.m.refs()) != 1 {
			t.Fatalf("try %d: %v are under way", tries, r.m.refs())
		}
		r.grant(again)
		r.failUpload(again, FaultTransient, 0)
		r.after(5 * time.Second)
		again = one[Submit](r).Ref
	}
	r.grant(again)
	r.upload(again)
	if n := len(all[Submit](r)); n != 3 || r.m.away.fails > 0 {
		t.Fatalf("%d go on when it is back", n)
	}
}

// What one fragment has trouble of its own with holds up no other.
func TestAFragmentThatFailsForGoodDoesNotStandForTheStore(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	r.failUpload(refs[0], FaultLasting, 0)
	r.failUpload(refs[1], FaultTransient, 0)
	again := one[Submit](r).Ref
	if r.m.flights[1].ref != again {
		t.Fatalf("%+v is tried, not the second", r.m.flights[1])
	}
	r.grant(again)
	r.failUpload(again, FaultTransient, 0) // as it always will: it may be too large for the line
	r.after(time.Second)
	up := Upload{}
	for _, s := range all[Submit](r) {
		if s.Ref == r.m.flights[0].ref {
			up = r.grant(s.Ref)
		}
	}
	if up.Fragment == nil || up.Fragment.First != 100 || !up.Doubted {
		t.Fatalf("the first one is not tried again by its own time: %+v", up)
	}
}

// What failed for good waits for its own time when the store is back from being away.
func TestBeingBackMendsNothingElse(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	r.failUpload(refs[0], FaultLasting, 0)
	r.failUpload(refs[1], FaultTransient, 0)
	r.upload(refs[2])
	for _, s := range all[Submit](r) {
		if s.Ref == r.m.flights[0].ref {
			t.Fatal("what failed for good is tried again at once")
		}
	}
}

// A root that is refused says nothing of the store: fragments go on.
func TestARefusedRootHoldsUpNoFragment(t *testing.T) {
	r := applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "denied"}})
	r.do(Moved{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Chunks: chunksOf(200, 240), End: true})
	if n := len(all[Submit](r)); n != 2 {
		t.Fatalf("%d are submitted", n)
	}
}

// The truth is learned anew: nothing is known of the store's being away.
func TestARestartForgetsThatTheStoreWasAway(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	for range 2 {
		r.failUpload(refs[0], FaultTransient, 0)
		refs[0] = r.m.flights[0].ref
		if refs[0] != 0 {
			r.grant(refs[0])
		}
	}
	r.m.restart("a test says so")
	r.after(time.Minute)
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 160)})
	if n := len(r.chunks(100, 160)); n != 3 {
		t.Fatalf("%d are submitted", n)
	}
}

// A root that could not be put is what tries the store, and fragments wait for it.
func TestARootThatCouldNotBePutTriesTheStoreFirst(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	for range 2 {
		r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	}
	r.do(Moved{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Chunks: chunksOf(120, 160), End: true})
	if none[Submit](r); len(r.m.flights) != 2 {
		t.Fatal("nothing is cut")
	}
	r.after(5 * time.Second)
	one[PutRoot](r)
	none[Submit](r)
	r.do(GovernorUp{r.stamp()})
	none[Submit](r) // the root is on its way
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
	if n := len(all[Submit](r)); n != 2 {
		t.Fatalf("%d go on when it is back", n)
	}
	r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen})

	// A fragment that is stored ends the wait of a root, too.
	r, refs := running(t, testConfig, 180)
	r.upload(refs[0])
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	none[PutRoot](r)
	r.upload(refs[1])
	one[PutRoot](r)
}

// A pointer that can't be moved, or read back, says nothing of the object store: a fragment still
// finds out whether that is back.
func TestAPointerThatCannotBeMovedHoldsUpNoFragment(t *testing.T) {
	down := Result{FaultTransient, "down"}
	for what, fail := range map[string]func(r *rig){
		"moved": func(r *rig) { r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: down}) },
		"read back": func(r *rig) {
			r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultUnknown, "cut off"}})
			r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: down})
		},
	} {
		r, refs := running(t, testConfig, 140)
		r.upload(refs[0])
		r.after(2 * time.Second)
		r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
		fail(r)
		for range 5 {
			r.failUpload(r.m.flights[0].ref, FaultTransient, 0)
			if len(all[Submit](r)) == 0 {
				r.after(5 * time.Second)
			}
			if len(all[Submit](r)) != 1 {
				t.Fatalf("a pointer can't be %s, and no fragment is tried", what)
			}
			r.grant(one[Submit](r).Ref)
		}
	}
}
