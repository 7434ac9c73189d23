package supervision

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/actors"
)

// The states a tree shows.
const (
	stateStarting   = "starting"
	stateRunning    = "running"
	stateStopping   = "stopping"
	stateRestarting = "restarting"
	stateUndefined  = "undefined"
	stateZombie     = "zombie"
	stateStuck      = "stuck" // starting, while code of a predecessor still runs
)

// board is what a supervisor shows of itself and its children. The supervisor alone
// writes it; it is read from anywhere, without a lock. An entry is immutable.
type board struct {
	flags    Flags
	state    atomic.Value // string
	restarts atomic.Int64
	gaveUp   atomic.Bool // its budget is spent
	entries  sync.Map    // of *entry by id: one changes while thousands stand beside it
	zombies  atomic.Pointer[[]*entry]
	lastSeq  uint64
}

type entry struct {
	seq       uint64 // the order of declaration
	child     Child
	handle    *actors.Handle
	state     string
	startedAt time.Time
	last      string      // why the incarnation before ended
	restarts  []time.Time // of this child within the period before its latest
}

func newBoard(flags Flags) *board {
	b := &board{flags: flags}
	b.setState(stateStarting)
	b.zombies.Store(&[]*entry{})
	return b
}

func (b *board) setState(s string) { b.state.Store(s) }

func (b *board) setRestarts(n int) { b.restarts.Store(int64(n)) }

// put shows where a child stands now.
func (b *board) put(k *kid, state string) {
	e := &entry{child: k.child, handle: k.handle, state: state, startedAt: k.startedAt}
	if k.ended {
		e.last = k.last.String()
	}
	if old, ok := b.entries.Load(k.child.ID); ok {
		e.seq, e.restarts = old.(*entry).seq, old.(*entry).restarts
	} else {
		b.lastSeq++
		e.seq = b.lastSeq
	}
	b.entries.Store(k.child.ID, e)
}

// countRestart notes that a child was restarted now.
func (b *board) countRestart(id string) {
	old, ok := b.entries.Load(id)
	if !ok {
		return
	}
	e := *old.(*entry)
	now := time.Now()
	since := now.Add(-b.flags.Period)
	first, _ := slices.BinarySearchFunc(e.restarts, since, time.Time.Compare)
	e.restarts = append(slices.Clone(e.restarts[first:]), now)
	b.entries.Store(id, &e)
}

func (b *board) forget(id string) { b.entries.Delete(id) }

// addZombie shows an ended child for as long as its code runs.
func (b *board) addZombie(k *kid) {
	rest := slices.DeleteFunc(slices.Clone(*b.zombies.Load()), func(e *entry) bool {
		return !e.handle.Zombie() || e.handle == k.handle
	})
	rest = append(rest, &entry{child: k.child, handle: k.handle, state: stateZombie, startedAt: k.startedAt, last: k.last.String()})
	b.zombies.Store(&rest)
}

// haunted reports whether code of an earlier incarnation of the child runs.
func (b *board) haunted(id string) bool {
	return slices.ContainsFunc(*b.zombies.Load(), func(e *entry) bool { return e.child.ID == id && e.handle.Zombie() })
}

// shown returns the entries in order of declaration, the zombies last.
func (b *board) shown() []*entry {
	var all []*entry
	b.entries.Range(func(_, e any) bool {
		all = append(all, e.(*entry))
		return true
	})
	slices.SortFunc(all, func(x, y *entry) int { return int(x.seq) - int(y.seq) })
	for _, e := range *b.zombies.Load() {
		if e.handle.Zombie() {
			all = append(all, e)
		}
	}
	return all
}
