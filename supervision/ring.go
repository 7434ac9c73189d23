package supervision

import (
	"slices"
	"sync"
)

// RingSize is how many events a Ring remembers of each sort: those that tell of trouble
// and the others. So a thousand children that start don't push a crash out.
const RingSize = 256

// Ring remembers the last events of any number of supervisors: its Add is an observe
// function. It is ready for use, safe from any goroutine, and waits for nobody.
type Ring struct {
	mu               sync.Mutex
	seq              uint64
	trouble, routine ringPart
	more             chan struct{} // closed at the next event; nil while nobody waits
}

// Numbered is an event with its place in the order of all that a Ring was given,
// counted from 1.
type Numbered struct {
	Seq uint64
	Event
}

// ringPart holds the last RingSize of one sort; next is where the next one goes, and
// where the oldest stands once it is full.
type ringPart struct {
	events []Numbered
	next   int
}

func (p *ringPart) add(n Numbered) {
	if len(p.events) < RingSize {
		p.events = append(p.events, n)
		return
	}
	p.events[p.next] = n
	p.next = (p.next + 1) % RingSize
}

// Add remembers an event.
func (r *Ring) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	part := &r.routine
	if e.Trouble() {
		part = &r.trouble
	}
	part.add(Numbered{Seq: r.seq, Event: e})
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// Since returns what is remembered of the events after seq, the oldest first, the number
// of the latest event there was, and a channel that closes at the next one. A number that
// was not given yet, so one of an earlier boot, counts as 0.
func (r *Ring) Since(seq uint64) (list []Numbered, last uint64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.seq {
		seq = 0
	}
	for _, part := range []*ringPart{&r.trouble, &r.routine} {
		for _, n := range part.events {
			if n.Seq > seq {
				list = append(list, n)
			}
		}
	}
	slices.SortFunc(list, func(a, b Numbered) int { return int(a.Seq) - int(b.Seq) })
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return list, r.seq, r.more
}
