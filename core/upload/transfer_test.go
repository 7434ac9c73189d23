package upload

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/segment"
)

// running returns a rig on the stored stream with the fragments [100,120), [120,140)
// and so on up to next uploading, and their refs.
func running(t *testing.T, cfg Config, next pos.Offset) (*rig, []pace.Ref) {
	t.Helper()
	r := opened(t, cfg, stored(), log(0, next))
	var refs []pace.Ref
	for _, s := range r.chunks(100, next) {
		refs = append(refs, s.Ref)
	}
	for _, ref := range refs {
		r.grant(ref)
	}
	return r, refs
}

func TestFragmentsAreCutBySizeWithTheChunkThatCrossesIt(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 300))
	submits := r.chunks(100, 150)
	if len(submits) != 2 || submits[0].Bytes != 8+200+2*24+20 {
		t.Fatalf("submitted %+v", submits)
	}
	if got := firsts(r.m.flights); !slices.Equal(got, []pos.Offset{100, 120}) {
		t.Fatalf("cut at %v", got)
	}
	if s := r.m.Status(); s.Fragment.First != 140 || s.Fragment.Next != 150 || s.Fragment.Bytes != 100 || s.Pipeline.Submitted != 2 {
		t.Fatalf("status %+v", s)
	}
}

func TestASlowStreamReachesTheStoreByAge(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 110))
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(100, 110), End: true})
	if got := one[Listen](r).From; got != 110 {
		t.Fatalf("listens from %s", got)
	}
	if got := one[Wake](r).At; got != r.now.Add(5*time.Minute) {
		t.Fatalf("wakes at %s", got)
	}
	r.after(5*time.Minute - time.Millisecond)
	none[Submit](r)
	r.after(time.Millisecond)
	if got := r.grant(one[Submit](r).Ref).Fragment; got.First != 100 || got.Next != 110 || got.Chunks != 1 {
		t.Fatalf("cut %+v", got)
	}
}

// Item 51: one chunk far above the target is one fragment of its size. It alone is more
// than may be ahead of the pointer: what follows it waits in the log.
func TestItem51OneHugeChunk(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 130))
	huge := chunkAt(100, 3)
	huge.Size = 2 << 30
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: append([]segment.ChunkRef{huge}, chunksOf(110, 130)...), End: true})
	ref := one[Submit](r).Ref
	if got := r.grant(ref).Fragment; got.Size != 2<<30 || got.Chunks != 1 || len(r.m.flights) != 1 {
		t.Fatalf("cut %+v, of %d", got, len(r.m.flights))
	}
	r.upload(ref)
	none[Submit](r)
	r.finishPersist() // at once: so much by itself
	one[Submit](r)
}

// Item 1: a fragment that fails keeps its place, and nothing behind it is applied.
func TestItem01FailedFragmentKeepsItsPlace(t *testing.T) {
	for _, fault := range []Fault{FaultLasting, FaultMissing, FaultTransient} {
		r, refs := running(t, testConfig, 160)
		r.upload(refs[2])
		r.failUpload(refs[1], fault, 0)
		r.upload(refs[0])
		if r.m.now.Next != 120 {
			t.Fatalf("%s: applied up to %s", fault, r.m.now.Next)
		}
		s := r.m.Status().Pipeline
		if fault != FaultTransient && (s.Stalled != 120 || s.StalledWhy != "planned") {
			t.Fatalf("%s: status %+v", fault, s)
		}
		r.persist()
		if got := one[Seam](r).Next; got != 120 {
			t.Fatalf("%s: seam %s", fault, got)
		}
		r.after(time.Second)
		again := r.m.flights[0]
		if again.stage != stageSubmitted || again.ref == refs[1] {
			t.Fatalf("%s: not submitted again: %+v", fault, again)
		}
		r.grant(again.ref)
		r.upload(again.ref)
		if r.m.now.Next != 160 || r.m.Status().Pipeline.Stalled != pos.NoOffset {
			t.Fatalf("%s: applied up to %s", fault, r.m.now.Next)
		}
	}
}

// Item 15: completions arrive in reverse.
func TestItem15ReverseCompletionsAreAppliedInCutOrder(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	for _, ref := range []pace.Ref{refs[2], refs[1]} {
		r.upload(ref)
		if got := one[Release](r).Ref; got != ref || r.m.now.Next != 100 {
			t.Fatalf("released %d, applied up to %s", got, r.m.now.Next)
		}
	}
	r.upload(refs[0])
	var got []pos.Offset
	for _, e := range r.m.now.Entries[2:] {
		got = append(got, e.First)
	}
	if !slices.Equal(got, []pos.Offset{100, 120, 140}) {
		t.Fatalf("applied %v", got)
	}
	r.persist()
	if got := one[ShowEdits](r); got.Seq != 8 || len(got.Edits) != 3 {
		t.Fatalf("published %+v", got)
	}
}

func TestRetriesBackOffByClass(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  []time.Duration
	}{
		{FaultTransient, []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond}},
		{FaultLasting, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}},
	} {
		r, refs := running(t, testConfig, 120)
		ref := refs[0]
		for i, limit := range c.want {
			r.failUpload(ref, c.fault, 0)
			if limit > 0 {
				none[Submit](r)
				wait := r.m.flights[0].at.Sub(r.now)
				if wait < limit/2 || wait > limit {
					t.Fatalf("%s, try %d: waits %s, want between half of %s and all of it", c.fault, i, wait, limit)
				}
				r.after(wait)
			}
			ref = one[Submit](r).Ref
			r.grant(ref)
		}
	}
	if got := pause(FaultTransient, 1000, 1<<63); got > 5*time.Second {
		t.Fatalf("pauses %s", got)
	}
}

func TestJitterCoversTheUpperHalf(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range pos.UID(1000) {
		p := pause(FaultLasting, 2, i*0x9e3779b97f4a7c15)
		if p < time.Second || p > 2*time.Second {
			t.Fatalf("pause %s", p)
		}
		seen[p] = true
	}
	if len(seen) < 900 {
		t.Fatalf("%d pauses of 1000 differ", len(seen))
	}
}

func TestABusyStreamIsReadInPieces(t *testing.T) {
	cfg := testConfig
	cfg.ReadPause = 100 * time.Millisecond
	r := opened(t, cfg, stored(), log(0, 110))
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(100, 110), End: true})
	none[Listen](r)
	r.after(100 * time.Millisecond)
	one[Listen](r)
}

// Item 38: no object of any kind before the anchor.
func TestItem38AnchorFailsThreeTimes(t *testing.T) {
	r := opened(t, testConfig, nil, Local{First: 0, Next: 80})
	r.chunks(0, 40)
	none[Submit](r)
	for i := range 3 {
		if r.m.anchors != anchorWriting {
			t.Fatalf("try %d: anchor is %d", i, r.m.anchors)
		}
		r.do(AnchorPut{Stamp: r.stamp(), Result: Result{FaultTransient, "down"}})
		r.after(30 * time.Second)
		one[PutAnchor](r)
	}
	r.do(Moved{Stamp: r.stamp()})
	r.chunks(40, 80)
	none[Submit](r)
	var sizes []pos.Offset
	for _, s := range r.anchored() {
		sizes = append(sizes, r.m.byRef(s.Ref, stageSubmitted).frag.First)
	}
	if !slices.Equal(sizes, []pos.Offset{0, 20, 40, 60}) {
		t.Fatalf("submitted %v", sizes)
	}
}

func TestEstablishedStreamWritesNoAnchor(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 140))
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(100, 140)})
	none[PutAnchor](r)
}

func TestAnchorOfADeletedStreamStops(t *testing.T) {
	r := opened(t, testConfig, nil, Local{First: 0, Next: 40})
	r.chunks(0, 40)
	r.do(AnchorPut{Stamp: r.stamp(), Result: Result{FaultMissing, "no such stream"}})
	one[Forget](r)
	one[Stop](r)
}

// Items 3 and 6: what local retention took before it was uploaded is a gap, and the
// history before it stays.
func TestItem03And06GapKeepsTheDurablePrefix(t *testing.T) {
	r, refs := running(t, testConfig, 180)
	r.failUpload(refs[0], FaultMissing, 150) // [100, 150) is gone
	r.failUpload(refs[1], FaultMissing, 150)
	r.failUpload(refs[2], FaultMissing, 150) // [140, 160): its second segment is still there
	if got := firsts(r.m.flights); !slices.Equal(got, []pos.Offset{150, 160}) {
		t.Fatalf("left %v", got)
	}
	ref := one[Submit](r).Ref
	f := r.m.byRef(ref, stageSubmitted).frag
	want := fragment.Fragment{
		First: 150, Next: 160, FirstTime: 1150, LastTime: 1150, Epoch: 3, Size: 100, Chunks: 1,
		Spans:   []fragment.Span{{Segment: 150, Start: 8, End: 108}},
		Index:   []fragment.IndexRecord{{Offset: 150, Time: 1150, Position: fragment.DataStart}},
		Headers: []uint32{chunkAt(150, 3).Header.Sum()},
	}
	if !reflect.DeepEqual(*f, want) {
		t.Fatalf("cut off %+v, want %+v", *f, want)
	}
	r.grant(ref)
	r.upload(ref)
	r.upload(refs[3])
	r.persist()
	m := r.m.stored
	if m.First != 0 || m.Next != 180 || len(m.Gaps()) != 1 || m.Gaps()[0].From != 100 || m.Gaps()[0].To != 150 {
		t.Fatalf("persisted %+v with gaps %v", m, m.Gaps())
	}
	if c := r.m.counts; c.Gaps != 1 || c.GapRecords != 50 || c.FloorPassed != 3 {
		t.Fatalf("counted %+v", c)
	}
}

func TestItem03GapAtOpenAndWhileReading(t *testing.T) {
	r := opened(t, testConfig, stored(), log(150, 200))
	submits := r.chunks(150, 170)
	r.grant(submits[0].Ref)
	r.upload(submits[0].Ref)
	r.do(Moved{Stamp: r.stamp()})
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(170, 180)})
	r.do(ChunksRead{Stamp: r.stamp(), Trimmed: true, Floor: 250})
	if got := one[Read](r).From; got != 250 || !r.m.assembly.Empty() {
		t.Fatalf("reads from %s", got)
	}
	for _, s := range r.chunks(250, 270) {
		r.grant(s.Ref)
		r.upload(s.Ref)
	}
	r.persist()
	gaps := r.m.stored.Gaps()
	if len(gaps) != 2 || gaps[0].From != 100 || gaps[0].To != 150 || gaps[1].From != 170 || gaps[1].To != 250 {
		t.Fatalf("gaps %v", gaps)
	}
}

// Item 5: fragments behind the stalled one are uploaded already when the floor passes it.
func TestItem05UploadedFragmentsBehindAGapAreKept(t *testing.T) {
	r, refs := running(t, testConfig, 160)
	r.upload(refs[1])
	r.upload(refs[2])
	r.failUpload(refs[0], FaultMissing, 150)
	if r.m.now.Next != 160 || len(r.m.flights) != 0 {
		t.Fatalf("applied up to %s", r.m.now.Next)
	}
	r.persist()
	if got := r.m.stored.Gaps(); len(got) != 1 || got[0].From != 100 || got[0].To != 120 {
		t.Fatalf("gaps %v", got)
	}
}

func TestOnGapDiscardBeginsAnewWithTheFirstFragmentBeyond(t *testing.T) {
	cfg := testConfig
	cfg.Discard = true
	r := opened(t, cfg, stored(), log(150, 200))
	if got := one[ShowSync](r).Manifest; got.Next != 100 {
		t.Fatalf("until then %+v can be read", got)
	}
	s := r.chunks(150, 170)
	r.grant(s[0].Ref)
	r.upload(s[0].Ref)
	none[Collect](r)
	r.persist()
	m := r.m.stored
	// Item 44: what the manifest says of its first fragment comes from the fragment.
	if m.First != 150 || m.Next != 170 || m.FirstTime != 1150 || m.FirstLastTime != 1160 || len(m.Gaps()) != 0 || m.Revision != 8 {
		t.Fatalf("persisted %+v", m)
	}
	if got := len(one[ShowEdits](r).Edits); got != 2 {
		t.Fatalf("published %d edits", got)
	}
	if got := one[Collect](r).Keys; len(got) != 3 {
		t.Fatalf("collected %v", got)
	}
}

// Item 44: the first fragment of an expired stream, at an offset above 0.
func TestItem44FirstFragmentAfterFullExpiry(t *testing.T) {
	live := stored()
	expired, err := live.Apply(manifest.RemoveHeadEdit(live, 2))
	if err != nil {
		t.Fatal(err)
	}
	r := opened(t, testConfig, expired, log(0, 120))
	s := r.chunks(100, 120)
	r.grant(s[0].Ref)
	r.upload(s[0].Ref)
	r.persist()
	if m := r.m.stored; m.First != 100 || m.FirstTime != 1100 || m.FirstLastTime != 1110 {
		t.Fatalf("persisted %+v", m)
	}
}

// Item 50: a restart after the upload and before the persist uploads again under a
// new name, and skips nothing.
func TestItem50RestartUploadsAgainUnderANewName(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	first := r.m.byRef(refs[0], stageUploading).frag.UID
	r.upload(refs[0])
	again := opened(t, testConfig, stored(), log(0, 140))
	again.uid = 0xaaa
	s := again.chunks(100, 140)
	if up := again.grant(s[0].Ref); up.Fragment.First != 100 || up.Fragment.UID == first {
		t.Fatalf("uploads %+v", up)
	}
}

func TestUploadsRunAtMostEightFragmentsAheadOfThePointer(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 500))
	s := r.chunks(100, 400)
	if len(s) != 8 || len(r.m.flights) != 8 {
		t.Fatalf("submitted %d of %d", len(s), len(r.m.flights))
	}
	for _, s := range s {
		r.grant(s.Ref)
		r.upload(s.Ref)
		none[Read](r)
		none[Submit](r)
	}
	if r.m.persist.edits != 5 || r.m.persist.stage != persistPutting {
		t.Fatalf("persist %+v", r.m.persist)
	}
	r.do(RootPut{Stamp: r.stamp()})
	r.do(PointerSwapped{Stamp: r.stamp()})
	if n := len(all[Submit](r)); n != 5 {
		t.Fatalf("%d go after 5 were persisted", n)
	}
}

func TestUploadsRunAtMostHalfAGigabyteAheadOfThePointer(t *testing.T) {
	cfg := testConfig
	cfg.MaxAheadBytes = 500
	r := opened(t, cfg, stored(), log(0, 500))
	if s := r.chunks(100, 400); len(s) != 3 {
		t.Fatalf("submitted %d of 200 bytes each", len(s))
	}
}

func TestAHoleInTheLocalLogIsNoGap(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 200))
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: []segment.ChunkRef{chunkAt(100, 3), chunkAt(120, 3)}})
	one[Abort](r)
	if s := r.m.Status().Stream; s.State != "waiting" || s.Why == "" {
		t.Fatalf("status %+v", s)
	}
	r = opened(t, testConfig, stored(), log(0, 200))
	empty := chunkAt(100, 3)
	empty.Header = chunk.Header{ID: 100}
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: []segment.ChunkRef{empty}})
	one[Abort](r)
}

func TestAnUnreadableLocalLogIsReadAgain(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 200))
	r.do(ChunksRead{Stamp: r.stamp(), Result: Result{FaultLasting, "I/O error"}})
	none[Read](r)
	r.after(time.Second)
	one[Read](r)
	r = opened(t, testConfig, stored(), log(0, 200))
	r.do(ChunksRead{Stamp: r.stamp(), Trimmed: true, Floor: 50})
	one[Read](r) // vanished while it was looked for: at once
	r.do(ChunksRead{Stamp: r.stamp(), Trimmed: true, Floor: 50})
	none[Read](r) // but not in a hot loop
}

// What the floor leaves of a fragment is as young as its latest chunk, wherever that is: clocks
// can run backwards, and retention goes by it.
func TestWhatIsLeftOfAFragmentIsAsYoungAsItsLatestChunk(t *testing.T) {
	cfg := testConfig
	cfg.Fragment.TargetBytes = 4 * chunkBytes
	for _, latest := range []pos.Offset{140, 150, 160, 170} { // of a fragment that the floor cuts at 150
		r := opened(t, cfg, stored(), log(0, 180))
		chunks := chunksOf(100, 180)
		chunks[(latest-100)/chunkRecords].Header.Timestamp = 9_000
		r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Chunks: chunks, End: true})
		ref := all[Submit](r)[1].Ref
		r.grant(ref)
		r.failUpload(ref, FaultMissing, 150)
		want := pos.Millis(9_000)
		if latest < 150 {
			want = 1_170
		}
		if f := r.grant(one[Submit](r).Ref).Fragment; f.First != 150 || f.Next != 180 || f.LastTime != want {
			t.Errorf("%s is the latest: left is [%s, %s), as young as %s", latest, f.First, f.Next, f.LastTime)
		}
	}
}

// A fragment is doubted once it failed for good, and no more after a failure that may pass: the
// chunks were read through by then.
func TestAFragmentIsDoubtedForItsLastFailure(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	ref := refs[0]
	for _, fault := range []Fault{FaultTransient, FaultLasting, FaultTransient, FaultMissing, FaultUnknown, FaultTransient} {
		r.failUpload(ref, fault, 0)
		if len(all[Submit](r)) == 0 {
			r.after(30 * time.Second)
		}
		ref = one[Submit](r).Ref
		if up := r.grant(ref); up.Doubted != (fault != FaultTransient) {
			t.Errorf("after one that is %s: doubted %v", fault, up.Doubted)
		}
	}
}
