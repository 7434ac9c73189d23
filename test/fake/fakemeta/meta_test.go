package fakemeta

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/test/porttest/metatest"
)

func TestContract(t *testing.T) {
	metatest.Run(t, func(*testing.T) metatest.Store { return New() })
}

func newStream(t *testing.T, m *Meta) port.Stream {
	t.Helper()
	s, err := m.CreateStream(t.Context(), port.Stream{ID: "s1", Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUnknownOutcome(t *testing.T) {
	m := New()
	newStream(t, m)
	m.After = func(op, what string) error {
		if op == "swappointer" && what == "s1" {
			return errors.New("connection reset")
		}
		return nil
	}
	mine := port.Pointer{Revision: 1, UID: 7}
	if err := m.SwapPointer(t.Context(), "s1", 0, mine); !errors.Is(err, port.UnknownOutcome) {
		t.Errorf("SwapPointer: %v", err)
	}
	if p, err := m.Pointer(t.Context(), "s1"); p != mine || err != nil {
		t.Errorf("Pointer: %v, %v", p, err)
	}
}

func TestFaultStandsForTheOperation(t *testing.T) {
	m := New()
	s := newStream(t, m)
	for fault, class := range map[error]port.Class{port.UnknownOutcome: port.UnknownOutcome, port.Conflict: port.Conflict,
		errors.New("refused"): port.Unavailable} {
		m.Fault = func(op, what string) error {
			if op == "swapstreams" {
				return fault
			}
			return nil
		}
		if err := m.SwapStreams(t.Context(), []port.Stream{s}); port.ClassOf(err) != class || !errors.Is(err, fault) {
			t.Errorf("%v became %v, want class %q", fault, err, class)
		}
	}
	if got, err := m.Stream(t.Context(), "s1"); got.Revision != 1 || err != nil {
		t.Errorf("a swap that failed was stored: %v, %v", got, err)
	}
}

func TestARestoredStoreRemembersRevisions(t *testing.T) {
	m := New()
	newStream(t, m)
	old := port.Pointer{Revision: 1, UID: 1}
	for _, p := range []port.Pointer{old, {Revision: 2, UID: 2}} {
		if err := m.SwapPointer(t.Context(), "s1", p.Revision-1, p); err != nil {
			t.Fatal(err)
		}
	}
	m.RollBackPointer("s1", old)
	m.SetGeneration("2")
	if c, err := m.Cluster(t.Context()); c.Generation != "2" || err != nil {
		t.Errorf("Cluster: %v, %v", c, err)
	}
	if err := m.SwapPointer(t.Context(), "s1", 1, port.Pointer{Revision: 2, UID: 3}); !port.IsConflict(err) {
		t.Errorf("a revision was used twice: %v", err)
	}
	if err := m.SwapPointer(t.Context(), "s1", 1, port.Pointer{Revision: 3, UID: 3}); err != nil {
		t.Error(err)
	}
}

func TestTimeInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		if _, err := m.Register(t.Context(), port.Session{Node: "n1", Nonce: 1}, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		m.Latency = func(string, string) time.Duration { return 2 * time.Second }
		if live, err := m.Sessions(t.Context()); len(live) != 1 || err != nil {
			t.Errorf("after 2 s: %v, %v", live, err)
		}
		if live, err := m.Sessions(t.Context()); len(live) != 0 || err != nil {
			t.Errorf("after 4 s: %v, %v", live, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Sessions(ctx); port.ClassOf(err) != port.Unavailable {
			t.Errorf("the context ended during the latency: %v", err)
		}
	})
}
