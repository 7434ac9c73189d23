package upload

import (
	"slices"
	"time"

	"millrace/core/pos"
)

// MaxWaiters is how many may wait for offsets of one stream; further ones are
// refused.
const MaxWaiters = 1024

// AwaitDurable asks a replica reader, with Call or Request, to answer with Durable
// when everything below Next is durable in the object store. If the replica reader ends
// first, the question fails.
type AwaitDurable struct {
	Next pos.Offset
	// For is how long to wait; not above 0: for as long as it takes. Who stops waiting of
	// itself is not noticed, and takes up one of MaxWaiters until its time is over.
	For time.Duration
}

// Durable answers AwaitDurable: everything below Next is settled.
type Durable struct {
	Next pos.Offset
	// Held says that the record before the offset asked for is in the store. Without, it
	// is not any more: local retention or remote retention took it.
	Held bool
	// Late: the time was over before that was what was asked for; Next is NoOffset if the
	// manifest is not known.
	Late bool
}

// waiter waits across generations: the truth is learned anew, the question stays.
type waiter struct {
	id    WaiterID
	next  pos.Offset
	until pos.Millis // 0: never
}

func (m *Machine) await(in Await) {
	if len(m.waiters) >= MaxWaiters {
		m.emit(Answer{ID: in.ID, Full: true})
		return
	}
	m.waiters = append(m.waiters, waiter{in.ID, in.Next, in.Until})
	if m.shown {
		m.answer()
	}
}

// answer goes by what is persisted, never by what is live.
func (m *Machine) answer() {
	m.waiters = slices.DeleteFunc(m.waiters, func(w waiter) bool {
		if w.next > m.stored.Next {
			return false
		}
		i, ok := m.stored.Find(w.next - 1)
		held := w.next <= 0 || ok && m.stored.Entries[i].First < w.next
		m.emit(Answer{ID: w.id, Next: m.stored.Next, Held: held})
		return true
	})
}

// expireWaiters tells those whose time is over how far it got.
func (m *Machine) expireWaiters() {
	m.waiters = slices.DeleteFunc(m.waiters, func(w waiter) bool {
		if w.until == 0 || m.at.Now < w.until {
			return false
		}
		next := pos.NoOffset
		if m.shown {
			next = m.stored.Next
		}
		m.emit(Answer{ID: w.id, Next: next, Late: true})
		return true
	})
}

func (m *Machine) wakeWaiters(earliest func(pos.Millis)) {
	for _, w := range m.waiters {
		earliest(w.until)
	}
}
