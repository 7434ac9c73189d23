package storemonitor

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"millrace/actors/port"
)

// Gate lets puts and deletions through once it is known that the prefix is ours. One gate
// serves all stores of a node, and outlives the monitors that move it: what is known of
// the owner is not forgotten when one ends. Safe from any goroutine.
type Gate struct{ state atomic.Pointer[verdict] }

// verdict is whose the prefix is. A nil one: not known.
type verdict struct{ foreign error } // nil: ours

// NewGate returns a gate that is closed: it is not known whose the prefix is.
func NewGate() *Gate { return &Gate{} }

var errUnknown = errors.New("it is not known yet whose prefix this is, so nothing is stored or deleted; millrace status tells why the store does not say")

// admit opens the gate.
func (g *Gate) admit() { g.state.Store(&verdict{}) }

// refuse closes it, since the prefix is another cluster's.
func (g *Gate) refuse(why error) { g.state.Store(&verdict{foreign: why}) }

// owned reports whether the gate is open.
func (g *Gate) owned() bool {
	v := g.state.Load()
	return v != nil && v.foreign == nil
}

// pass returns the error of what may not pass: class Unavailable while it is not known
// whose the prefix is, Denied once it is known to be another cluster's.
func (g *Gate) pass(op, key string) error {
	v := g.state.Load()
	switch {
	case v == nil:
		return &port.StoreError{Op: op, Key: key, Class: port.Unavailable, Err: errUnknown}
	case v.foreign != nil:
		return &port.StoreError{Op: op, Key: key, Class: port.Denied, Err: v.foreign}
	}
	return nil
}

// Guard returns store behind the gate: Put and Delete pass only while it is open, all else
// always. What is under way when it closes goes on.
func (g *Gate) Guard(store port.ObjectStore) port.ObjectStore { return &guarded{store, g} }

type guarded struct {
	port.ObjectStore
	gate *Gate
}

// Put implements port.ObjectStore.
func (s *guarded) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, crc32c uint32, ifAbsent bool) error {
	if err := s.gate.pass("put", key); err != nil {
		return err
	}
	return s.ObjectStore.Put(ctx, key, body, size, crc32c, ifAbsent)
}

// Delete implements port.ObjectStore.
func (s *guarded) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	if err := s.gate.pass("delete", first); err != nil {
		return nil, err
	}
	return s.ObjectStore.Delete(ctx, keys)
}
