package probe

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"millrace/core/pos"
)

const (
	second = pos.Millis(1000)
	minute = 60 * second
)

var (
	yes     = Answer{Verdict: Accessible}
	unsure  = Answer{Verdict: Unsure, Why: "timed out"}
	denied  = Answer{Verdict: Denied, Why: "403"}
	missing = Answer{Verdict: NoBucket, Why: "404"}
	foreign = Answer{Verdict: Foreign, Why: "another's", Owner: "00000000000000aa"}
	gone    = Answer{Verdict: Unmarked, Why: "no marker"}
	damaged = Answer{Verdict: Damaged, Why: "marker?"}
)

type rig struct {
	t     testing.TB
	m     *Machine
	try   [Whether + 1]Try // the last one at each question
	open  [Whether + 1]int // tries
	now   pos.Millis
	wake  pos.Millis
	notes []string // states told of
	backs int      // times that the store was said to be well again
	owns  int      // times that it was said to be ours
	aways int      // and not to be, as of UnsureSince

	looked []Looked
}

func newRig(t testing.TB) *rig { return &rig{t: t, m: New(0), now: minute} }

// play steps and demands the effects, but for the wake and the notes, which are kept. An answer
// is to the last try, unless it says to which.
func (r *rig) play(in Input, want ...Effect) {
	r.t.Helper()
	if to, ok := in.(Claimed); ok {
		to.Try = cmp.Or(to.Try, r.try[Whose])
		in = to
	}
	if to, ok := in.(Probed); ok {
		to.Try = cmp.Or(to.Try, r.try[Whether])
		in = to
	}
	var got []Effect
	for _, e := range r.m.Step(in, nil) {
		switch e := e.(type) {
		case Wake:
			if r.wake = e.At; r.wake <= r.m.now {
				r.t.Fatalf("%+v: wants to be woken at %s, it is %s", in, e.At, r.m.now)
			}
		case Note:
			r.notes = append(r.notes, e.Status.String())
		case Back:
			r.backs++
		case Away:
			r.aways++
			if s := r.m.Status(); e.Since != s.UnsureSince || e.Why != s.UnsureWhy {
				r.t.Fatalf("%+v of %+v", e, s)
			}
		case Claim:
			got = append(got, r.within(Whose, e.Try, e.Within, Claim{}))
		case Probe:
			got = append(got, r.within(Whether, e.Try, e.Within, Probe{}))
		case Drop:
			r.open[e.Question] = 0
		case Looked:
			r.looked = append(r.looked, e)
		case Owned:
			r.owns++
		case Admit, Refuse, Suspect, Reclaimed, PutMarker, Restored:
			got = append(got, e)
		}
	}
	if err := r.m.check(); err != nil {
		r.t.Fatalf("after %+v: %v", in, err)
	}
	for q, open := range r.open {
		if open > 0 && !r.m.open(Question(q)) {
			r.t.Fatalf("after %+v: %d tries are left open", in, open)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%+v: got %#v, want %#v", in, got, want)
	}
}

// within keeps what try it is, and demands that it has the question's time, or what is left of it
// beside others.
func (r *rig) within(q Question, try Try, within time.Duration, e Effect) Effect {
	r.t.Helper()
	if within <= 0 || within > GiveUp || within == GiveUp && r.open[q] > 0 {
		r.t.Fatalf("try %d has %s beside %d others", try, within, r.open[q])
	}
	r.try[q] = try
	r.open[q]++
	return e
}

// begin goes to the next round, which asks whose the store is first.
func (r *rig) begin() {
	r.t.Helper()
	r.now = r.wake
	r.play(Tick{Now: r.now}, Claim{})
}

// round goes to the next round and answers it. after is what the claim leads to.
func (r *rig) round(claim, answer Answer, after ...Effect) {
	r.t.Helper()
	if r.wake == 0 {
		r.play(Start{Now: r.now}, Claim{})
	} else {
		r.begin()
	}
	if claim.Verdict.disowns() {
		r.play(Claimed{Now: r.now, Answer: claim}, after...)
		return
	}
	r.play(Claimed{Now: r.now, Answer: claim}, append(after, Probe{})...)
	r.play(Probed{Now: r.now, Answer: answer})
}

// shows demands what the operator sees, and when the next round is.
func (r *rig) shows(want string, next pos.Millis) {
	r.t.Helper()
	if s := r.m.Status(); s.String() != want || r.wake-r.now != next {
		r.t.Fatalf("shows %q, the next round in %d ms: want %q, %d", s, r.wake-r.now, want, next)
	}
}

func TestTheFirstRoundOpensTheGate(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.shows("yes", 5*minute)
	r.round(yes, yes)
	r.shows("yes", 5*minute)
	if len(r.notes) != 1 {
		t.Errorf("noted %q: transitions only", r.notes)
	}
}

// Every definite answer, from every other one: what is shown, when the next round is, and
// whether something may be put.
func TestDefiniteAnswers(t *testing.T) {
	words := map[Verdict]string{
		Accessible: "yes", NoBucket: "no (bucket does not exist): 404", Denied: "no (access denied): 403",
		Foreign: "no (owned by cluster 00000000000000aa): another's", Unmarked: "no (the cluster's marker is missing): no marker",
		Damaged: "no (the cluster's marker is damaged): marker?",
	}
	all := []Answer{yes, missing, denied, foreign, gone, damaged}
	for _, before := range all {
		for _, after := range all {
			r := newRig(t)
			r.round(before, before, first(before)...)
			wasOwned := r.m.Owned()
			var effects []Effect
			if after.Verdict == Accessible && !wasOwned {
				effects = []Effect{Admit{}}
				if before.Verdict.disowns() {
					effects = []Effect{Admit{}, Reclaimed{}}
				}
			}
			if after.Verdict.disowns() && before.Verdict != after.Verdict {
				effects = []Effect{Refuse{}}
			}
			r.round(after, after, effects...)
			next := 5 * minute
			if after.Verdict != Accessible {
				next = 5 * second // until it is well
			}
			r.shows(words[after.Verdict], next)
			if owned := after.Verdict == Accessible || wasOwned && !after.Verdict.disowns(); r.m.Owned() != owned {
				t.Errorf("%v then %v: owned %v", before, after, r.m.Owned())
			}
			state := StateNo
			if after.Verdict == Accessible {
				state = StateYes
			}
			if s := r.m.Status(); s.State != state || s.Why != after.Why {
				t.Errorf("%v then %v: %+v", before, after, s)
			}
		}
	}
}

func first(a Answer) []Effect {
	switch a.Verdict {
	case Accessible:
		return []Effect{Admit{}}
	case NoBucket, Foreign, Unmarked, Damaged:
		return []Effect{Refuse{}}
	case Unsure, Denied:
	}
	return nil
}

// A failure that says nothing takes back neither a yes nor a no, nor the ownership.
func TestUnsureLeavesTheState(t *testing.T) {
	r := newRig(t)
	r.round(unsure, unsure)
	r.shows("unknown since 1970-01-01T00:01:00Z (timed out)", 5*second)
	if r.m.Owned() || r.m.Status().State != StateUnknown {
		t.Fatalf("%+v", r.m.Status())
	}
	r.round(yes, yes, Admit{})
	r.shows("yes", 5*minute)
	r.round(unsure, unsure)
	r.shows("unknown since 1970-01-01T00:06:05Z (timed out); yes before that", 5*second)
	if s := r.m.Status(); !r.m.Owned() || s.State != StateYes {
		t.Fatalf("%+v", s)
	}
	r.round(unsure, yes) // the store answers, its marker can't be read
	r.shows("unknown since 1970-01-01T00:06:05Z (timed out); yes before that", 5*second)
	r.round(yes, denied)
	r.shows("no (access denied): 403", 5*second)
	r.round(unsure, denied)
	r.shows("no (access denied): 403", 5*second)
	if want := 4; len(r.notes) != want {
		t.Errorf("noted %q, want %d transitions", r.notes, want)
	}
}

// A store that answers and refuses the marker is not accessible.
func TestAClaimThatIsRefusedCounts(t *testing.T) {
	r := newRig(t)
	r.round(denied, yes)
	r.shows("no (access denied): 403", 5*second)
	r.round(missing, missing, Refuse{})
	r.shows("no (bucket does not exist): 404", 5*second)
}

// The prefix becomes another cluster's after it was ours, and ours again.
func TestAnotherOwnerComesAndGoes(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.round(foreign, yes, Refuse{})
	r.shows("no (owned by cluster 00000000000000aa): another's", 5*second)
	r.round(foreign, yes)
	r.round(unsure, yes)
	r.shows("unknown since 1970-01-01T00:06:10Z (timed out); no (owned by cluster 00000000000000aa) before that", 5*second)
	if r.m.Owned() {
		t.Fatal("owned")
	}
	other := foreign
	other.Owner = "00000000000000bb"
	r.round(other, yes, Refuse{})
	r.round(yes, unsure, Admit{}, Reclaimed{})
	if s := r.m.Status(); s.Owner != "" || s.State != StateUnknown || !s.Owned {
		t.Fatalf("%+v", s)
	}
	r.round(yes, yes)
	r.shows("yes", 5*minute)
}

// What an earlier monitor found out is not asked for again before anything may be put.
func TestAnIncarnationThatStartsOwned(t *testing.T) {
	r := newRig(t)
	r.play(Start{Now: r.now, Owned: true}, Claim{})
	r.play(Claimed{Now: r.now, Answer: unsure}, Probe{})
	r.play(Probed{Now: r.now, Answer: unsure})
	if !r.m.Owned() {
		t.Fatal("not owned")
	}
	r.round(foreign, yes, Refuse{})
}

// Before the first answer, however long it takes, that it is missing is the reason.
func TestNoAnswerYetIsAReason(t *testing.T) {
	r := newRig(t)
	r.play(Start{Now: r.now}, Claim{})
	if s := r.m.Status().String(); s != "unknown since 1970-01-01T00:01:00Z (it has not answered yet)" {
		t.Fatal(s)
	}
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	r.shows("yes", 5*minute)
}

// The marker goes while the prefix is ours, is damaged, and comes back: the gate closes, and
// each change is told; it is looked at every few seconds until it is back.
func TestTheMarkerGoesAndComes(t *testing.T) {
	r := newRig(t)
	r.round(yes, yes, Admit{})
	r.round(gone, yes, Refuse{})
	r.shows("no (the cluster's marker is missing): no marker", 5*second)
	r.round(gone, yes)
	r.round(unsure, unsure)
	r.shows("unknown since 1970-01-01T00:06:10Z (timed out); no (the cluster's marker is missing) before that", 5*second)
	if r.m.Owned() {
		t.Fatal("owned")
	}
	r.round(gone, yes)
	r.round(damaged, yes, Refuse{})
	r.shows("no (the cluster's marker is damaged): marker?", 5*second)
	r.round(yes, yes, Admit{}, Reclaimed{})
	r.shows("yes", 5*minute)
	if want := 6 + 1; len(r.notes) != want { // the marker is ours before the store is known to take a write
		t.Errorf("noted %d: %q", len(r.notes), r.notes)
	}
}

// A successor of a monitor that found the prefix not to be ours tells that it is again.
func TestAnIncarnationThatStartsDisowned(t *testing.T) {
	r := newRig(t)
	r.play(Start{Now: r.now, Disowned: true}, Claim{})
	r.play(Claimed{Now: r.now, Answer: yes}, Admit{}, Reclaimed{}, Probe{})
}

func TestTheClockIsSetBack(t *testing.T) {
	r := newRig(t)
	r.now = 600 * minute
	r.round(unsure, unsure)
	r.play(Tick{Now: minute})
	if r.wake != minute+5*second {
		t.Fatalf("woken at %d", r.wake)
	}
}

// An interval that is shorter than the pause after a failure is that pause, too.
func TestAShortInterval(t *testing.T) {
	r := newRig(t)
	r.m = New(2 * time.Second)
	r.round(yes, yes, Admit{})
	r.shows("yes", 2*second)
	r.round(denied, denied)
	r.shows("no (access denied): 403", 2*second)
}
