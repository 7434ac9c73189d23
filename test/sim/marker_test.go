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

// watched is a calm world with a load, whose store counts what it is asked for.
type watched struct {
	w             *world
	n             *node.Node
	l             *load
	puts, deletes atomic.Int64
	refusal       atomic.Pointer[port.Class] // of everything; nil: none
}

func watchStore(t *testing.T) *watched {
	t.Helper()
	e := &watched{}
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
	if e.puts.Load() == 0 || e.deletes.Load() == 0 {
		t.Fatalf("%d puts, %d deletions: the test does not do what it is for", e.puts.Load(), e.deletes.Load())
	}
	return e
}

// held demands that, once the node has looked, nothing is put and nothing deleted while
// publishers go on, and that it says why. Deletions are due all the time.
func (e *watched) held(t *testing.T, why string) {
	t.Helper()
	for range 15 {
		if e.l.run(t, time.Second); status(e.n).Access != "yes" {
			break
		}
	}
	e.puts.Store(0)
	e.deletes.Store(0)
	e.l.run(t, 5*time.Minute)
	if e.puts.Load() != 0 || e.deletes.Load() != 0 {
		t.Errorf("%d puts and %d deletions in a store that is not ours", e.puts.Load(), e.deletes.Load())
	}
	s := status(e.n)
	if !strings.HasPrefix(s.Access, why) || s.Ready || !slices.ContainsFunc(s.Reasons, func(said string) bool { return strings.Contains(said, why) }) {
		t.Errorf("shown is %q, ready %v: %q", s.Access, s.Ready, s.Reasons)
	}
	quietTree(t, e.n)
}

const noMarker = "no (the cluster's marker is missing): "

// emptied is a world whose store was emptied while the node ran.
type emptied struct {
	*watched
	was map[string][]byte // what the store held
}

func emptyStore(t *testing.T) *emptied {
	t.Helper()
	e := &emptied{watchStore(t), map[string][]byte{}}
	for _, key := range e.w.store.Keys() {
		e.was[key], _ = e.w.store.Object(key)
		e.w.store.Drop(key)
	}
	if len(e.was) < 5 {
		t.Fatalf("the store held %d objects: the test does not do what it is for", len(e.was))
	}
	return e
}

// TestTheStoreIsEmptied while the node runs: nobody takes the empty place for ours, and what
// was stored is found again when it is brought back with the marker.
func TestTheStoreIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emptyStore(t)
		e.held(t, noMarker)
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
		e.held(t, noMarker)
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
			says  string
		}{{port.NotFound, admin.NotFound, "was not claimed"}, {port.Denied, admin.Forbidden, "was not claimed"}, {port.Unavailable, admin.Unavailable, "is not known to be claimed"}} {
			e.refusal.Store(&class.fault)
			refused(class.class, class.says)
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
