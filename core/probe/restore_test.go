package probe

import (
	"testing"
	"time"
)

var tooLate = MarkerPut{Failed: true, Late: true}

// restored has an operator claim the prefix.
func (r *rig) restored(put bool, want ...Effect) {
	r.t.Helper()
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.play(MarkerPut{Now: r.now, Put: put}, append([]Effect{Restored{ID: 1, Put: put}}, want...)...)
}

// What an operator has claimed is looked at, after what is open.
func TestAClaimOfAnOperatorIsLookedAt(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.restored(false, Claim{})
	r.restored(false)
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes})
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
}

// The marker was not where the operator had it put, and nobody had noticed: it may be another
// store. One that was there tells nothing.
func TestAMarkerThatAnOperatorPutIsOfAnotherStore(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.restored(false, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.restored(true, Claim{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.play(Claimed{Now: r.now, Answer: yes}, Reclaimed{}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.round(yes, yes)
}

// put says that a marker was put, or may have been.
func (r *rig) put(m MarkerPut, want ...Effect) {
	r.t.Helper()
	m.Now = r.now
	r.play(m, want...)
}

// A marker whose answer does not come in time is put again, with what is left of the time: three
// times in all. That it was put counts, whichever try says so, and is known at once.
func TestAMarkerThatTakesLong(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: 3 * time.Minute})
	r.now += 20 * second
	r.put(MarkerPut{Put: true, Failed: true, Late: true}, PutMarker{Tries: 1, Within: 160 * time.Second})
	if !r.m.suspect {
		t.Error("a marker had to be put, and the store is taken for the one that it was")
	}
	r.now += 40 * second
	r.put(tooLate, PutMarker{Tries: 2, Within: 2 * time.Minute})
	r.put(MarkerPut{}, Restored{ID: 1, Put: true}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Reclaimed{}, Probe{})
	r.put(MarkerPut{Put: true}) // of nothing
	if r.m.suspect {
		t.Error("what nobody asked for counts")
	}

	r = newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.put(tooLate, PutMarker{Tries: 1, Within: GiveUp})
	r.put(tooLate, PutMarker{Tries: 2, Within: GiveUp})
	r.put(tooLate, Restored{ID: 1, Failed: true}, Claim{})
	r.play(Restore{Now: r.now, ID: 2}, Suspect{}, PutMarker{Within: GiveUp}) // from the beginning
	r.put(MarkerPut{Failed: true}, Restored{ID: 2, Failed: true})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes})
	r.play(Probed{Now: r.now, Answer: yes})
	r.play(Restore{Now: r.now, ID: 3}, Suspect{}, PutMarker{Within: GiveUp})
	r.now += 180*second - 1
	r.put(tooLate, PutMarker{Tries: 1, Within: time.Millisecond})
	r.now++
	r.put(tooLate, Restored{ID: 3, Failed: true}, Claim{})
}

// While a marker is put the one that is found tells nothing of the store: it may be that one. What it
// is is told behind the last try, also where nothing had to be put.
func TestWhatIsFoundWhileAMarkerIsPut(t *testing.T) {
	for _, put := range []bool{false, true} {
		r := newRig(t)
		r.play(Start{Now: r.now}, Claim{})
		r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
		r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Probe{})
		r.play(Probed{Now: r.now, Answer: yes})
		if r.owns != 0 {
			t.Fatal("said to be ours")
		}
		r.put(MarkerPut{Put: put}, Restored{ID: 1, Put: put}, Claim{})
		want := []Effect{Probe{}}
		if put {
			want = []Effect{Reclaimed{}, Probe{}}
		}
		r.play(Claimed{Now: r.now, Answer: yes}, want...)
		if (r.owns == 1) == put {
			t.Fatalf("said to be ours %d times", r.owns)
		}
	}
}

// Who asks while the marker is put is told what that comes to.
func TestTwoOperatorsAtOnce(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.play(Restore{Now: r.now, ID: 2})
	r.put(MarkerPut{Put: true}, Restored{ID: 1, Put: true}, Restored{ID: 2, Put: true}, Claim{})
	r.play(Restore{Now: r.now, ID: 3}, Suspect{}, PutMarker{Within: GiveUp})
	r.put(MarkerPut{}, Restored{ID: 3})
}

// A clock that is set back gives the tries no more time than they had.
func TestTheClockIsSetBackWhileAMarkerIsPut(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.now -= 2 * minute
	r.put(tooLate, PutMarker{Tries: 1, Within: GiveUp})
}
