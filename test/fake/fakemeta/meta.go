package fakemeta

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Meta is a port.Metadata in memory. The zero value is not usable: New makes one.
//
// The hooks are set before the store is used. op is the method's name in lower case
// ("swappointer"), what is the stream, capture, setting or name meant, of SwapStreams the
// first id, or "". Fault is asked before an operation and, if it answers an error,
// instead of it; what has no class becomes Unavailable. After is asked when the
// operation has taken effect; its error is returned all the same, with class
// UnknownOutcome unless it has one.
type Meta struct {
	Latency func(op, what string) time.Duration // how long the operation takes before Fault; nil = none
	Fault   func(op, what string) error
	After   func(op, what string) error

	mu sync.Mutex
	rows
}

// rows is all that is stored.
type rows struct {
	cluster   port.Cluster
	seq       uint64
	streams   map[pos.StreamID]port.Stream
	pointers  map[pos.StreamID]port.Pointer
	used      map[pos.StreamID]pos.Revision
	anchors   map[pos.StreamID]bool
	gone      map[pos.StreamID]port.Stream
	deletions map[pos.StreamID]port.Deletion
	captures  map[string]port.Capture
	settings  map[string]string
	sessions  map[pos.NodeID]port.Session
	leases    map[string]port.Lease
}

// New returns an empty store of a new cluster.
func New() *Meta {
	return &Meta{rows: rows{
		cluster:   port.Cluster{ID: 0xc1, Format: 1, Generation: "1"},
		streams:   map[pos.StreamID]port.Stream{},
		pointers:  map[pos.StreamID]port.Pointer{},
		used:      map[pos.StreamID]pos.Revision{},
		anchors:   map[pos.StreamID]bool{},
		gone:      map[pos.StreamID]port.Stream{},
		deletions: map[pos.StreamID]port.Deletion{},
		captures:  map[string]port.Capture{},
		settings:  map[string]string{},
		sessions:  map[pos.NodeID]port.Session{},
		leases:    map[string]port.Lease{},
	}}
}

// SetGeneration changes what Cluster tells, as a restored store would.
func (m *Meta) SetGeneration(generation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cluster.Generation = generation
}

// do runs one operation between its hooks; f holds the lock and changes nothing if it fails.
func (m *Meta) do(ctx context.Context, op, what string, f func() error) error {
	if m.Latency != nil {
		timer := time.NewTimer(m.Latency(op, what))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return &port.MetadataError{Op: op, What: what, Class: port.Unavailable, Err: err}
	}
	if m.Fault != nil {
		if err := m.Fault(op, what); err != nil {
			return metaError(op, what, err, port.Unavailable)
		}
	}
	if err := m.locked(f); err != nil {
		return metaError(op, what, err, port.Unclassified)
	}
	if m.After != nil {
		if err := m.After(op, what); err != nil {
			return metaError(op, what, err, port.UnknownOutcome)
		}
	}
	return nil
}

func (m *Meta) locked(f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f()
}

// metaError gives err the shape the port demands; other is the class of what has none.
func metaError(op, what string, err error, other port.Class) error {
	if _, ok := errors.AsType[*port.MetadataError](err); ok {
		return err
	}
	class := port.ClassOf(err)
	if class == port.Unclassified {
		class = other
	}
	return &port.MetadataError{Op: op, What: what, Class: class, Err: err}
}

// Cluster implements port.Metadata.
func (m *Meta) Cluster(ctx context.Context) (port.Cluster, error) {
	var c port.Cluster
	err := m.do(ctx, "cluster", "", func() error {
		c = m.cluster
		return nil
	})
	return c, err
}

var (
	_ port.Metadata = (*Meta)(nil)
	_ port.Sessions = (*Meta)(nil)
)
