package upload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

// Item 9: a store that can't be asked is not an empty store.
func TestItem09TransientErrorsWhileResolvingAreRetriedForever(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	one[ShowPending](r)
	waits := []time.Duration(nil)
	for range 8 {
		one[ReadPointer](r)
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "store down"}})
		none[Inspect](r)
		none[ShowSync](r)
		wake := one[Wake](r)
		if s := r.m.Status(); s.Stream.State != "waiting" || s.Stream.Until != wake.At || s.Stream.Why != "store down" || s.Remote.Known {
			t.Fatalf("status %+v", s)
		}
		waits = append(waits, wake.At.Sub(r.now))
		r.after(wake.At.Sub(r.now))
	}
	for i, w := range waits {
		limit := min(time.Second<<i, 30*time.Second)
		if w < limit/2 || w > limit {
			t.Fatalf("wait %d is %s, want between half of %s and all of it", i, w, limit)
		}
	}
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 150)})
	if got := one[ShowSync](r).Manifest; got.Revision != 7 || got.Next != 100 {
		t.Fatalf("shown %+v", got)
	}
	if got := one[Read](r); got.From != 100 {
		t.Fatalf("reads from %s", got.From)
	}
}

// Item 10: the pointer names a root that is not there.
func TestItem10MissingRootIsNeverAnEmptyManifest(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(PointerRead{Stamp: r.stamp(), Pointer: pointerTo(stored())})
	one[ReadRoot](r)
	r.do(RootRead{Stamp: r.stamp(), Result: Result{FaultMissing, "404"}})
	none[Inspect](r)
	if s := r.m.Status(); s.Stream.State != "waiting" || s.Remote.Known {
		t.Fatalf("status %+v", s)
	}
	r.after(time.Second)
	one[ReadPointer](r) // the pointer is read again, too: it may have been stale

	// Revision 0 means that nothing was ever stored.
	r = newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(PointerRead{Stamp: r.stamp(), Pointer: Pointer{}})
	one[Inspect](r)
	none[ReadRoot](r)
}

// Item 11: nothing that is remembered stands for the root, and an older root in its place is
// not trusted, be it told by its revision, its epoch or its end alone.
func TestItem11OldRootIsNotTrusted(t *testing.T) {
	first, second := entryAt(0, 50, 1), entryAt(50, 100, 2)
	for what, old := range map[string]*manifest.Manifest{
		"older in all":      manifestOf(2, 7, first),
		"an older revision": manifestOf(3, 8, first, second),
		"an older epoch":    manifestOf(2, 9, first, second),
		"a shorter one":     manifestOf(3, 9, first),
	} {
		t.Run(what, func(t *testing.T) {
			r := opened(t, testConfig, old, log(0, 140))
			r.m.restart("a test says so")
			r.after(time.Minute)
			r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(manifestOf(3, 9, first, second))})
			if got := one[ReadRoot](r).Key; got != "p/s/metadata/root.3.9.0000000000000abc.manifest" {
				t.Fatalf("reads %s", got)
			}
			r.do(RootRead{Stamp: r.stamp(), Gen: r.m.gen, Body: old.Encode()})
			none[LookFor](r)
			none[Inspect](r)
			if s := r.m.Status().Stream; s.State != "stalled" {
				t.Fatalf("status %+v", s)
			}
		})
	}
}

func TestDamagedRootIsAStateAndHealsWhenItIsRestored(t *testing.T) {
	for what, body := range map[string][]byte{
		"garbage": []byte("not a manifest"), "another revision": manifestOf(2, 6, entryAt(0, 50, 1)).Encode(), "empty": {},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, testConfig)
			r.do(Start{Stamp: r.stamp()})
			r.do(PointerRead{Stamp: r.stamp(), Pointer: pointerTo(stored())})
			r.do(RootRead{Stamp: r.stamp(), Body: body})
			if s := r.m.Status().Stream; s.State != "stalled" || !strings.Contains(s.Why, "root.2.7") {
				t.Fatalf("status %+v", s)
			}
			r.after(30 * time.Second)
			r.resolve(stored())
		})
	}
}

func TestSupersededWriterWaits(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(PointerRead{Stamp: r.stamp(), Pointer: Pointer{Revision: 8, Epoch: 4, UID: 1, Next: 100}})
	none[ReadRoot](r)
	if s := r.m.Status().Stream; s.State != "waiting" || !strings.Contains(s.Why, "superseded") {
		t.Fatalf("status %+v", s)
	}
}

// Item 7 as the design changed it: the store's longer truth is kept.
func TestItem07ShorterLocalLogWaitsAndGivesUpNothing(t *testing.T) {
	r := opened(t, testConfig, stored(), Local{First: 0, Next: 70, Epochs: []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 2, End: 70}}})
	if got := one[ShowSync](r).Manifest.Next; got != 100 {
		t.Fatalf("shown up to %s", got)
	}
	none[Seam](r)
	none[Read](r)
	if got := one[Listen](r).From; got != 70 {
		t.Fatalf("listens from %s", got)
	}
	// The log has grown over the seam and agrees.
	r.do(Moved{Stamp: r.stamp()})
	one[Inspect](r)
	r.do(Inspected{Stamp: r.stamp(), Local: log(0, 120)})
	if got := one[Read](r).From; got != 100 {
		t.Fatalf("reads from %s", got)
	}
	if got := one[Seam](r); got != (Seam{Next: 100, Seq: 7}) {
		t.Fatalf("seam %+v", got)
	}
}

// Item 8: the writer has not recovered yet, or its log was lost.
func TestItem08EmptyLocalLogGivesUpNothing(t *testing.T) {
	r := opened(t, testConfig, stored(), Local{First: 0, Next: 0})
	none[Seam](r)
	none[Read](r)
	r.do(Moved{Stamp: r.stamp()})
	r.do(Inspected{Stamp: r.stamp(), Local: Local{First: 100, Next: 100}})
	if got := one[Read](r).From; got != 100 {
		t.Fatalf("reads from %s", got)
	}
	if r.m.counts.Divergences != 0 || r.m.counts.FloorPassed != 0 {
		t.Fatalf("counted %+v", r.m.counts)
	}
}

func TestPlacing(t *testing.T) {
	for _, c := range []struct {
		what  string
		local Local
		want  pos.Offset
		gaps  int64
	}{
		{"in the middle", log(50, 150), 100, 0},
		{"at the end", log(0, 100), 100, 0},
		{"at the floor", log(100, 150), 100, 0},
		{"empty at the seam", Local{First: 100, Next: 100}, 100, 0},
		{"above the seam", log(150, 200), 150, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := opened(t, testConfig, stored(), c.local)
			if got := one[Read](r).From; got != c.want || r.m.counts.FloorPassed != c.gaps {
				t.Fatalf("reads from %s, floor passed %d times", got, r.m.counts.FloorPassed)
			}
			one[ShowSync](r)
			one[Seam](r)
		})
	}
}

func TestAgreeing(t *testing.T) {
	entries := stored().Entries // [0, 50) of epoch 1, [50, 100) of epoch 2
	for _, c := range []struct {
		what  string
		local Local
		keep  int
	}{
		{"the same", log(0, 150), 2},
		{"the same but shorter", Local{0, 70, []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 2, End: 70}}}, 2},
		{"shorter, ends in an older epoch of the entry", Local{0, 70, []segment.EpochEnd{{Epoch: 1, End: 70}}}, 2},
		{"another epoch at the last offset", Local{0, 150, []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 3, End: 150}}}, 1},
		{"an older epoch at the last offset", Local{0, 150, []segment.EpochEnd{{Epoch: 1, End: 150}}}, 1},
		{"a later epoch within the entry, and shorter", Local{0, 70, []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 3, End: 70}}}, 1},
		{"nothing in common", Local{0, 150, []segment.EpochEnd{{Epoch: 3, End: 150}}}, 0},
		{"diverges below an entry above its end", Local{0, 30, []segment.EpochEnd{{Epoch: 3, End: 30}}}, 0},
		{"begins above the entries", Local{120, 150, []segment.EpochEnd{{Epoch: 3, End: 150}}}, 2},
		{"begins within the last entry", Local{70, 150, []segment.EpochEnd{{Epoch: 3, End: 150}}}, 1},
		{"empty", Local{0, 0, nil}, 2},
		{"empty at the seam", Local{100, 100, nil}, 2},
		{"epochs unknown", Local{0, 150, nil}, 2},
	} {
		if got := agreeing(entries, c.local); got != c.keep {
			t.Errorf("%s: keeps %d, want %d", c.what, got, c.keep)
		}
	}
}

func TestDivergenceTruncatesBeforeAnybodyIsTold(t *testing.T) {
	diverged := Local{First: 0, Next: 150, Epochs: []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 3, End: 150}}}
	r := opened(t, testConfig, stored(), diverged)
	none[ShowSync](r)
	none[Seam](r)
	if got := one[Read](r).From; got != 50 {
		t.Fatalf("reads from %s", got)
	}
	root := one[PutRoot](r) // at once: it must not wait for edits or time
	r.do(RootPut{Stamp: r.stamp()})
	none[ShowSync](r)
	swap := one[SwapPointer](r)
	if swap.Expected != 7 || swap.Next.Revision != 8 || swap.Next.Next != 50 || swap.Next.Epoch != 3 {
		t.Fatalf("swap %+v", swap)
	}
	r.do(PointerSwapped{Stamp: r.stamp()})
	if got := one[ShowSync](r).Manifest; got.Next != 50 || got.Revision != 8 || len(got.Entries) != 1 {
		t.Fatalf("shown %+v", got)
	}
	if got := one[Seam](r); got.Next != 50 {
		t.Fatalf("seam %+v", got)
	}
	keys := one[Collect](r)
	want := []string{"p/s/data/00000000000000000050.0000000000000e32.fragment", "p/s/metadata/root.2.7.0000000000000abc.manifest"}
	if !slices.Equal(keys.Keys, want) || keys.After != r.now.Add(time.Hour) || slices.Contains(keys.Keys, root.Key) {
		t.Fatalf("collected %+v", keys)
	}
}

func TestDivergenceFoundLaterTakesBackWhatWasShown(t *testing.T) {
	r := opened(t, testConfig, stored(), Local{First: 0, Next: 0})
	one[ShowSync](r)
	r.do(Moved{Stamp: r.stamp()})
	r.do(Inspected{Stamp: r.stamp(), Local: Local{First: 0, Next: 30, Epochs: []segment.EpochEnd{{Epoch: 3, End: 30}}}})
	one[ShowPending](r)
	none[Seam](r)
	r.do(ReplicaUp{r.stamp()})
	one[ShowPending](r)
}

// What is stored is no answer to who waits for an offset while it is not trusted: it may yet be
// given up.
func TestNobodyIsAnsweredByWhatIsNotTrusted(t *testing.T) {
	diverged := Local{First: 0, Next: 150, Epochs: []segment.EpochEnd{{Epoch: 1, End: 50}, {Epoch: 3, End: 150}}}
	anew := opened(t, testConfig, stored(), log(0, 100))
	anew.do(StoreReclaimed{anew.stamp()})
	for what, r := range map[string]*rig{
		"while the truth is learned anew": anew, "while the log contradicts it": opened(t, testConfig, stored(), diverged),
	} {
		r.do(Await{Stamp: r.stamp(), ID: 1, Next: 100})
		if answers := all[Answer](r); len(answers) > 0 {
			t.Errorf("%s: %+v", what, answers)
		}
	}
}

// Item 37: messages before the manifest is resolved.
func TestItem37MessagesBeforeResolution(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(GovernorUp{r.stamp()})
	r.do(ReplicaUp{r.stamp()})
	r.do(Await{Stamp: r.stamp(), ID: 1, Next: 100})
	r.do(Granted{Stamp: r.stamp(), Ref: 9})
	if got := one[Release](r); got.Ref != 9 {
		t.Fatalf("released %d", got.Ref)
	}
	r.do(Start{Stamp: r.stamp()})
	r.do(ReplicaUp{r.stamp()})
	one[ShowPending](r)
	r.do(Tick{r.stamp()})
	r.do(Moved{Stamp: r.stamp()})
	r.do(Uploaded{Stamp: r.stamp()})
	r.do(RootPut{Stamp: r.stamp()})
	r.do(Inspected{Stamp: r.stamp()})
}

func TestUnreadableLocalLogIsInspectedAgain(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Result: Result{FaultLasting, "disk"}})
	none[ShowSync](r)
	r.after(time.Second)
	one[Inspect](r)
}

// A manifest that is stored ends a row of resolutions that failed, and one that is only read does
// not: what fails next is the first again, and tried again as soon.
func TestAPersistEndsTheBackOffOfResolutions(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	for range 8 {
		r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "store down"}})
		r.after(30 * time.Second)
	}
	for _, c := range []struct {
		persist     bool
		least, most time.Duration
	}{{false, 15 * time.Second, 30 * time.Second}, {true, time.Second / 2, time.Second}} {
		r.resolve(stored())
		r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 120)})
		if ref := r.chunks(100, 120)[0].Ref; c.persist {
			r.grant(ref)
			r.upload(ref)
			r.persist()
		}
		r.do(StoreReclaimed{r.stamp()})
		if wait := one[Wake](r).At.Sub(r.now); wait < c.least || wait > c.most {
			t.Errorf("persisted %v: it is resolved again after %s, want %s to %s", c.persist, wait, c.least, c.most)
		}
		r.after(30 * time.Second)
	}
}
