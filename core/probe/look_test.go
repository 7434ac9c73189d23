package probe

import (
	"slices"
	"testing"
)

// Who asks for a look is told once whose the prefix is as of a round that began after that, be it
// one that was to come only in minutes, and whatever else that finds.
func TestALookIsAnswered(t *testing.T) {
	for _, c := range []struct {
		claim, probe Answer
		ours         bool
	}{
		{yes, yes, true}, {yes, denied, true}, {yes, unsure, true}, {yes, missing, true},
		{denied, yes, false}, {unsure, yes, false}, {foreign, yes, false}, {gone, yes, false},
	} {
		r := newRig(t)
		r.round(yes, yes, Admit{})
		r.now += minute
		asked, answered := 0, []Looked(nil)
		step := func(in Input) (probes bool) {
			t.Helper()
			for _, e := range r.m.Step(in, nil) {
				switch e := e.(type) {
				case Claim:
					r.try[Whose] = e.Try
					asked++
				case Probe:
					r.try[Whether], probes = e.Try, true
				case Looked:
					answered = append(answered, e)
				case Admit, Refuse, Suspect, Owned, Reclaimed, Away, Back, Drop, PutMarker, Restored, Wake, Note:
				}
			}
			if err := r.m.check(); err != nil {
				t.Fatal(err)
			}
			return probes
		}
		step(Look{Now: r.now, ID: 1})
		step(Look{Now: r.now, ID: 2}) // a round has begun before
		step(Look{Now: r.now, ID: 3})
		for round, want := range [][]Looked{{{1, c.ours}}, {{2, c.ours}, {3, c.ours}}} {
			questions := round + 1
			if round == 1 && c.claim.Verdict == Accessible && c.probe.Verdict.disowns() {
				questions++ // the second one is void
			}
			if len(answered) != 0 || asked != questions {
				t.Fatalf("%+v: round %d of %d, answered %+v too early", c, round, asked, answered)
			}
			probes := step(Claimed{Now: r.now, Try: r.try[Whose], Answer: c.claim})
			if !slices.Equal(answered, want) {
				t.Fatalf("%+v: answered %+v, want %+v", c, answered, want)
			}
			if answered = nil; probes {
				step(Probed{Now: r.now, Try: r.try[Whether], Answer: c.probe})
			}
		}
	}
}

// A prefix that is ours from the beginning is said to be so, also by a successor; one that was not
// ours in between is said to be ours again, and nothing else.
func TestThatItIsOursIsSaid(t *testing.T) {
	r := newRig(t)
	r.play(Start{Now: r.now}, Claim{})
	r.play(Claimed{Now: r.now, Answer: unsure}, Probe{})
	r.play(Probed{Now: r.now, Answer: yes})
	if r.owns != 0 {
		t.Fatal("it is not known")
	}
	r.round(yes, yes, Admit{})
	r.round(yes, yes)
	r.round(foreign, yes, Refuse{})
	r.round(yes, yes, Admit{}, Reclaimed{})
	if r.owns != 1 {
		t.Fatalf("said %d times", r.owns)
	}
	for _, c := range []struct {
		start Start
		want  int
	}{{Start{Owned: true}, 1}, {Start{Disowned: true}, 0}, {Start{Owned: true, Disowned: true}, 0}} {
		r = newRig(t)
		c.start.Now = r.now
		r.play(c.start, Claim{})
		if r.owns != c.want {
			t.Fatalf("%+v: said %d times", c.start, r.owns)
		}
	}
}
