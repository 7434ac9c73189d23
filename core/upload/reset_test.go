package upload

import (
	"strings"
	"testing"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// The store answers again: what waited for a later time is tried now, also what an operator
// had to mend, and also the list of objects.
func TestWhatWaitsIsTriedWhenTheStoreAnswers(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	r.failUpload(refs[0], FaultLasting, 0)
	r.failUpload(refs[1], FaultTransient, 0)
	r.failUpload(one[Submit](r).Ref, FaultTransient, 0) // not granted: means nothing
	for _, f := range r.m.flights {
		if f.stage == stageSubmitted {
			r.grant(f.ref)
			r.failUpload(f.ref, FaultTransient, 0)
			break
		}
	}
	r.do(StoreAnswers{r.stamp()})
	one[Submit](r) // one of a stream finds out
	r.grant(one[Submit](r).Ref)
	r.upload(r.m.flights[1].ref)
	if r.m.flights[0].stage != stageSubmitted {
		t.Fatal("what failed for good still waits")
	}

	r = applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "denied"}})
	none[PutRoot](r)
	r.do(StoreAnswers{r.stamp()})
	r.finishPersist()

	// The metadata store is another matter.
	r = applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "locked"}})
	r.do(StoreAnswers{r.stamp()})
	none[SwapPointer](r)

	for _, fail := range []func(r *rig){
		func(r *rig) {
			r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
		},
		func(r *rig) { r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: []byte("x")}) },
	} {
		r = newRig(t, testConfig)
		r.do(Start{r.stamp()})
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
		fail(r)
		none[ReadPointer](r)
		r.do(StoreAnswers{r.stamp()})
		r.resolve(stored())
	}
}

// A log that is shorter than the store's part waits for the log, whatever the store does.
func TestWhatDoesNotWaitForTheStoreIsNotTried(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 60))
	if r.do(StoreAnswers{r.stamp()}); len(r.out) != 0 {
		t.Fatalf("%s", dump(r.out))
	}
	r = newRig(t, testConfig)
	r.do(Start{r.stamp()})
	if r.do(StoreAnswers{r.stamp()}); len(r.out) != 0 {
		t.Fatalf("%s", dump(r.out))
	}
}

// The store may be another one: what the node knows of it counts for nothing, the local log
// frees nothing more, readers wait, and nothing that was under way is put on top of it.
func TestAStoreThatWasClaimedAnewIsReadAnew(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	r.upload(refs[0])
	r.do(StoreReplaced{r.stamp()})
	one[NoSeam](r)
	one[ShowPending](r)
	one[Abort](r)
	if s := r.m.Status(); s.Remote.Known || s.Trouble() == "" {
		t.Fatalf("%+v", s)
	}
	r.after(time.Second)
	cached := manifest.Row{State: manifest.StateResolved, Manifest: stored()}
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored()), Cached: cached})
	one[ReadRoot](r)
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	none[Inspect](r)
	r.after(time.Minute)
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored()), Cached: cached})
	one[ReadRoot](r) // not trusted before it was read once
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: stored().Encode()})
	// Nor before the first object that it names was found: it may have been put since.
	if first := one[LookFor](r); first.Key != r.m.fragmentKey(0, 0xe00) {
		t.Fatalf("looks for %s", first.Key)
	}
	r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen - 1, Result: Result{FaultMissing, "no such key"}})
	r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	none[Inspect](r)
	if r.m.lost {
		t.Fatal("taken for lost")
	}
	r.after(time.Minute)
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored()), Cached: cached})
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: stored().Encode()})
	r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	if seam := one[Seam](r); seam.Next != 100 {
		t.Fatalf("seam %+v", seam)
	}
	if r.m.drain.want != 100 {
		t.Fatalf("it goes on at %s", r.m.drain.want)
	}
	r.m.restart("a test says so")
	r.after(time.Minute)
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored()), Cached: cached})
	none[ReadRoot](r) // it was read, and is trusted again
}

// A root that was put into the bucket since that was made anew names objects that are gone
// with the old one: it is as good as lost.
func TestARootThatOutlivedItsObjectsIsLost(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 140))
	r.do(StoreReplaced{r.stamp()})
	for range 2 {
		r.after(time.Minute)
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
		r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: stored().Encode()})
		r.do(LookedFor{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no such key"}})
		none[Inspect](r)
		if why := r.m.Status().Trouble(); !strings.Contains(why, "names first is not in the object store: no such key") {
			t.Fatal(why)
		}
	}
	r.do(Reset{Stamp: r.stamp(), ID: 1})
	if a := one[ResetDone](r); a.Refused != "" || a.Next != 100 {
		t.Fatalf("%+v", a)
	}
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(50, 140)})
	r.finishPersist()
	if m := one[ShowSync](r).Manifest; m.First != 50 || !m.Empty() {
		t.Fatalf("shown is %+v", m)
	}
	// An empty one names nothing that could be gone.
	r.do(StoreReplaced{r.stamp()})
	r.after(time.Minute)
	r.resolve(manifest.New(50).Stamped(3, 8))
}

// A manifest that comes back before the reset has begun is not given up, nor is the next one.
func TestAResetGivesUpOneManifest(t *testing.T) {
	for _, finished := range []bool{false, true} {
		r := lose(t, testConfig, RootRead{Result: Result{FaultMissing, "no such key"}})
		r.do(Reset{Stamp: r.stamp(), ID: 1})
		root := stored()
		if finished {
			r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
			r.finishPersist()
			root = manifestOf(3, 9, entryAt(0, 50, 1), entryAt(50, 100, 2))
		}
		r.m.restart("a test says so")
		r.after(time.Minute)
		r.resolve(root)
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
		if got := one[ShowSync](r).Manifest; len(got.Entries) != 2 {
			t.Fatalf("finished %v: shown is %+v", finished, got)
		}
		if len(r.m.edits) != 0 {
			t.Fatalf("finished %v: %+v", finished, r.m.edits)
		}
	}
}

// lose returns a rig whose stored manifest, up to 100, is not in the store.
func lose(t *testing.T, cfg Config, read RootRead) *rig {
	t.Helper()
	r := newRig(t, cfg)
	r.do(Start{r.stamp()})
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
	read.Stamp = r.stamp()
	read.Gen = r.m.gen
	r.do(read)
	return r
}

// What is lost or damaged is given up when the operator says so, and only then: the store's
// part begins where local disk does, and nobody is told before that is stored.
func TestAResetBeginsAnewWhereLocalDiskDoes(t *testing.T) {
	for _, c := range []struct {
		what string
		read RootRead
	}{
		{"lost", RootRead{Result: Result{FaultMissing, "no such key"}}},
		{"damaged", RootRead{Body: []byte("no manifest")}},
		{"another's", RootRead{Body: manifestOf(2, 6, entryAt(0, 50, 1)).Encode()}},
	} {
		r := lose(t, testConfig, c.read)
		none[Inspect](r)
		r.do(Reset{Stamp: r.stamp(), ID: 4})
		if a := one[ResetDone](r); a.ID != 4 || a.Refused != "" || a.Next != 100 {
			t.Fatalf("%s: %+v", c.what, a)
		}
		one[NoSeam](r)
		none[ShowSync](r)
		one[Inspect](r)
		// The log can't be looked at the first time.
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "busy"}})
		r.after(time.Second)
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(40, 140)})
		none[ShowSync](r)
		none[Seam](r)
		root, err := manifest.Decode(one[PutRoot](r).Body)
		if err != nil || root.First != 40 || root.Next != 40 || root.Revision != 8 || len(root.Entries) != 0 {
			t.Fatalf("%s: put %+v, %v", c.what, root, err)
		}
		r.finishPersist()
		if m := one[ShowSync](r).Manifest; m.First != 40 || m.Next != 40 {
			t.Fatalf("%s: shown is %+v", c.what, m)
		}
		if seam := one[Seam](r); seam.Next != 40 {
			t.Fatalf("%s: %+v", c.what, seam)
		}
		if got := r.chunks(40, 60); len(got) != 1 {
			t.Fatalf("%s: %d are submitted", c.what, len(got))
		}
		r.do(Reset{Stamp: r.stamp(), ID: 5})
		if a := one[ResetDone](r); a.Refused != "the stored manifest is neither lost nor damaged" || a.Next != pos.NoOffset {
			t.Fatalf("%s: %+v", c.what, a)
		}
	}
}

// What may still be there is never given up.
func TestAResetIsRefused(t *testing.T) {
	refused := func(what string, r *rig, why string) {
		t.Helper()
		r.do(Reset{Stamp: r.stamp(), ID: 1})
		if a := one[ResetDone](r); !strings.Contains(a.Refused, why) || a.Next != pos.NoOffset || len(r.out) != 1 {
			t.Errorf("%s: %s", what, dump(r.out))
		}
	}
	r := newRig(t, testConfig)
	r.do(Start{r.stamp()})
	refused("before it is known", r, "the stream is resolving")
	refused("while the store is away", lose(t, testConfig, RootRead{Result: Result{FaultTransient, "503"}}), "waiting: 503")
	refused("while it is denied", lose(t, testConfig, RootRead{Result: Result{FaultLasting, "denied"}}), "denied")
	refused("while all is well", opened(t, testConfig, stored(), log(0, 100)), "neither lost nor damaged")
	refused("of a new stream", opened(t, testConfig, nil, log(0, 100)), "neither lost nor damaged")
	r = opened(t, testConfig, stored(), log(0, 60))
	refused("while the log is shorter", r, "the local log ends at 60")

	// It is looked for again, and may have come back meanwhile.
	r = lose(t, testConfig, RootRead{Result: Result{FaultMissing, "no such key"}})
	r.after(time.Minute)
	one[ReadPointer](r)
	refused("while it is looked for again", r, "the stream is resolving")
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
	r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	refused("when it is not known any more", r, "503")
	r = lose(t, testConfig, RootRead{Result: Result{FaultMissing, "no such key"}})
	r.do(StoreReplaced{r.stamp()})
	refused("when the store was claimed anew", r, "claimed anew")
}
