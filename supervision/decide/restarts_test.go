package decide

import (
	"testing"
	"time"
)

// The period is closed at both ends: a restart counts for exactly so long.
func TestRestartsWithinThePeriod(t *testing.T) {
	m, err := New(Flags{Intensity: 2, Period: time.Second}, []Spec{{ID: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	m.Step(Boot{}, 0, nil)
	m.Step(Started{ID: "w", Incarnation: 1}, 0, nil)
	const at = 5 * time.Second
	m.Step(Exited{Incarnation: 1, Abnormal: true}, at, nil)
	m.Step(Started{ID: "w", Incarnation: 2}, at, nil)
	for after, want := range map[time.Duration]int{0: 1, time.Second: 1, time.Second + time.Millisecond: 0} {
		if got := m.Restarts(at + after); got != want {
			t.Errorf("%v after a restart %d count, want %d", after, got, want)
		}
	}
}

// A supervisor that leaves parks nobody: whoever starts it anew starts its children too.
func TestNobodyIsParkedByASupervisorThatLeaves(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		flags := Flags{AutoShutdown: AnySignificant}
		m, err := New(flags, []Spec{{ID: "last", Restart: Temporary, Significant: true}, {ID: "gives up", Restart: Temporary, Kind: Supervisor}})
		if err != nil {
			t.Fatal(err)
		}
		m.Step(Boot{}, 0, nil)
		m.Step(Started{ID: "last", Incarnation: 1}, 0, nil)
		m.Step(Started{ID: "gives up", Incarnation: 2}, 0, nil)
		if leaving {
			m.Step(Exited{Incarnation: 1}, 0, nil)
		}
		parked := false
		for _, a := range m.Step(Exited{Incarnation: 2, GaveUp: true}, 0, nil) {
			r, is := a.(Report)
			parked = parked || is && r.Kind == ChildParked
		}
		if parked == leaving {
			t.Errorf("leaving %v: parked %v", leaving, parked)
		}
	}
}
