package upload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

// uploaded returns a rig with the first n fragments behind the stored stream
// uploaded and applied.
func applied(t *testing.T, n int) *rig {
	t.Helper()
	next := pos.Offset(100 + 20*n)
	r, refs := running(t, testConfig, next)
	for _, ref := range refs {
		r.upload(ref)
	}
	return r
}

func TestPersistAfterFiveEditsOrTwoSeconds(t *testing.T) {
	r := applied(t, 4)
	none[PutRoot](r)
	r.after(2*time.Second - time.Millisecond)
	none[PutRoot](r)
	r.after(time.Millisecond)
	root := one[PutRoot](r)
	decoded, err := manifest.Decode(root.Body)
	if err != nil || decoded.Next != 180 || decoded.Revision != 8 || decoded.Epoch != 3 {
		t.Fatalf("put %+v, %v", decoded, err)
	}
	if !strings.HasPrefix(root.Key, "p/s/metadata/root.3.8.") {
		t.Fatalf("put as %s", root.Key)
	}
	r = applied(t, 5)
	one[PutRoot](r)
}

func TestALargeFragmentIsPersistedOnceNothingIsUnderWay(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 130))
	large := chunkAt(100, 3)
	large.Size = worthwhile
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: append([]segment.ChunkRef{large}, chunksOf(110, 130)...), End: true})
	s := all[Submit](r)
	for _, s := range s {
		r.grant(s.Ref)
	}
	r.upload(s[0].Ref)
	none[PutRoot](r)
	r.upload(s[1].Ref)
	one[PutRoot](r)
}

// Item 2: only what was persisted is shown, and item 53: with its own revision.
func TestItem02OnlyThePersistedManifestIsShown(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 400))
	s := r.chunks(100, 220)
	for _, s := range s {
		r.grant(s.Ref)
	}
	for _, s := range s[:5] {
		r.upload(s.Ref)
	}
	one[PutRoot](r)
	r.upload(s[5].Ref) // live is ahead of the snapshot now
	r.do(ReplicaUp{r.stamp()})
	if got := one[ShowSync](r).Manifest; got.Next != 100 || got.Revision != 7 {
		t.Fatalf("shown %+v", got)
	}
	r.do(RootPut{Stamp: r.stamp()})
	none[ShowEdits](r)
	none[Seam](r)
	r.do(PointerSwapped{Stamp: r.stamp()})
	if got := one[ShowEdits](r); got.Seq != 8 || len(got.Edits) != 5 {
		t.Fatalf("shown %+v", got)
	}
	if got := one[Seam](r); got != (Seam{Next: 200, Seq: 8}) {
		t.Fatalf("seam %+v", got)
	}
	r.do(ReplicaUp{r.stamp()})
	if got := one[ShowSync](r).Manifest; got.Next != 200 || got.Revision != 8 {
		t.Fatalf("shown %+v", got)
	}
	if st := r.m.Status().Remote; st.Next != 220 || st.PersistedNext != 200 || st.Revision != 8 {
		t.Fatalf("status %+v", st)
	}
}

func TestSupersededRootIsCollectedAfterItsGrace(t *testing.T) {
	r := applied(t, 1)
	r.persist()
	got := one[Collect](r)
	if !slices.Equal(got.Keys, []string{"p/s/metadata/root.2.7.0000000000000abc.manifest"}) || got.After != r.now.Add(time.Hour) {
		t.Fatalf("collected %+v", got)
	}
}

// Item 23: a root that is the former one by accident is not collected.
func TestItem23TheLiveRootIsNeverCollected(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	r.m.persist.next = r.m.pointer
	r.m.persist.manifest = r.m.now.Stamped(2, 7)
	r.do(RootPut{Stamp: r.stamp()})
	r.out = r.m.Step(PointerSwapped{Stamp: r.stamp()}, nil)
	one[Seam](r)
	none[Collect](r)
}

// Item 16: after every way a persist can end, what is left is persisted without
// another fragment coming along.
func TestItem16NoEditsAreStranded(t *testing.T) {
	for what, end := range map[string]func(r *rig){
		"done with a remainder": func(r *rig) { r.finishPersist() },
		"root not stored": func(r *rig) {
			r.do(RootPut{Stamp: r.stamp(), Result: Result{FaultTransient, "503"}})
		},
		"pointer not moved": func(r *rig) {
			r.do(RootPut{Stamp: r.stamp()})
			r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultTransient, "down"}})
		},
		"outcome unknown, and not moved": func(r *rig) {
			r.do(RootPut{Stamp: r.stamp()})
			r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultUnknown, "cut off"}})
			r.do(PointerRead{Stamp: r.stamp(), Pointer: r.m.pointer})
		},
		"outcome unknown, and not to be learned": func(r *rig) {
			r.do(RootPut{Stamp: r.stamp()})
			r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultUnknown, "cut off"}})
			r.do(PointerRead{Stamp: r.stamp(), Result: Result{FaultTransient, "down"}})
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := opened(t, testConfig, stored(), log(0, 400))
			s := r.chunks(100, 220)
			for _, s := range s {
				r.grant(s.Ref)
			}
			for _, s := range s[:5] {
				r.upload(s.Ref)
			}
			r.out = []Effect{one[PutRoot](r)}
			root := r.out
			r.upload(s[5].Ref)
			r.out = root
			end(r)
			for range 10 {
				if r.m.stored.Next == 220 {
					return
				}
				r.settle()
			}
			t.Fatalf("persisted up to %s: %+v", r.m.stored.Next, r.m.Status())
		})
	}
}

// settle waits for the next Wake and lets the stores do what is asked of them.
func (r *rig) settle() {
	r.t.Helper()
	if r.m.wake > r.now {
		r.now = r.m.wake
	}
	r.do(Tick{r.stamp()})
	for range 3 {
		switch r.m.persist.stage {
		case persistPutting:
			r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
		case persistSwapping:
			r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen})
		case persistReading:
			r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: r.m.pointer})
		default: // it waits for a time
		}
	}
}

func TestUnknownOutcomeIsLearnedByTheOwnUID(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp()})
	next := one[SwapPointer](r).Next
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultUnknown, "cut off"}})
	one[ReadPointer](r)
	none[Seam](r)
	r.do(PointerRead{Stamp: r.stamp(), Pointer: next})
	if got := one[Seam](r); got != (Seam{Next: 120, Seq: 8}) {
		t.Fatalf("seam %+v", got)
	}
	if r.m.counts.Persists != 1 || r.m.counts.Conflicts != 0 {
		t.Fatalf("counted %+v", r.m.counts)
	}
}

func TestUnknownOutcomeThatDidNotHappenSwapsTheSameRootAgain(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp()})
	first := one[SwapPointer](r)
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultUnknown, "cut off"}})
	r.do(PointerRead{Stamp: r.stamp(), Pointer: r.m.pointer})
	none[PutRoot](r)
	r.stalledAt(pos.NoOffset, "") // it may pass
	if again := one[SwapPointer](r); again != first {
		t.Fatalf("swaps %+v, before %+v", again, first)
	}
	// It was applied after all, late: the refusal is of our own.
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultConflict, "revision is 8"}})
	r.do(PointerRead{Stamp: r.stamp(), Pointer: first.Next})
	one[ShowEdits](r)
}

func TestConflictResolvesAnew(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp()})
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultConflict, "revision is 8"}})
	theirs := manifestOf(3, 8, entryAt(0, 50, 1), entryAt(50, 100, 2), entryAt(100, 150, 3))
	r.do(PointerRead{Stamp: r.stamp(), Pointer: pointerTo(theirs)})
	one[Abort](r)
	one[ShowPending](r)
	none[Seam](r)
	if r.m.counts.Conflicts != 1 || r.m.gen != 1 {
		t.Fatalf("counted %+v in generation %d", r.m.counts, r.m.gen)
	}
	r.after(time.Second)
	r.resolve(theirs)
	r.do(Inspected{Stamp: r.stamp(), Gen: 1, Local: log(0, 300)})
	if got := one[ShowSync](r).Manifest; got.Next != 150 || got.Revision != 8 {
		t.Fatalf("shown %+v", got)
	}
	if got := one[Read](r); got.From != 150 || got.Gen != 1 {
		t.Fatalf("reads %+v", got)
	}
}

// Item 13: what belongs to an earlier generation is dropped, whatever it is.
func TestItem13LateResultsAreDropped(t *testing.T) {
	r, refs := running(t, testConfig, 180)
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(180, 200)})
	r.failUpload(refs[0], FaultLasting, 0)
	old := r.m.gen
	r.m.restart("planned")
	r.do(Tick{r.stamp()})
	r.after(time.Second)
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 180)})
	before := r.m.Status()
	for _, in := range []Input{
		Uploaded{Stamp: r.stamp(), Ref: refs[1]},
		ChunksRead{Stamp: r.stamp(), Gen: old, Chunks: chunksOf(100, 120)},
		Moved{Stamp: r.stamp(), Gen: old},
		RootPut{Stamp: r.stamp(), Gen: old},
		PointerSwapped{Stamp: r.stamp(), Gen: old},
		PointerRead{Stamp: r.stamp(), Gen: old, Pointer: Pointer{Revision: 99, Epoch: 3}},
		RootRead{Stamp: r.stamp(), Gen: old, Body: stored().Encode()},
		LookedFor{Stamp: r.stamp(), Gen: old},
		Inspected{Stamp: r.stamp(), Gen: old, Local: log(150, 180)},
		AnchorPut{Stamp: r.stamp(), Gen: old, Result: Result{FaultMissing, "gone"}},
	} {
		if out := r.do(in); len(out) > 0 {
			t.Fatalf("%s: %s", name(in), dump(out))
		}
	}
	if after := r.m.Status(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("status %+v, before %+v", after, before)
	}
}

// Item 13, where the new generation waits for an answer of the same kind.
func TestItem13LateResultsDoNotAnswerTheNextGeneration(t *testing.T) {
	ignored := func(r *rig, in Input) {
		t.Helper()
		if out := r.do(in); len(out) > 0 {
			t.Fatalf("%s: %s", name(in), dump(out))
		}
	}
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.m.restart("planned")
	r.do(Tick{r.stamp()})
	r.after(time.Second)
	one[ReadPointer](r)
	ignored(r, PointerRead{Stamp: r.stamp(), Result: Result{FaultMissing, "an earlier truth"}})
	r.do(PointerRead{Stamp: r.stamp(), Gen: 1, Pointer: pointerTo(stored())})
	ignored(r, RootRead{Stamp: r.stamp(), Body: stored().Encode()})
	r.do(RootRead{Stamp: r.stamp(), Gen: 1, Body: stored().Encode()})
	ignored(r, LookedFor{Stamp: r.stamp()})
	r.do(LookedFor{Stamp: r.stamp(), Gen: 1})
	ignored(r, Inspected{Stamp: r.stamp(), Local: log(150, 200)})
	r.do(Inspected{Stamp: r.stamp(), Gen: 1, Local: log(0, 120)})
	s := r.chunks(100, 120)
	r.grant(s[0].Ref)
	r.upload(s[0].Ref)
	r.after(2 * time.Second)
	one[PutRoot](r)
	ignored(r, RootPut{Stamp: r.stamp()})
	r.do(RootPut{Stamp: r.stamp(), Gen: 1})
	ignored(r, PointerSwapped{Stamp: r.stamp()})
	r.do(PointerSwapped{Stamp: r.stamp(), Gen: 1, Result: Result{FaultUnknown, "cut off"}})
	ignored(r, PointerRead{Stamp: r.stamp(), Pointer: pointerTo(stored())})
	r.do(PointerRead{Stamp: r.stamp(), Gen: 1, Pointer: r.m.persist.next})
	one[Seam](r)
}

func TestRestartTakesBackWhatTheGovernorKnows(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	r.upload(refs[1])
	out := r.m.out
	r.m.restart("planned")
	r.out, r.m.out = r.m.out, out
	if got := one[Withdraw](r).Refs; !slices.Equal(got, refs[:1]) {
		t.Fatalf("withdrawn %v, want %v", got, refs[:1])
	}
	r.do(Granted{Stamp: r.stamp(), Ref: refs[0]})
	one[Release](r)
}

// Item 12: the stream is deleted during a persist.
func TestItem12StreamDeletedDuringAPersist(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp()})
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultMissing, "no such stream"}})
	one[Forget](r)
	one[Stop](r)
	none[Seam](r)
	if out := r.do(Tick{r.stamp()}); len(out) != 0 {
		t.Fatalf("goes on: %s", dump(out))
	}

	// Without a pointer yet the truth is learned again, and then the anchor tells.
	r = opened(t, testConfig, nil, Local{First: 0, Next: 20})
	r.chunks(0, 20)
	s := r.anchored()
	r.grant(s[0].Ref)
	r.upload(s[0].Ref)
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp()})
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultMissing, "no such stream"}})
	none[Stop](r)
	r.after(time.Second)
	r.resolve(nil)
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: Local{First: 0, Next: 20}})
	r.chunks(0, 20)
	r.do(AnchorPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no such stream"}})
	one[Stop](r)
}

func TestDeletionFoundWhileReadingThePointer(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	r.do(RootPut{Stamp: r.stamp()})
	r.do(PointerSwapped{Stamp: r.stamp(), Result: Result{FaultUnknown, "cut off"}})
	r.do(PointerRead{Stamp: r.stamp(), Result: Result{FaultMissing, "no pointer"}})
	one[Stop](r)
}

// Item 12, where the truth is being learned: what had a pointer and has none any more was
// deleted. It is never taken for a new stream, whose empty manifest would be stored.
func TestItem12ADeletedStreamIsNoNewOne(t *testing.T) {
	r := newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(PointerRead{Stamp: r.stamp(), Pointer: pointerTo(stored())})
	r.do(RootRead{Stamp: r.stamp(), Result: Result{FaultMissing, "404"}})
	r.after(lasting.Last)
	one[ReadPointer](r)
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultMissing, "no pointer"}})
	one[Forget](r)
	one[Stop](r)
	none[Inspect](r)
	if c := r.m.counts; c.ResolvedEmpty != 0 || r.m.Status().Stream.Why != "the stream was deleted" {
		t.Fatalf("counted %+v, %+v", c, r.m.Status().Stream)
	}
}

func TestStreamDeletedStopsAtAnyMoment(t *testing.T) {
	r, _ := running(t, testConfig, 140)
	r.do(StreamDeleted{r.stamp()})
	one[Withdraw](r)
	one[Abort](r)
	one[Forget](r)
	one[Stop](r)
	r = newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(StreamDeleted{r.stamp()})
	one[Stop](r)
}

func TestRootUploadsBackOffAndWhatTheyMayHaveLeftIsCollected(t *testing.T) {
	r := applied(t, 1)
	r.after(2 * time.Second)
	var failed []string
	for i := range 20 {
		fault, first, most := FaultTransient, 5*time.Millisecond, 5*time.Second // half of it after the second
		if i >= 12 {
			fault, first, most = FaultLasting, time.Second, 30*time.Second
		}
		failed = append(failed, one[PutRoot](r).Key)
		r.do(RootPut{Stamp: r.stamp(), Result: Result{fault, "503"}})
		if i == 0 {
			continue // at once
		}
		none[PutRoot](r)
		limit := min(first<<i, most)
		if wait := r.m.persist.at.Sub(r.now); wait < limit/2 || wait > limit {
			t.Fatalf("try %d waits %s", i, wait)
		}
		r.after(r.m.persist.at.Sub(r.now))
	}
	if slices.Sort(failed); len(slices.Compact(failed)) != 20 {
		t.Fatalf("names are used twice: %v", failed)
	}
	r.finishPersist()
	if got := one[Collect](r).Keys; len(got) != maxRemnants+1 {
		t.Fatalf("collected %d: %v", len(got), got)
	}
}

// Item 36: who waits for an offset is answered also when the truth is learned anew,
// and by what is persisted only.
func TestItem36WaitersOutliveAGeneration(t *testing.T) {
	r := applied(t, 1)
	r.do(Await{Stamp: r.stamp(), ID: 1, Next: 120})
	none[Answer](r)
	r.do(Await{Stamp: r.stamp(), ID: 2, Next: 100})
	if got := one[Answer](r); got != (Answer{ID: 2, Next: 100, Held: true}) {
		t.Fatalf("answered %+v", got)
	}
	r.m.restart("planned")
	r.do(Tick{r.stamp()})
	r.after(time.Second)
	r.resolve(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(150, 170)})
	s := r.chunks(150, 170)
	r.grant(s[0].Ref)
	r.upload(s[0].Ref)
	none[Answer](r)
	r.persist()
	if got := one[Answer](r); got != (Answer{ID: 1, Next: 170, Held: false}) {
		t.Fatalf("answered %+v, want that it was lost in the gap", got)
	}
	for id := range WaiterID(MaxWaiters) {
		r.do(Await{Stamp: r.stamp(), ID: 10 + id, Next: 1_000})
	}
	r.do(Await{Stamp: r.stamp(), ID: 9_999, Next: 1_000})
	if got := one[Answer](r); !got.Full || got.ID != 9_999 {
		t.Fatalf("answered %+v", got)
	}
}

func TestTheSeamGoesOnAcrossManyPersists(t *testing.T) {
	r := opened(t, testConfig, nil, Local{First: 0, Next: 20})
	next := pos.Offset(0)
	for i := range 30 {
		r.do(Moved{Stamp: r.stamp()})
		s := r.chunks(next, next+20)
		next += 20
		if i == 0 {
			s = r.anchored()
		}
		r.grant(s[0].Ref)
		r.upload(s[0].Ref)
		r.persist()
		if got := one[Seam](r); got.Next != next || got.Seq != pos.Revision(i+1) {
			t.Fatalf("seam %+v", got)
		}
	}
}
