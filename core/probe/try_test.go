package probe

import (
	"slices"
	"strings"
	"testing"
)

var late = Answer{Verdict: Unsure, Why: "timed out", Late: true}

// hangs begins a round whose first question is not answered, and puts it so many times.
func (r *rig) hangs(tries int) {
	r.t.Helper()
	r.round(yes, yes, Admit{})
	r.begin()
	for range tries - 1 {
		if r.wake != r.now+10*second {
			r.t.Fatalf("woken in %d ms", r.wake-r.now)
		}
		r.play(Tick{Now: r.wake - 1}) // not yet
		r.now = r.wake
		r.play(Tick{Now: r.now}, Claim{})
	}
}

// A question that is not answered is put again every ten seconds, for three minutes; the store is
// away from the first of them on. However it is answered after that, it is.
func TestAQuestionThatHangs(t *testing.T) {
	r := newRig(t)
	r.hangs(18)
	if s := r.m.Status().String(); s != "unknown since 1970-01-01T00:06:10Z (no answer within 10s); yes before that" || r.aways != 1 {
		t.Fatal(s, r.aways)
	}
	r.wake = 0
	r.play(Tick{Now: r.now + 30*minute}) // no more of them, and no other round
	if r.wake != 0 {
		t.Fatalf("woken at %s", r.wake)
	}
	r.now += 30 * minute
	for range 17 {
		r.play(Claimed{Now: r.now, Answer: late})
	}
	r.play(Claimed{Now: r.now, Answer: late}, Probe{})
	r.play(Probed{Now: r.now, Answer: late})
	r.shows("unknown since 1970-01-01T00:06:10Z (timed out); yes before that", 5*second)
}

// The first answer counts, to whichever try; the others are dropped, and their ends are none, not
// of the next question either.
func TestTheFirstAnswerCounts(t *testing.T) {
	for _, answered := range []Try{3, 4, 5} { // the first round had two questions
		r := newRig(t)
		r.hangs(3)
		r.play(Claimed{Now: r.now, Try: answered, Answer: yes}, Probe{})
		for try := Try(3); try <= 5; try++ {
			r.play(Claimed{Now: r.now, Try: try, Answer: foreign})
		}
		r.play(Probed{Now: r.now, Answer: yes})
		r.shows("yes", 5*minute)
		r.begin()
		for try := Try(3); try <= 5; try++ {
			r.play(Claimed{Now: r.now, Try: try, Answer: foreign})
		}
		r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	}
}

// A try whose time was over is no answer while another is open. A store that says no at last says
// it for all.
func TestATryThatIsLateIsNoAnswer(t *testing.T) {
	r := newRig(t)
	r.hangs(3)
	r.play(Claimed{Now: r.now, Try: 4, Answer: late})
	r.play(Claimed{Now: r.now, Try: 3, Answer: late})
	r.play(Claimed{Now: r.now, Try: 5, Answer: unsure}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	if s := r.m.Status().String(); !strings.HasPrefix(s, "unknown since 1970-01-01T00:06:10Z (timed out)") {
		t.Fatal(s)
	}
	r = newRig(t)
	r.hangs(3)
	r.play(Claimed{Now: r.now, Try: 4, Answer: unsure}, Probe{}) // which has failed, and is not late
}

// The second question of a round has a time of its own, and tries of its own.
func TestTheSecondQuestionHangs(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.begin()
	r.now += 3 * second
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.now = r.wake
	r.play(Tick{Now: r.now}, Probe{})
	r.shows("unknown since 1970-01-01T00:06:13Z (no answer within 10s); yes before that", 5*second)
	r.begin()
	r.play(Claimed{Now: r.now, Try: 3, Answer: foreign}) // of the round before
	r.play(Probed{Now: r.now, Try: 4, Answer: late})
	r.play(Claimed{Now: r.now, Answer: yes})
	r.now = r.wake
	r.play(Tick{Now: r.now}, Probe{}, Claim{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{}) // of the next round
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
}

// A bucket that is found to be gone makes void what was asked before: that does not open the gate
// again, and who waits for a look is told by a new one.
func TestAnAnswerToAnEarlierQuestionIsVoid(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.begin()
	r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	r.play(Look{Now: r.now, ID: 1}, Claim{})
	early := r.try[Whose]
	r.play(Probed{Now: r.now, Answer: missing}, Refuse{}, Claim{})
	r.play(Claimed{Now: r.now, Try: early, Answer: yes})
	if r.m.Owned() || len(r.looked) != 0 {
		t.Fatalf("owned %v, told %v", r.m.Owned(), r.looked)
	}
	r.play(Claimed{Now: r.now, Answer: denied}, Probe{})
	if !slices.Equal(r.looked, []Looked{{ID: 1}}) {
		t.Fatalf("told %v", r.looked)
	}
}

// A question is not put again behind its time, as after a machine has slept.
func TestAQuestionWhoseTimeIsOverIsNotPutAgain(t *testing.T) {
	r := newRig(t)
	r.hangs(2)
	r.now += 10 * minute
	r.play(Tick{Now: r.now})
	r.play(Claimed{Now: r.now, Try: 3, Answer: late})
	r.play(Claimed{Now: r.now, Try: 4, Answer: late}, Probe{})
}

// A store that needs long for a write says meanwhile whose it is: when something is stored, when
// somebody asks, and when it is no more ours.
func TestTheOwnerIsAskedForWhileAWriteHangs(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	hang := func() {
		r.begin()
		r.play(Claimed{Now: r.now, Answer: yes}, Probe{})
	}
	hang()
	r.play(Stored{Now: r.now + second})
	r.shows("yes", 10*second)
	r.now = r.wake
	r.play(Tick{Now: r.now}, Probe{}, Claim{}) // which is put again by now as well
	r.play(Claimed{Now: r.now, Answer: unsure})
	r.play(Probed{Now: r.now, Answer: yes}) // the last word on the owner counts
	r.shows("unknown since 1970-01-01T00:06:10Z (timed out); yes before that", 5*second)
	r.round(yes, yes)
	hang()
	r.now += second
	r.play(Look{Now: r.now, ID: 1}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes})
	if !slices.Equal(r.looked, []Looked{{ID: 1, Ours: true}}) {
		t.Fatalf("said %+v", r.looked)
	}
	r.now = r.wake
	r.play(Tick{Now: r.now}, Probe{})
	r.begin()
	r.play(Claimed{Now: r.now, Answer: gone}, Refuse{})
	if r.open != [2]int{} {
		t.Fatalf("open are %v", r.open)
	}
	r.play(Probed{Now: r.now, Answer: yes}) // it is void
	r.shows("no (the cluster's marker is missing): no marker", 5*second)
}
