package probe

import (
	"slices"
	"testing"
)

// What fails elsewhere is a reason to look, but not more often than every few seconds; a round
// that is under way is enough.
func TestADoubtIsLookedAt(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.now += minute
	r.play(Doubt{Now: r.now}, Claim{})
	r.play(Doubt{Now: r.now})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
	r.now += second
	r.play(Doubt{Now: r.now})
	r.shows("yes", 4*second)
	r.play(Doubt{Now: r.now})
	r.round(yes, unsure)
	r.play(Doubt{Now: r.now})
	r.shows("unknown since 1970-01-01T00:02:05Z (timed out); yes before that", 5*second)
}

// Something was put: the owner is asked for soon, and nothing else if all is well.
func TestTheOwnerIsAskedForWhatWasPut(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Stored{Now: r.now})
	r.shows("yes", 10*second)
	r.begin()
	r.play(Stored{Now: r.now})
	r.play(Claimed{Now: r.now, Answer: yes})
	r.shows("yes", 10*second)
	r.now += second
	r.play(Stored{Now: r.now}) // no later for it
	r.shows("yes", 9*second)
	r.begin()
	r.play(Claimed{Now: r.now, Answer: unsure}, Probe{}) // a doubt, which wants all
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("unknown since 1970-01-01T00:01:20Z (timed out); yes before that", 5*second)
	r.play(Stored{Now: r.now})
	r.begin()
	r.play(Stored{Now: r.now})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 10*second) // for what was put meanwhile
	r.play(Doubt{Now: r.now + 5*second}, Claim{})
	r.now += 5 * second
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{}) // a doubt wants all
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
	r.round(yes, yes) // and so does the next one of the long interval, always
	r.play(Stored{Now: r.now})
	r.begin()
	r.play(Claimed{Now: r.now, Answer: yes})
	r.round(yes, yes)
	r.shows("yes", 5*minute)
}

// What is put while a round is under way, or waits for its answer, is looked at after that.
func TestWhatIsPutDuringARoundIsNotForgotten(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.begin()
	r.now += 8 * second
	r.play(Stored{Now: r.now})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.now += 8 * second
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 2*second) // the owner is known as of 8 s ago
	r.begin()
	r.play(Doubt{Now: r.now})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{}) // which wants all
	r.play(Probed{Now: r.now, Answer: yes})
	r.now -= minute // the clock is set back
	r.play(Stored{Now: r.now})
	r.shows("yes", 10*second)
}

// A brief round whose answer came late found the store in trouble: it ends with all questions.
func TestABriefRoundThatIsLateIsNone(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.play(Stored{Now: r.now})
	r.begin()
	r.now += 10 * second
	r.play(Tick{Now: r.now}, Claim{})
	r.shows("unknown since 1970-01-01T00:01:20Z (no answer within 10s); yes before that", 10*second)
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
}

// The clock is set back while a question is open: it is late all the same, by that clock.
func TestAQuestionIsLateAlthoughTheClockWasSetBack(t *testing.T) {
	r := newRig(t)
	r.now = 60 * minute
	r.play(Start{Now: r.now}, Claim{})
	r.now = minute
	r.play(Tick{Now: r.now})
	r.now += 10 * second
	r.play(Tick{Now: r.now}, Claim{})
	if s := r.m.Status(); s.UnsureSince == 0 {
		t.Fatalf("%s", s)
	}
}

// Those who wait are told when the store is away, and when it is well again, once each time.
func TestTheStoreIsAwayAndBack(t *testing.T) {
	r := newRig(t)
	backs, aways := []int{}, []int{}
	for _, a := range []Answer{unsure, yes, yes, unsure, unsure, yes, denied, unsure, denied, yes} {
		var effects []Effect
		if len(backs) == 1 {
			effects = []Effect{Admit{}}
		}
		claim := yes
		if len(backs) == 0 {
			claim = unsure
		}
		r.round(claim, a, effects...)
		backs, aways = append(backs, r.backs), append(aways, r.aways)
	}
	if want := []int{1, 1, 1, 2, 2, 2, 2, 3, 3, 3}; !slices.Equal(aways, want) {
		t.Fatalf("away %v, want %v", aways, want)
	}
	if want := []int{0, 1, 1, 1, 1, 2, 2, 2, 2, 3}; !slices.Equal(backs, want) {
		t.Fatalf("%v, want %v", backs, want)
	}
}
