package upload

import (
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
)

func (r *rig) stalledAt(want pos.Offset, why string) {
	r.t.Helper()
	s := r.m.Status()
	p := s.Pipeline
	if p.Stalled != want || why == "" != (p.StalledWhy == "") || !strings.Contains(p.StalledWhy, why) {
		r.t.Fatalf("stalled at %s: %q, want %s: %q", p.Stalled, p.StalledWhy, want, why)
	}
	if trouble := s.Trouble(); !strings.Contains(trouble, p.StalledWhy) || (trouble == "") != (why == "") {
		r.t.Fatalf("trouble %q", trouble)
	}
}

// outage fails the uploads of refs and lets time pass, one try after the other, until the
// machine asks for no other before d is over.
func (r *rig) outage(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	for r.now < end {
		for _, f := range r.m.flights {
			if f.stage == stageSubmitted {
				r.grant(f.ref)
			}
			if f.stage == stageUploading {
				r.failUpload(f.ref, FaultTransient, 0)
			}
		}
		r.now = min(max(r.m.wake, r.now.Add(time.Millisecond)), end)
		r.do(Tick{r.stamp()})
	}
}

// An outage is no stall at first, and one as soon as it lasts, at its very time though nothing
// else happens; what is uploaded ends it.
func TestAnOutageIsAStallAfterHalfAMinute(t *testing.T) {
	r, _ := running(t, testConfig, 140)
	r.outage(Passes - time.Millisecond)
	r.stalledAt(pos.NoOffset, "")
	r.outage(time.Millisecond)
	r.stalledAt(100, "planned")
	first := r.m.flights[0]
	if first.stage == stageCut {
		r.after(max(first.at.Sub(r.now), 0))
	}
	r.grant(first.ref)
	r.stalledAt(100, "planned")
	r.upload(r.m.flights[0].ref)
	r.stalledAt(120, "planned") // which failed as long
	r.grant(one[Submit](r).Ref)
	r.upload(r.m.flights[0].ref)
	r.stalledAt(pos.NoOffset, "")
}

// What has failed and is uploaded now is no stall, though what comes before it still waits.
func TestWhatIsUploadedIsNoStall(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	r.failUpload(refs[1], FaultLasting, 0)
	r.stalledAt(120, "planned")
	r.after(time.Minute)
	r.grant(one[Submit](r).Ref)
	r.upload(r.m.flights[1].ref)
	r.stalledAt(pos.NoOffset, "")
}

// Nothing comes back from a store that hangs: the time tells.
func TestAStallIsShownAtItsTime(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	r.failUpload(refs[0], FaultTransient, 0)
	r.grant(one[Submit](r).Ref)
	r.outageWake(t, r.now.Add(Passes))
	r.after(Passes)
	r.stalledAt(100, "planned")
}

// What waits for its turn, behind what hangs, fails not by itself: that the store is away is
// told, and ends when it is back, also if nothing was tried.
func TestWhatWaitsForItsTurnStalls(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 140))
	r.chunks(100, 140)
	since := r.now.Add(-10 * time.Second)
	r.do(StoreAway{Stamp: r.stamp(), Since: since, Why: "no answer"})
	r.do(StoreAway{Stamp: r.stamp(), Since: r.now, Why: "no answer, still"})
	r.stalledAt(pos.NoOffset, "")
	r.outageWake(t, since.Add(Passes))
	r.after(Passes - 10*time.Second)
	r.stalledAt(100, "no answer")
	r.do(StoreBack{r.stamp()})
	r.stalledAt(pos.NoOffset, "")

	// Nothing waits for the store, or it is not known what would.
	r = opened(t, testConfig, stored(), log(0, 100))
	r.do(StoreAway{Stamp: r.stamp(), Since: r.now, Why: "no answer"})
	r.after(time.Minute)
	r.stalledAt(pos.NoOffset, "")
	r = newRig(t, testConfig)
	r.do(Start{Stamp: r.stamp()})
	r.do(StoreAway{Stamp: r.stamp(), Since: r.now, Why: "no answer"})
	r.do(PointerRead{Stamp: r.stamp(), Gen: r.m.gen, Pointer: pointerTo(stored())})
	r.root(stored())
	r.do(Inspected{Stamp: r.stamp(), Gen: r.m.gen, Local: log(0, 140)})
	r.chunks(100, 140)
	r.after(time.Minute)
	r.stalledAt(pos.NoOffset, "")
}

func (r *rig) outageWake(t *testing.T, want pos.Millis) {
	t.Helper()
	if r.m.wake != want {
		t.Fatalf("woken at %s, want %s", r.m.wake, want)
	}
}

// Local retention takes what could not be uploaded: the stall is the next fragment's, at once.
func TestAStallOutlivesTheFragmentThatBeganIt(t *testing.T) {
	r, _ := running(t, testConfig, 120)
	r.outage(Passes)
	first := r.m.flights[0]
	if first.stage == stageCut {
		r.after(max(first.at.Sub(r.now), 0))
	}
	r.grant(first.ref)
	r.failUpload(first.ref, FaultMissing, 150)
	r.stalledAt(pos.NoOffset, "") // nothing waits for the store
	r.do(Moved{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Trimmed: true, Floor: 150})
	r.chunks(150, 170)
	r.stalledAt(150, "planned")
}

// What is under way when it becomes a stall needs a time, too: nothing else may happen.
func TestEachStallHasItsTime(t *testing.T) {
	r := applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
	r.m.away = retry{} // something else was stored
	r.do(Tick{r.stamp()})
	if r.m.persist.stage != persistPutting {
		t.Fatalf("persist stage %d", r.m.persist.stage)
	}
	r.outageWake(t, r.now.Add(Passes))

	r = opened(t, testConfig, stored(), log(0, 200))
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "busy"}})
	one[Read](r)
	r.outageWake(t, r.now.Add(Passes))

	r, refs := running(t, testConfig, 140)
	r.failUpload(refs[0], FaultTransient, 0)
	r.upload(refs[1])
	r.grant(r.m.flights[0].ref)
	r.outageWake(t, r.now.Add(Passes))
}

// One fragment can't be uploaded while others can.
func TestAFragmentStallsAlone(t *testing.T) {
	r, refs := running(t, testConfig, 200)
	r.failUpload(refs[0], FaultTransient, 0)
	began := r.now
	for i, ref := range refs[1:] {
		r.after(6 * time.Second)
		r.upload(ref)
		if f := r.m.flights[0]; f.stage == stageSubmitted {
			r.grant(f.ref)
			r.failUpload(f.ref, FaultTransient, 0)
		}
		if i == 0 && r.m.away.fails == 0 {
			t.Fatal("the last one failed")
		}
	}
	r.stalledAt(pos.NoOffset, "")
	r.after(Passes - r.now.Sub(began))
	r.stalledAt(100, "planned")
}

// What likely lasts until somebody acts is a stall at once.
func TestWhatLastsIsAStallAtOnce(t *testing.T) {
	r, refs := running(t, testConfig, 140)
	r.failUpload(refs[1], FaultLasting, 0)
	r.stalledAt(120, "planned")
	r.failUpload(refs[0], FaultLasting, 0)
	r.stalledAt(100, "planned")

	r = applied(t, 5)
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "denied"}})
	r.stalledAt(100, "the manifest can't be persisted: denied")

	r = opened(t, testConfig, nil, log(0, 100))
	r.chunks(0, 60)
	r.do(AnchorPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "locked"}})
	r.stalledAt(0, "the stream can't be anchored: locked")
	r.after(time.Second)
	r.anchored()
	r.stalledAt(pos.NoOffset, "")

	r = opened(t, testConfig, stored(), log(0, 200))
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "bad disk"}})
	r.stalledAt(100, "bad disk")
}

// A root that is refused now and then is told of, and no stall before it lasts.
func TestARootThatCannotBePutIsAStallWhenItLasts(t *testing.T) {
	r := applied(t, 5)
	for end := r.now.Add(Passes); r.now < end; {
		if r.m.persist.stage == persistPutting {
			r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
		}
		if s := r.m.Status().Pipeline; s.PersistWhy != "503" {
			t.Fatalf("shown is %+v", s)
		}
		r.stalledAt(pos.NoOffset, "")
		r.now = min(max(r.m.wake, r.now.Add(time.Millisecond)), end)
		r.do(Tick{r.stamp()})
	}
	r.stalledAt(100, "the manifest can't be persisted: 503")
}

// Who asks for a cut while nothing gets on is told why.
func TestACutThatHasNoRoomSaysWhatHinders(t *testing.T) {
	r, refs := running(t, Config{Stream: "s", Epoch: 3, Prefix: "p", Fragment: testConfig.Fragment, MaxAhead: 1}, 120)
	r.force(1, 130)
	if a := one[Cut](r); a.Refused != CutNoRoom || a.Why != "1 fragments are cut and not in the stored manifest yet" {
		t.Fatalf("%+v", a)
	}
	r.failUpload(refs[0], FaultTransient, 0)
	r.force(2, 130)
	if a := one[Cut](r); a.Refused != CutNoRoom || !strings.HasSuffix(a.Why, "yet: planned") {
		t.Fatalf("%+v", a)
	}
}

// A failure that lasts is one also when the last was another.
func TestAStallIsOneUntilItEnds(t *testing.T) {
	r, refs := running(t, testConfig, 120)
	r.failUpload(refs[0], FaultLasting, 0)
	r.after(time.Second)
	r.grant(one[Submit](r).Ref)
	r.failUpload(r.m.flights[0].ref, FaultTransient, 0)
	r.stalledAt(100, "planned")
}

// What the root met says nothing of the pointer.
func TestAPointerHasItsOwnTime(t *testing.T) {
	r := applied(t, 5)
	for end := r.now.Add(Passes); r.now < end; {
		if r.m.persist.stage == persistPutting {
			r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "503"}})
		}
		r.now = min(max(r.m.wake, r.now.Add(time.Millisecond)), end)
		r.do(Tick{r.stamp()})
	}
	r.stalledAt(100, "503")
	if r.m.persist.stage == persistIdle {
		r.after(5 * time.Second)
	}
	r.do(RootPut{Stamp: r.stamp(), Gen: r.m.gen})
	r.do(PointerSwapped{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultTransient, "busy"}})
	r.stalledAt(pos.NoOffset, "")
}
