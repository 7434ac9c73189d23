package node

import (
	"cmp"
	"path"
	"slices"
	"sync"

	"millrace/actors/admin"
	"millrace/supervision"
)

// eventsKept is how many events are remembered: so many that tell of trouble, and so
// many of the others, so that a thousand streams that start, or readers that come and
// go, don't push a crash out.
const eventsKept = 256

// events are the last things that the node's supervisors did. It is safe from any
// goroutine and never blocks for long.
type events struct {
	mu               sync.Mutex
	seq              uint64
	trouble, routine []admin.Event // oldest first
	more             chan struct{} // closed at the next event; nil while nobody waits
}

func (r *events) add(e supervision.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	shown := admin.Event{
		Seq: r.seq, Time: e.Time, Kind: e.Kind.String(), Path: path.Join(e.Path, e.ID), Incarnation: e.Incarnation,
		Trouble: tellsTrouble(e), Restarts: e.Restarts, Intensity: e.Intensity,
	}
	switch e.Kind {
	case supervision.EventStarted, supervision.EventRestarted, supervision.EventIgnored:
	default:
		shown.Reason, shown.Stack = e.Reason.String(), e.Reason.Stack
	}
	list := &r.routine
	if shown.Trouble {
		list = &r.trouble
	}
	if len(*list) == eventsKept {
		*list = slices.Delete(*list, 0, 1)
	}
	*list = append(*list, shown)
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// since returns what came after seq. A number that was not given yet, which is one of an
// earlier boot, counts as none.
func (r *events) since(seq uint64) (list []admin.Event, next uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.seq {
		seq = 0
	}
	for _, kept := range [][]admin.Event{r.trouble, r.routine} {
		i, _ := slices.BinarySearchFunc(kept, seq+1, func(e admin.Event, s uint64) int { return cmp.Compare(e.Seq, s) })
		list = append(list, kept[i:]...)
	}
	slices.SortFunc(list, func(a, b admin.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return list, r.seq, r.more
}

// tellsTrouble reports whether an operator should look at an event.
func tellsTrouble(e supervision.Event) bool {
	switch e.Kind {
	case supervision.EventStartError, supervision.EventShutdownError, supervision.EventMaxIntensity, supervision.EventZombie:
		return true
	case supervision.EventChildTerminated:
		return e.Reason.Abnormal()
	default:
		return false
	}
}

// Events implements admin.Node.
func (n *Node) Events(since uint64) admin.Events {
	list, next, more := n.events.since(since)
	for i := range list {
		list[i].Label = n.labelOf(list[i].Path)
	}
	return admin.Events{Boot: n.identity.Nonce.String(), Events: list, Next: next, More: more}
}
