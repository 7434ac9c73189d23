package probe

import (
	"slices"
	"testing"
	"time"

	"millrace/core/pos"
)

var tooLate = MarkerPut{Failed: true, Late: true}

// restored has an operator claim the prefix.
func (r *rig) restored(put bool, want ...Effect) {
	r.t.Helper()
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.play(MarkerPut{Now: r.now, Put: put}, append([]Effect{Restored{ID: 1, Put: put}}, want...)...)
}

// What an operator has claimed is looked at, in place of what is open.
func TestAClaimOfAnOperatorIsLookedAt(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.restored(false, Claim{})
	r.restored(false, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
}

// The marker was not where the operator had it put, and nobody had noticed: it may be another
// store. One that was there tells nothing.
func TestAMarkerThatAnOperatorPutIsOfAnotherStore(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.restored(false, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Probe{})
	r.restored(true, Claim{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Reclaimed{}, Probe{})
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
	r.now += 4 * second
	r.put(MarkerPut{Put: true, Failed: true, Late: true}, PutMarker{Tries: 1, Within: 176 * time.Second})
	if !r.m.suspect {
		t.Error("a marker had to be put, and the store is taken for the one that it was")
	}
	r.put(tooLate, PutMarker{Tries: 2, Within: 176 * time.Second})
	r.put(MarkerPut{}, Restored{ID: 1, Put: true}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Reclaimed{}, Probe{})
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
	r.put(MarkerPut{Failed: true}, Restored{ID: 2, Failed: true}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})

	r.play(Restore{Now: r.now, ID: 3}, Suspect{}, PutMarker{Within: GiveUp})
	for at, want := range map[pos.Millis]time.Duration{180*second - 1: time.Millisecond, 180 * second: 0} {
		m, left := *r.m, time.Duration(0)
		for _, e := range m.Step(MarkerPut{Now: r.now + at, Failed: true, Late: true}, nil) {
			if again, ok := e.(PutMarker); ok {
				left = again.Within
			}
		}
		if left != want {
			t.Errorf("after %d ms the next try has %s", at, left)
		}
	}
}

// While a marker is put the one that is found tells nothing of the store: it may be that one, and
// nothing is let in. What it is is told behind the last try, also where nothing had to be put.
func TestWhatIsFoundWhileAMarkerIsPut(t *testing.T) {
	for _, put := range []bool{false, true} {
		r := newRig(t)
		r.play(Start{Now: r.now}, Claim{})
		r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
		r.play(Look{Now: r.now, ID: 7})
		r.play(Claimed{Now: r.now, Answer: yes}, Probe{}, Claim{}) // the second one for the look
		r.play(Claimed{Now: r.now, Answer: yes})
		r.play(Probed{Now: r.now, Answer: yes})
		if s := r.m.Status(); r.owns != 0 || s.Owned || s.Definite() || !slices.Equal(r.looked, []Looked{{ID: 7}}) {
			t.Fatalf("said to be ours: %s, %v", s, r.looked)
		}
		r.put(MarkerPut{Put: put}, Restored{ID: 1, Put: put}, Claim{})
		want := []Effect{Admit{}, Probe{}}
		if put {
			want = []Effect{Admit{}, Reclaimed{}, Probe{}}
		}
		r.play(Claimed{Now: r.now, Answer: yes}, want...)
		if (r.owns == 1) == put {
			t.Fatalf("said to be ours %d times", r.owns)
		}
	}
}

// What was asked before the last try ended is void: it may be the answer of the store that was. Who
// waits for it waits for what is asked behind.
func TestWhatWasAskedBeforeAMarkerWasPut(t *testing.T) {
	for _, during := range []bool{false, true} {
		r := newRig(t)
		r.round(yes, yes, Admit{})
		r.play(Look{Now: r.now, ID: 7}, Claim{})
		if during {
			r.play(Claimed{Now: r.now, Answer: unsure}, Probe{})
		}
		r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
		if during {
			r.play(Look{Now: r.now, ID: 8}, Claim{})
		}
		old := r.try[Whose]
		r.put(MarkerPut{Failed: true}, Restored{ID: 1, Failed: true}, Claim{})
		r.play(Claimed{Now: r.now, Try: old, Answer: yes})
		if s := r.m.Status(); s.Owned || len(r.looked) != map[bool]int{true: 1}[during] {
			t.Fatalf("%s, looked at %v", s, r.looked)
		}
		r.play(Claimed{Now: r.now, Answer: foreign}, Refuse{})
		if n := len(r.looked); r.looked[n-1].Ours || n != map[bool]int{false: 1, true: 2}[during] {
			t.Fatalf("looked at %v", r.looked)
		}
	}
}

// A claim that comes to nothing in a store without a marker leaves it refused for that, and not for
// the claim.
func TestAClaimThatComesToNothing(t *testing.T) {
	r := newRig(t)
	r.round(gone, yes, Refuse{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.put(MarkerPut{Failed: true}, Restored{ID: 1, Failed: true}, Claim{})
	r.play(Claimed{Now: r.now, Answer: gone}, Refuse{})
	r.shows("no (the cluster's marker is missing): no marker", 5*second)
}

// Who asks while the marker is put is told what that comes to.
func TestTwoOperatorsAtOnce(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.play(Restore{Now: r.now, ID: 2})
	r.put(MarkerPut{Put: true}, Restored{ID: 1, Put: true}, Restored{ID: 2, Put: true}, Claim{})
	r.play(Restore{Now: r.now, ID: 3}, Suspect{}, PutMarker{Within: GiveUp})
	r.put(MarkerPut{}, Restored{ID: 3}, Claim{})
}

// A clock that is set back gives the tries no more time than they had.
func TestTheClockIsSetBackWhileAMarkerIsPut(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Restore{Now: r.now, ID: 1}, Suspect{}, PutMarker{Within: GiveUp})
	r.now -= 2 * minute
	r.put(tooLate, PutMarker{Tries: 1, Within: GiveUp})
}
