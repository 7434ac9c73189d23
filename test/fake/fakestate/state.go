package fakestate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"millrace/actors/port"
	"millrace/core/pos"
)

// State is a port.NodeState in memory. The zero value is not usable: New makes one.
//
// The hooks are set before the state is used. op is the method's name in lower case
// ("putreplica"), what is the stream id or "". Fault is asked before an operation and,
// if it answers an error, instead of it. After is asked when the operation has taken
// effect; its error is returned all the same, with class UnknownOutcome unless it has one.
type State struct {
	Fault func(op, what string) error
	After func(op, what string) error

	mu       sync.Mutex
	identity port.Identity
	bootID   string
	replicas map[pos.StreamID]port.Replica
}

// New returns the state of a new data folder of node.
func New(node pos.NodeID) *State {
	return &State{
		identity: port.Identity{Node: node, Data: 0xda7a, Nonce: 1, Created: 1},
		bootID:   "boot-1",
		replicas: map[pos.StreamID]port.Replica{},
	}
}

// Restart returns the state as the node's next process finds it: same data, another
// nonce, and with power lost also another kernel boot.
func (s *State) Restart(powerLost bool) *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &State{identity: s.identity, bootID: s.bootID, replicas: maps.Clone(s.replicas)}
	next.identity.Nonce++
	if powerLost {
		next.bootID += "+"
	}
	return next
}

func (s *State) do(ctx context.Context, op, what string, f func() error) error {
	if err := ctx.Err(); err != nil {
		return stateError(op, what, err, port.Timeout)
	}
	if s.Fault != nil {
		if err := s.Fault(op, what); err != nil {
			return stateError(op, what, err, port.Unavailable)
		}
	}
	if err := s.locked(f); err != nil {
		return stateError(op, what, err, port.Unclassified)
	}
	if s.After != nil {
		if err := s.After(op, what); err != nil {
			return stateError(op, what, err, port.UnknownOutcome)
		}
	}
	return nil
}

func (s *State) locked(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// stateError gives err the shape the port demands; other is the class of what has none.
func stateError(op, what string, err error, other port.Class) error {
	if _, ok := errors.AsType[*port.DiskError](err); ok {
		return err
	}
	class := port.ClassOf(err)
	if class == port.Unclassified {
		class = other
	}
	return &port.DiskError{Op: op, Name: what, Class: class, Err: err}
}

// Identity implements port.NodeState.
func (s *State) Identity(ctx context.Context) (port.Identity, error) {
	var id port.Identity
	err := s.do(ctx, "identity", "", func() error {
		id = s.identity
		return nil
	})
	return id, err
}

// Replica implements port.NodeState.
func (s *State) Replica(ctx context.Context, stream pos.StreamID) (port.Replica, bool, error) {
	var r port.Replica
	found := false
	err := s.do(ctx, "replica", stream.String(), func() error {
		r, found = s.replicas[stream]
		r.Members = slices.Clone(r.Members)
		return nil
	})
	if err != nil {
		return port.Replica{}, false, err
	}
	return r, found, nil
}

// PutReplica implements port.NodeState.
func (s *State) PutReplica(ctx context.Context, r port.Replica) error {
	return s.do(ctx, "putreplica", r.Stream.String(), func() error {
		if _, err := pos.ParseStreamID(r.Stream.String()); err != nil {
			return fmt.Errorf("%w: %w", port.Denied, err)
		}
		old, ok := s.replicas[r.Stream]
		if ok && (r.PromisedEpoch < old.PromisedEpoch || r.PromisedEpoch == old.PromisedEpoch && r.Ballot != old.Ballot) {
			return fmt.Errorf("promised epoch %s with ballot %s already: %w", old.PromisedEpoch, old.Ballot, port.Conflict)
		}
		r.Members = slices.Clone(r.Members)
		s.replicas[r.Stream] = r
		return nil
	})
}

// ForgetReplica implements port.NodeState.
func (s *State) ForgetReplica(ctx context.Context, stream pos.StreamID) error {
	return s.do(ctx, "forgetreplica", stream.String(), func() error {
		delete(s.replicas, stream)
		return nil
	})
}

// BootID implements port.NodeState.
func (s *State) BootID() string { return s.bootID }

var _ port.NodeState = (*State)(nil)
