package pooltest

import (
	"context"
	"testing"
	"time"

	"millrace/actors/port"
)

// Rig is a new pool, not opened yet, and a way to send operations through it.
type Rig struct {
	Pool port.Pool
	// Operate carries out one operation through the pool, whose far side answers at once,
	// and returns what it came to.
	Operate func(ctx context.Context) error
	// Held is Operate whose far side answers when release closes. It tells on begun, which
	// has room, once the operation is on a connection.
	Held func(ctx context.Context, begun chan<- struct{}, release <-chan struct{}) error
}

// patience bounds what must happen soon.
const patience = 10 * time.Second

// Run checks the pools that open makes: at most max connections, 2 or more. It may run in
// a bubble and outside.
func Run(t *testing.T, max int, open func(t *testing.T) Rig) {
	for name, check := range map[string]func(t *testing.T, r Rig, max int){
		"closed":      checkClosed,
		"open":        checkOpen,
		"full":        checkFull,
		"cut off":     checkCutOff,
		"end of wait": checkEndOfWait,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t), max) })
	}
}

func unavailable(t *testing.T, what string, err error) {
	t.Helper()
	if port.ClassOf(err) != port.Unavailable {
		t.Errorf("%s: %v, want class %s", what, err, port.Unavailable)
	}
}

// becomes waits for the pool's figures.
func becomes(t *testing.T, p port.Pool, what string, ok func(s port.PoolStats) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !ok(p.Stats()); <-tick.C {
		if time.Since(began) > patience {
			t.Fatalf("%s: the pool stays at %+v", what, p.Stats())
		}
	}
}

func get[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v = <-from:
	case <-timer.C:
		t.Fatalf("%s does not come", what)
	}
	return v
}

// held is an operation under way.
type held struct {
	begun   chan struct{}
	release chan struct{}
	err     chan error
}

func hold(ctx context.Context, r Rig) held {
	h := held{make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)}
	go func() { h.err <- r.Held(ctx, h.begun, h.release) }()
	return h
}

// Before Open and after Close nothing passes, and nobody waits for that.
func checkClosed(t *testing.T, r Rig, max int) {
	unavailable(t, "before Open", r.Operate(t.Context()))
	if s := r.Pool.Stats(); s != (port.PoolStats{Max: max}) {
		t.Errorf("before Open %+v", s)
	}
	r.Pool.Close()
	r.Pool.Open()
	if err := r.Operate(t.Context()); err != nil {
		t.Errorf("open: %v", err)
	}
	before := r.Pool.Stats()
	r.Pool.Close()
	r.Pool.Close()
	unavailable(t, "after Close", r.Operate(t.Context()))
	becomes(t, r.Pool, "after Close", func(s port.PoolStats) bool { return s.Open == 0 && s.InUse == 0 && s.Waiting == 0 })
	if s := r.Pool.Stats(); s.Taken < before.Taken || s.Waited < before.Waited || s.Max != max {
		t.Errorf("its counts fell from %+v to %+v", before, s)
	}
	r.Pool.Open()
	if err := r.Operate(t.Context()); err != nil {
		t.Errorf("open again: %v", err)
	}
	r.Pool.Close()
}

// Opening an open pool ends nothing.
func checkOpen(t *testing.T, r Rig, _ int) {
	r.Pool.Open()
	defer r.Pool.Close()
	h := hold(t.Context(), r)
	get(t, "the operation's begin", h.begun)
	if s := r.Pool.Stats(); s.InUse != 1 || s.Open < 1 || s.Waiting != 0 || s.Taken != 1 {
		t.Errorf("with one under way %+v", s)
	}
	r.Pool.Open()
	close(h.release)
	if err := get(t, "its end", h.err); err != nil {
		t.Errorf("after a second Open: %v", err)
	}
	becomes(t, r.Pool, "idle", func(s port.PoolStats) bool { return s.InUse == 0 })
}

// One more than there are connections waits for its turn, and gets it.
func checkFull(t *testing.T, r Rig, max int) {
	r.Pool.Open()
	defer r.Pool.Close()
	all := fill(t, r, max)
	last := hold(t.Context(), r)
	becomes(t, r.Pool, "full", func(s port.PoolStats) bool { return s.InUse == max && s.Waiting == 1 && s.Open == max })
	select {
	case <-last.begun:
		t.Error("one too many is under way")
	default:
	}
	close(all[0].release)
	get(t, "the turn of the one that waits", last.begun)
	if s := r.Pool.Stats(); s.Waiting != 0 || s.Waited != 1 || s.Taken != int64(max)+1 {
		t.Errorf("after it has waited %+v", s)
	}
	for _, h := range append(all[1:], last) {
		close(h.release)
	}
	for _, h := range append(all, last) {
		if err := get(t, "an end", h.err); err != nil {
			t.Error(err)
		}
	}
}

func fill(t *testing.T, r Rig, max int) (all []held) {
	t.Helper()
	for range max {
		h := hold(t.Context(), r)
		get(t, "an operation's begin", h.begun)
		all = append(all, h)
	}
	return all
}

// Close ends what is under way and what waits, at once.
func checkCutOff(t *testing.T, r Rig, max int) {
	r.Pool.Open()
	all := append(fill(t, r, max), hold(t.Context(), r))
	becomes(t, r.Pool, "full", func(s port.PoolStats) bool { return s.Waiting == 1 })
	r.Pool.Close()
	for _, h := range all {
		unavailable(t, "cut off", get(t, "its end", h.err))
		close(h.release)
	}
	r.Pool.Open()
	defer r.Pool.Close()
	if err := r.Operate(t.Context()); err != nil {
		t.Errorf("open again: %v", err)
	}
	becomes(t, r.Pool, "idle", func(s port.PoolStats) bool { return s.InUse == 0 && s.Waiting == 0 })
}

// Who gives up waiting takes no connection with it.
func checkEndOfWait(t *testing.T, r Rig, max int) {
	r.Pool.Open()
	defer r.Pool.Close()
	all := fill(t, r, max)
	ctx, cancel := context.WithCancel(t.Context())
	last := hold(ctx, r)
	becomes(t, r.Pool, "full", func(s port.PoolStats) bool { return s.Waiting == 1 })
	cancel()
	if err := get(t, "its end", last.err); port.ClassOf(err) != port.Timeout {
		t.Errorf("after it gave up: %v, want class %s", err, port.Timeout)
	}
	close(last.release)
	becomes(t, r.Pool, "without it", func(s port.PoolStats) bool { return s.Waiting == 0 && s.InUse == max })
	for _, h := range all {
		close(h.release)
		if err := get(t, "an end", h.err); err != nil {
			t.Error(err)
		}
	}
	if err := r.Operate(t.Context()); err != nil {
		t.Error(err)
	}
}
