package reaper

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/collect"
	"millrace/core/pos"
	"millrace/registry"
	"millrace/test/fake/fakestore"
)

func inBubble(t *testing.T, f func(store *fakestore.Store, h *actors.Handle)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sys, store := actors.NewSystem(7), fakestore.New()
		defer sys.Close()
		h, err := sys.Start(context.Background(), actors.Spec{Path: "reaper", New: func() actors.Process {
			return New(Config{Node: "n", Registry: registry.New(), Store: store, Metrics: noMetrics{}, Log: zerolog.Nop()})
		}})
		if err != nil {
			t.Fatal(err)
		}
		f(store, h)
	})
}

type noMetrics struct{}

func (noMetrics) Count(string, int64, ...string)   {}
func (noMetrics) Gauge(string, float64, ...string) {}
func (noMetrics) Forget(...string)                 {}

func fill(store *fakestore.Store, n int) []string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("k/%05d", i))
		store.Replace(keys[i], []byte("x"))
	}
	return keys
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestGarbageGoesAfterItsGraceInBatches(t *testing.T) {
	inBubble(t, func(store *fakestore.Store, h *actors.Handle) {
		var requests, most, running atomic.Int64
		store.Latency = func(string, string) time.Duration {
			requests.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			return time.Second
		}
		store.After = func(op, _ string) error {
			running.Add(-1)
			return nil
		}
		keys := fill(store, 2_500)
		h.Send(collect.Delete{Keys: keys, After: pos.MillisOf(time.Now().Add(time.Hour))})
		pass(time.Hour - time.Second)
		if got := len(store.Keys()); got != 2_500 {
			t.Fatalf("%d are left before the grace has passed", got)
		}
		pass(10 * time.Second)
		if got := len(store.Keys()); got != 0 {
			t.Fatalf("%d are left", got)
		}
		if requests.Load() != 3 || most.Load() > 1 {
			t.Fatalf("%d requests, %d at a time", requests.Load(), most.Load())
		}
	})
}

func TestAnOutageAndARefusal(t *testing.T) {
	inBubble(t, func(store *fakestore.Store, h *actors.Handle) {
		var down atomic.Bool
		down.Store(true)
		store.Fault = func(op, what string) error {
			switch {
			case op == "deletebatch" && down.Load():
				return port.Unavailable
			case op == "delete" && strings.HasSuffix(what, "00003"):
				return port.Denied
			}
			return nil
		}
		h.Send(collect.Delete{Keys: fill(store, 10)})
		pass(time.Hour)
		if s := h.Status().(Status); s.Pending+s.InFlight != 10 || s.Failed == 0 {
			t.Fatalf("status %+v", s)
		}
		down.Store(false)
		pass(10 * time.Minute)
		if got := store.Keys(); len(got) != 1 || got[0] != "k/00003" {
			t.Fatalf("left %v", got)
		}
		if s := h.Status().(Status); s.Pending+s.InFlight != 0 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestARequestThatHangsIsGivenUp(t *testing.T) {
	inBubble(t, func(store *fakestore.Store, h *actors.Handle) {
		var n atomic.Int64
		store.Latency = func(op, _ string) time.Duration {
			if op == "deletebatch" && n.Add(1) == 1 {
				return 24 * time.Hour
			}
			return 0
		}
		h.Send(collect.Delete{Keys: fill(store, 1)})
		pass(5 * time.Minute)
		if got := store.Keys(); len(got) != 0 {
			t.Fatalf("left %v", got)
		}
	})
}
