package upload

import (
	"testing"
	"time"

	"millrace/core/pos"
)

func (r *rig) force(id WaiterID, upto pos.Offset) {
	r.t.Helper()
	r.do(ForceCut{Stamp: r.stamp(), ID: id, Upto: upto, Until: r.now.Add(5 * time.Second)})
}

func TestACutOnRequestWaitsForTheLogToBeRead(t *testing.T) {
	cfg := testConfig
	cfg.ReadPause = time.Minute
	r := opened(t, cfg, stored(), log(0, 110))
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(100, 110), End: true})
	none[Listen](r) // the pause
	r.force(1, 130)
	none[Cut](r)
	one[Listen](r) // the pause is over for it
	r.do(Moved{Stamp: r.stamp()})
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(110, 130), End: true})
	want := Cut{ID: 1, CutAnswer: CutAnswer{First: 120, Next: 130, Bytes: 100, Chunks: 1}}
	if got := one[Cut](r); got != want {
		t.Fatalf("answered %+v, want %+v", got, want)
	}
	if got := firsts(r.m.flights); len(got) != 2 || got[1] != 120 {
		t.Fatalf("cut at %v", got)
	}
	if len(all[Submit](r)) != 2 {
		t.Fatalf("it does not go on with what was cut: %s", dump(r.out))
	}
}

// What is cut already is said, and is no refusal, also while as much is ahead of the pointer as
// may be.
func TestACutOnRequestOfNothing(t *testing.T) {
	full := opened(t, testConfig, stored(), log(0, 260))
	full.chunks(100, 260)
	if full.m.room() {
		t.Fatal("there is room")
	}
	for next, r := range map[pos.Offset]*rig{100: opened(t, testConfig, stored(), log(0, 100)), 260: full} {
		r.force(1, next)
		if got, want := one[Cut](r), (Cut{ID: 1, CutAnswer: CutAnswer{First: next, Next: next}}); got != want {
			t.Errorf("answered %+v, want %+v", got, want)
		}
		none[Submit](r)
	}
}

// A wish to cut ends a pause between two readings, not one after a failure.
func TestACutOnRequestEndsNoBackOff(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 200))
	r.do(ChunksRead{Stamp: r.stamp(), Gen: r.m.gen, Result: Result{FaultLasting, "bad disk"}})
	r.force(1, 120)
	none[Read](r)
}

func TestACutOnRequestIsRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		rig  func(t *testing.T) *rig
		want CutRefusal
		next pos.Offset
	}{
		{"before the manifest is known", func(t *testing.T) *rig {
			r := newRig(t, testConfig)
			r.do(Start{Stamp: r.stamp()})
			return r
		}, CutNotResolved, pos.NoOffset},
		{"while the log ends below the seam", func(t *testing.T) *rig {
			return opened(t, testConfig, stored(), log(0, 60))
		}, CutNoAssembly, 100},
		{"when too much is ahead of the pointer", func(t *testing.T) *rig {
			r := opened(t, testConfig, stored(), log(0, 400))
			r.chunks(100, 360)
			return r
		}, CutNoRoom, 260},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := c.rig(t)
			r.force(1, 400)
			if got := one[Cut](r); got.Refused != c.want || got.Next != c.next || got.Why == "" && c.want != CutNotResolved {
				t.Fatalf("answered %+v", got)
			}
		})
	}
}

func TestACutOnRequestIsAnsweredWhateverComes(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 110))
	r.force(1, 130)
	none[Cut](r)
	r.after(5 * time.Second)
	if got := one[Cut](r); got.Refused != CutUnread || got.ID != 1 {
		t.Fatalf("after its time: %+v", got)
	}
	r.force(2, 130)
	r.do(ChunksRead{Stamp: r.stamp(), Chunks: chunksOf(110, 120)}) // not what was asked for
	if got := one[Cut](r); got.Refused != CutNotResolved || got.ID != 2 {
		t.Fatalf("after a restart: %+v", got)
	}
	r = opened(t, testConfig, stored(), log(0, 110))
	for id := range WaiterID(MaxWaiters) {
		r.force(id, 1_000)
	}
	r.force(9_999, 1_000)
	if got := one[Cut](r); got.Refused != CutTooMany || got.ID != 9_999 {
		t.Fatalf("answered %+v", got)
	}
	if CutNoRoom.String() != "no_room" || CutRefusal(99).String() != "refusal 99" {
		t.Fatal("names of refusals")
	}
}

func TestWhoWaitsTooLongIsToldHowFarItGot(t *testing.T) {
	r := opened(t, testConfig, stored(), log(0, 110))
	r.do(Await{Stamp: r.stamp(), ID: 1, Next: 110, Until: r.now.Add(time.Second)})
	none[Answer](r)
	if got := one[Wake](r).At; got != r.now.Add(time.Second) {
		t.Fatalf("wakes at %s", got)
	}
	r.after(time.Second)
	if got := one[Answer](r); got != (Answer{ID: 1, Next: 100, Late: true}) || len(r.m.waiters) != 0 {
		t.Fatalf("answered %+v, %d wait", got, len(r.m.waiters))
	}
	r = newRig(t, testConfig) // the manifest is not known
	r.do(Start{Stamp: r.stamp()})
	r.do(Await{Stamp: r.stamp(), ID: 1, Next: 110, Until: r.now.Add(time.Second)})
	r.after(time.Second)
	if got := one[Answer](r); got != (Answer{ID: 1, Next: pos.NoOffset, Late: true}) {
		t.Fatalf("answered %+v", got)
	}
}
