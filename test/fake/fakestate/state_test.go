package fakestate

import (
	"errors"
	"testing"

	"millrace/actors/port"
	"millrace/test/porttest/statetest"
)

func TestContract(t *testing.T) {
	statetest.Run(t, func(*testing.T) port.NodeState { return New("n1") })
}

func TestRestart(t *testing.T) {
	s := New("n1")
	if err := s.PutReplica(t.Context(), port.Replica{Stream: "s1", PromisedEpoch: 3}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, powerLost := range []bool{false, true} {
		next := s.Restart(powerLost)
		if id, err := next.Identity(t.Context()); err != nil || id.Nonce == before.Nonce || id.Data != before.Data {
			t.Errorf("identity %+v, %v after %+v", id, err, before)
		}
		if (next.BootID() != s.BootID()) != powerLost {
			t.Errorf("power lost %v: boot id %q after %q", powerLost, next.BootID(), s.BootID())
		}
		if r, ok, err := next.Replica(t.Context(), "s1"); !ok || err != nil || r.PromisedEpoch != 3 {
			t.Errorf("replica %+v, %v, %v", r, ok, err)
		}
	}
}

func TestHooks(t *testing.T) {
	s := New("n1")
	s.Fault = func(op, what string) error {
		if op == "putreplica" && what == "full" {
			return port.Full
		}
		return nil
	}
	s.After = func(op, what string) error {
		if op == "putreplica" {
			return errors.New("fsync failed")
		}
		return nil
	}
	if err := s.PutReplica(t.Context(), port.Replica{Stream: "full"}); !errors.Is(err, port.Full) {
		t.Errorf("PutReplica: %v", err)
	}
	if _, ok, err := s.Replica(t.Context(), "full"); ok || err != nil {
		t.Errorf("a put that failed was stored: %v, %v", ok, err)
	}
	if err := s.PutReplica(t.Context(), port.Replica{Stream: "s1"}); !errors.Is(err, port.UnknownOutcome) {
		t.Errorf("PutReplica: %v", err)
	}
	if _, ok, err := s.Replica(t.Context(), "s1"); !ok || err != nil {
		t.Errorf("the effect is gone: %v, %v", ok, err)
	}
}
