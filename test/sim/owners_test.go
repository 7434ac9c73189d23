package sim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/node"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/settings"
)

// TestAHangingDiskIsWaitedFor: the stop of a stream's log, and that of the node, wait for a
// write that the disk takes longer over than any worker gets to stop. Abandoned, its writer
// would go on writing beside its successor.
func TestAHangingDiskIsWaitedFor(t *testing.T) {
	const hang = 8 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		_, n := calmWorld(t, func(w *world, _ *settings.Settings, _ *node.Ports) {
			w.disk.Fault = func(op, _ string) error {
				if op == "sync" && hangs.Load() {
					time.Sleep(hang)
				}
				return nil
			}
		})
		st, err := n.CreateStream(context.Background(), "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		writer := process(t, n, "node/log/"+st.ID+"/writer")
		hangs.Store(true)
		answer := make(chan any, 1)
		go func() {
			a, err := writer.Call(context.Background(), segment.Append{ExpectNext: pos.NoOffset, Records: []segment.Record{{Body: []byte("x")}}})
			if err != nil {
				a = err
			}
			answer <- a
		}()
		time.Sleep(time.Second)
		began := time.Now()
		hangs.Store(false) // the next one is quick
		stopNode(t, n)
		if took := time.Since(began); took < hang-2*time.Second || took > hang {
			t.Errorf("the stop took %v", took)
		}
		if a := <-answer; a != any(segment.Appended{First: 0, Next: 1}) {
			t.Errorf("what was being written is answered with %v", a)
		}
		if writer.Zombie() {
			t.Error("the writer was abandoned")
		}
	})
}
