package storemonitor

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/core/upload"
	"millrace/registry"
)

// asker stands for many replica readers that ask the gate whenever they are told of the store.
type asker struct {
	names       *registry.Registry
	gate        *Gate
	told, early atomic.Int64
}

// askers are so many that the first of them asks before the last one is told.
const askers = 50_000

func (a *asker) Init(c *actors.Context) error {
	for i := range askers {
		if n := (registry.Name{Kind: "replica_reader", ID: strconv.Itoa(i), Node: "n"}); !a.names.Register(c, n) {
			return fmt.Errorf("%s is taken", n)
		}
	}
	return nil
}

func (a *asker) Handle(_ *actors.Context, msg any) *actors.Reason {
	want := false
	switch msg.(type) {
	case upload.StoreOwned, upload.StoreReclaimed:
		want = true
	case upload.StoreDisowned:
	default:
		return nil
	}
	a.told.Add(1)
	if a.gate.Trusted() != want {
		a.early.Add(1)
	}
	return nil
}

func (a *asker) Terminate(*actors.Context, actors.Reason) {}

// Whoever is told of the store finds the gate moved already: one that starts meanwhile, and is not
// told, goes by the gate.
func TestTheGateMovesBeforeAnybodyIsTold(t *testing.T) {
	inBubble(t, func(b *bench) {
		a := &asker{names: b.names, gate: b.gate}
		if _, err := b.sys.Start(b.t.Context(), actors.Spec{Path: "askers", New: func() actors.Process { return a }}); err != nil {
			t.Fatal(err)
		}
		expect := func(what string, times int64) {
			t.Helper()
			synctest.Wait()
			if told, early := a.told.Swap(0), a.early.Swap(0); told != times*askers || early != 0 {
				t.Errorf("%s: %d are told, %d of them before the gate has moved", what, told, early)
			}
		}
		b.store.Latency = func(op, _ string) time.Duration {
			if op == "put" {
				return time.Second // until all have heard that one is under way
			}
			return 0
		}
		b.start()
		pass(time.Minute)
		expect("at the start", 1)
		b.store.Drop("p/cluster")
		b.restored()
		expect("when it is claimed before anybody noticed", 2)
		b.store.Drop("p/cluster")
		pass(5 * time.Minute)
		expect("when the marker is gone", 1)
		b.restored()
		expect("when it is claimed", 2)
	})
}
