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
