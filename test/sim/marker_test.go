package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/core/settings"
)

// emptied is a calm world with a load whose store was emptied while it ran, and the node
// has seen that. puts and deletes count what the store is asked for since.
type emptied struct {
	w             *world
	n             *node.Node
	l             *load
	was           map[string][]byte // what the store held
	puts, deletes atomic.Int64
	refusal       atomic.Pointer[port.Class] // of everything; nil: none
}

func emptyStore(t *testing.T) *emptied {
	t.Helper()
	e := &emptied{was: map[string][]byte{}}
	e.w, e.n = calmWorld(t, func(w *world, s *settings.Settings, _ *node.Ports) {
		s.Store.ProbeInterval, s.Tiering.RootGrace = 10*time.Second, time.Minute
		w.store.Fault = func(op, _ string) error {
			switch op {
			case "put":
				e.puts.Add(1)
			case "delete":
				e.deletes.Add(1)
			}
			if class := e.refusal.Load(); class != nil {
				return *class
			}
			return nil
		}
	})
	e.l = newLoad(t, e.n)
	e.l.run(t, 3*time.Minute)
	for _, key := range e.w.store.Keys() {
		e.was[key], _ = e.w.store.Object(key)
		e.w.store.Drop(key)
	}
	if len(e.was) < 5 || e.deletes.Load() == 0 {
		t.Fatalf("the store held %d objects, %d deletions: the test does not do what it is for", len(e.was), e.deletes.Load())
	}
	for range 15 {
		if e.l.run(t, time.Second); status(e.n).Access != "yes" {
			break
		}
	}
	e.puts.Store(0)
	e.deletes.Store(0)
	return e
}

const noMarker = "no (the cluster's marker is missing): "

// held demands that nothing is put and nothing deleted while publishers go on, and that the
// node says why.
func (e *emptied) held(t *testing.T) {
	t.Helper()
	e.l.run(t, 5*time.Minute)
	if e.puts.Load() != 0 || e.deletes.Load() != 0 {
		t.Errorf("%d puts and %d deletions in a store that lost everything", e.puts.Load(), e.deletes.Load())
	}
	s := status(e.n)
	if !strings.HasPrefix(s.Access, noMarker) || s.Ready || !slices.ContainsFunc(s.Reasons, func(why string) bool { return strings.Contains(why, noMarker) }) {
		t.Errorf("shown is %q, ready %v: %q", s.Access, s.Ready, s.Reasons)
	}
	quietTree(t, e.n)
}

// TestTheStoreIsEmptied while the node runs: nobody takes the empty place for ours, and what
// was stored is found again when it is brought back with the marker.
func TestTheStoreIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emptyStore(t)
		e.held(t)
		for key, body := range e.was {
			e.w.store.Replace(key, body)
		}
		e.l.readable(t, "a")
		e.l.stored(t, 2*time.Minute)
		if s := status(e.n); s.Access != "yes" {
			t.Errorf("shown is %q, ready %v: %q", s.Access, s.Ready, s.Reasons)
		}
		stopNode(t, e.n)
	})
}

// TestTheOperatorClaimsTheStore: the objects are brought back without the marker, and the
// operator says that this is the store. Another cluster's he can't take.
func TestTheOperatorClaimsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emptyStore(t)
		e.held(t)
		marker := port.ClusterKey(settings.Default().Store.Prefix)
		for key, body := range e.was {
			if key != marker {
				e.w.store.Replace(key, body)
			}
		}
		refused := func(class admin.Class, why string) {
			t.Helper()
			_, err := e.n.ClaimStore(context.Background())
			said, ok := errors.AsType[*admin.Error](err)
			if !ok || said.Class != class || !strings.Contains(said.Error()+said.Hint, why) || said.Hint == "" {
				t.Errorf("refused with %v (%+v), want class %s, %q", err, said, class, why)
			}
		}
		e.w.store.Replace(marker, foreignMarker(t, settings.Default().Store.Prefix))
		refused(admin.Exists, "set another store.prefix")
		e.w.store.Drop(marker)
		if _, err := e.n.SetTiering(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		refused(admin.Unavailable, "millrace tiering enable")
		if _, err := e.n.SetTiering(context.Background(), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, class := range []struct {
			fault port.Class
			class admin.Class
		}{{port.NotFound, admin.NotFound}, {port.Denied, admin.Forbidden}, {port.Unavailable, admin.Unavailable}} {
			e.refusal.Store(&class.fault)
			refused(class.class, "")
			e.refusal.Store(nil)
		}
		for _, put := range []bool{true, false} {
			c, err := e.n.ClaimStore(context.Background())
			if err != nil || c.Restored != put || c.Marker != marker {
				t.Errorf("%+v, %v: want the marker put: %v", c, err, put)
			}
		}
		if now, _ := e.w.store.Object(marker); string(now) != string(e.was[marker]) {
			t.Errorf("the marker is %q, was %q", now, e.was[marker])
		}
		e.l.stored(t, 2*time.Minute)
		e.l.readable(t, "a")
		stopNode(t, e.n)
	})
}
