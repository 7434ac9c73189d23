package supervision

import (
	"testing"
	"testing/synctest"
	"time"
)

// Restarts are remembered for as long as they count, however long the child lives.
func TestOldRestartsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(Flags{Intensity: 3, Period: 5 * time.Second})
		b.put(&kid{child: Child{ID: "w"}}, stateRunning)
		for range 100 {
			b.countRestart("w")
			<-time.After(2 * time.Second)
		}
		e, _ := b.entries.Load("w")
		if n := len(e.(*entry).restarts); n != 3 {
			t.Fatalf("%d restarts are remembered, of which 3 count", n)
		}
	})
}
