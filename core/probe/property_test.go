package probe

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

// tries are open ones.
type tries []Effect

func questionOf(put Effect) Question {
	if _, ok := put.(Claim); ok {
		return Whose
	}
	return Whether
}

func (o tries) at(q Question) bool {
	return slices.ContainsFunc(o, func(put Effect) bool { return questionOf(put) == q })
}

// Whatever is answered in whatever order and at whatever time: the invariants hold, the gate is open exactly if the last word on the owner was
// ours, a definite state only changes by a definite answer, and the same inputs give the
// same effects.
func TestPropertiesAndDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := New(0), New(0)
		now, wake := minute, pos.Millis(0)
		var open tries
		admitted, ours := false, false
		looked := map[uint64]int{}   // answers that are missing
		restored := map[uint64]int{} // likewise, of those who had the marker put
		putting := 0
		other := false // it was not ours for a while, or had no marker
		step := func(in Input) {
			before := m.Status()
			out := m.Step(in, nil)
			if again := twin.Step(in, nil); !reflect.DeepEqual(out, again) {
				t.Fatalf("%+v: %+v and %+v", in, out, again)
			}
			if err := m.check(); err != nil {
				t.Fatalf("after %+v: %v", in, err)
			}
			noted := false
			for _, e := range out {
				switch e := e.(type) {
				case Claim, Probe:
					open = append(open, e)
				case Drop:
					open = slices.DeleteFunc(open, func(put Effect) bool { return questionOf(put) == e.Question })
				case Admit:
					admitted = true
				case Refuse:
					admitted = false
				case Wake:
					wake = e.At
				case Note:
					noted = true
				case Suspect:
					admitted, ours = false, false
				case Owned:
					if !ours || other || putting > 0 {
						t.Fatalf("said to be ours: ours %v, other %v", ours, other)
					}
				case Looked:
					if looked[e.ID]--; looked[e.ID] != 0 {
						t.Fatalf("%d is told twice, or did not ask", e.ID)
					}
					if e.Ours && !ours {
						t.Fatal("looked at, and said to be ours")
					}
				case PutMarker:
					if putting++; putting > 1 || e.Within <= 0 || e.Within > GiveUp || e.Tries >= RestoreTries {
						t.Fatalf("%d puts at once: %+v", putting, e)
					}
				case Restored:
					if restored[e.ID]--; restored[e.ID] != 0 {
						t.Fatalf("%d is told twice, or did not ask", e.ID)
					}
				case Reclaimed:
					if !ours || !other || putting > 0 {
						t.Fatalf("said to be another store: ours %v, other %v", ours, other)
					}
					other = false
				case Away:
					if m.Status().UnsureSince == 0 || before.UnsureSince != 0 {
						t.Fatalf("said to be away: %s, before %s", m.Status(), before)
					}
				case Back:
					if !m.Status().well() || before.well() {
						t.Fatalf("said to be back: %s, before %s", m.Status(), before)
					}
				}
			}
			if admitted != ours {
				t.Fatalf("admitted %v, ours %v", admitted, ours)
			}
			after := m.Status()
			if before.Verdict != after.Verdict && !noted {
				t.Fatalf("%s became %s and nobody was told", before, after)
			}
		}
		step(Start{Now: now})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "time") {
			case 0:
				now = max(now, wake)
			case 1:
				now += pos.Millis(rapid.Int64Range(0, int64(10*minute)).Draw(t, "jump"))
			case 2:
				now = max(1, now-pos.Millis(rapid.Int64Range(0, int64(minute)).Draw(t, "back")))
			}
			answer := rapid.SampledFrom([]Answer{yes, unsure, late, denied, missing, foreign, gone, damaged}).Draw(t, "answer")
			put, ended := Effect(nil), 0
			if len(open) > 0 {
				ended = rapid.IntRange(0, len(open)-1).Draw(t, "try")
				put = open[ended]
			}
			switch {
			case rapid.IntRange(0, 5).Draw(t, "look") == 0:
				id := uint64(len(looked) + len(restored))
				if restored[id] = 1; rapid.Bool().Draw(t, "not alone") {
					restored[id+1] = 1
					step(Restore{Now: now, ID: id + 1})
				}
				step(Restore{Now: now, ID: id})
			case putting > 0:
				putting--
				in := MarkerPut{Now: now, Put: rapid.Bool().Draw(t, "put"), Failed: rapid.Bool().Draw(t, "failed")}
				in.Late = in.Failed && rapid.Bool().Draw(t, "late")
				other = other || in.Put
				before := len(restored)
				step(in)
				if len(restored) < before && !open.at(Whose) {
					t.Fatal("a look that was asked for does not begin")
				}
			case rapid.IntRange(0, 5).Draw(t, "doubt") == 0:
				step(Doubt{Now: now})
			case rapid.IntRange(0, 5).Draw(t, "asks") == 0:
				id := uint64(len(looked))
				looked[id]++
				step(Look{Now: now, ID: id})
			case rapid.IntRange(0, 5).Draw(t, "stored") == 0:
				step(Stored{Now: now})
				if !m.open(Whose) && m.next > now+10*second {
					t.Fatalf("whose it is is asked in %s", m.next.Sub(now))
				}
			case put == nil || rapid.IntRange(0, 2).Draw(t, "input") == 0:
				step(Tick{Now: now})
			default:
				open = slices.Delete(open, ended, ended+1)
				counts := !answer.Late || !open.at(questionOf(put))
				if probe, ok := put.(Probe); ok {
					if answer.Verdict.disowns() {
						answer = missing // the others only a claim finds
						ours, other = false, true
					}
					step(Probed{Now: now, Try: probe.Try, Answer: answer})
					continue
				}
				if counts {
					ours = answer.Verdict == Accessible && putting == 0 || ours && !answer.Verdict.disowns()
					other = other || answer.Verdict.disowns()
				}
				step(Claimed{Now: now, Try: put.(Claim).Try, Answer: answer})
				if ours && other && answer.Verdict == Accessible && putting == 0 {
					t.Fatal("nobody is told that it may be another store")
				}
			}
		}
	})
}
