package storemonitor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"millrace/actors"
	"millrace/actors/port"
)

// Gate lets puts and deletions through once it is known that the prefix is ours. One gate
// serves all stores of a node, and outlives the monitors that move it: what is known of
// the owner is not forgotten when one ends. Safe from any goroutine.
type Gate struct {
	state atomic.Pointer[verdict]
	born  time.Time
	once  sync.Once
	known chan struct{} // closed at the first verdict

	monitor atomic.Pointer[actors.Handle] // who is told how operations end
	doubted atomic.Bool                   // it was told, and has not looked at it yet
	stored  atomic.Bool                   // it was told that something was put since its last look
	busy    atomic.Int32                  // operations that the store had no time for, in a row
}

// verdict is whose the prefix is. A nil one: not known.
type verdict struct {
	ours  bool
	class port.Class // of what is refused
	why   error
}

// NewGate returns a gate that is closed: it is not known whose the prefix is.
func NewGate() *Gate { return &Gate{born: time.Now(), known: make(chan struct{})} }

// busyFor is how many operations in a row a store may have no time for.
const busyFor = 8

// patience is how long after a start a put or deletion waits for the first verdict: it
// comes within moments of a store that answers, and nothing has failed until then.
const patience = 10 * time.Second

var errUnknown = errors.New("it is not known yet whose prefix this is, so nothing is stored or deleted; millrace status tells why the store does not say")

var errClaim = errors.New("it is not known yet what lies in the store that an operator claims, so nothing is stored or deleted; millrace status tells why the store does not say")

// admit opens the gate.
func (g *Gate) admit() { g.decide(&verdict{ours: true}) }

// refuse closes it, since the prefix is another cluster's, or its marker is gone or damaged,
// or the bucket.
func (g *Gate) refuse(why error) { g.decide(&verdict{class: port.Denied, why: why}) }

// suspend closes it until it is known what lies in the store that a marker is put into.
// That outlives the monitor, as a marker does that it puts.
func (g *Gate) suspend() { g.decide(&verdict{class: port.Unavailable, why: errClaim}) }

func (g *Gate) decide(v *verdict) {
	g.state.Store(v)
	g.once.Do(func() { close(g.known) })
}

// Trusted reports whether the prefix is known to be ours, and the store the one that was: what is in
// it may be freed on local disk.
func (g *Gate) Trusted() bool {
	v := g.state.Load()
	return v != nil && v.ours
}

// disowned reports whether the prefix was found not to be ours, or a marker may have been put into a
// store that had none, and nobody was told what the store is since.
func (g *Gate) disowned() bool {
	v := g.state.Load()
	return v != nil && !v.ours
}

// pass returns the error of what may not pass: class Unavailable while it is not known
// whose the prefix is, Denied once it is known not to be ours to write to.
func (g *Gate) pass(ctx context.Context, op, key string) error {
	v := g.state.Load()
	if wait := patience - time.Since(g.born); v == nil && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-g.known:
		case <-timer.C:
		case <-ctx.Done():
		}
		v = g.state.Load()
	}
	switch {
	case v == nil:
		return &port.StoreError{Op: op, Key: key, Class: port.Unavailable, Err: errUnknown}
	case !v.ours:
		return &port.StoreError{Op: op, Key: key, Class: v.class, Err: v.why}
	}
	return nil
}

// Guard returns store behind the gate: Put and Delete pass only while it is open, all else
// always. What is under way when it closes goes on. What fails is a reason to look at the store:
// what was not found may be in another one.
func (g *Gate) Guard(store port.ObjectStore) port.ObjectStore { return &guarded{store, g} }

type guarded struct {
	port.ObjectStore
	gate *Gate
}

// Put implements port.ObjectStore.
func (s *guarded) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	if err := s.gate.pass(ctx, "put", key); err != nil {
		return err
	}
	err := s.ObjectStore.Put(ctx, key, body, size, ifAbsent)
	s.gate.ended(ctx, err)
	return err
}

// Delete implements port.ObjectStore.
func (s *guarded) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	if err := s.gate.pass(ctx, "delete", first); err != nil {
		return nil, err
	}
	failed, err := s.ObjectStore.Delete(ctx, keys)
	s.gate.ended(ctx, err)
	return failed, err
}

// Get implements port.ObjectStore.
func (s *guarded) Get(ctx context.Context, key string) ([]byte, error) {
	body, err := s.ObjectStore.Get(ctx, key)
	s.gate.failed(ctx, err)
	return body, err
}

// GetRange implements port.ObjectStore.
func (s *guarded) GetRange(ctx context.Context, key string, from, n int64) ([]byte, error) {
	body, err := s.ObjectStore.GetRange(ctx, key, from, n)
	s.gate.failed(ctx, err)
	return body, err
}

// ended tells the monitor that something was put or deleted, and makes it look at a store that
// did not do what it was asked.
func (g *Gate) ended(ctx context.Context, err error) {
	g.failed(ctx, err)
	if err != nil {
		return
	}
	g.busy.Store(0)
	if h := g.monitor.Load(); h != nil && g.stored.CompareAndSwap(false, true) {
		h.Send(stored{})
	}
}

// failed makes the monitor look at the store if an operation has. One that is full, or finds that the object is
// there already, is well, and so is one that is busy unless it does nothing else; nor does it say
// anything that the node gave the operation up, unless because its time was over.
func (g *Gate) failed(ctx context.Context, err error) {
	if err == nil || errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	switch port.ClassOf(err) {
	case port.Full, port.Exists:
		return
	case port.Throttled:
		if g.busy.Add(1) < busyFor {
			return
		}
	default: // it may be away, or another one than before
	}
	if g.doubted.CompareAndSwap(false, true) {
		// Only now: a monitor that came in between has taken the doubt for new.
		if h := g.monitor.Load(); h != nil {
			h.Send(doubt{})
		}
	}
}

// tell makes h the monitor that is told how operations end.
func (g *Gate) tell(h *actors.Handle) {
	g.monitor.Store(h)
	g.doubted.Store(false)
}
