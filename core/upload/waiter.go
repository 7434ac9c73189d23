package upload

import (
	"slices"

	"millrace/core/pos"
)

// MaxWaiters is how many may wait for offsets of one stream; further ones are
// refused.
const MaxWaiters = 1024

// AwaitDurable asks a replica reader, with Call or Request, to answer with Durable
// when everything below Next is durable in the object store. It waits for as long as
// that takes; if the replica reader ends first, the question fails.
type AwaitDurable struct{ Next pos.Offset }

// Durable answers AwaitDurable: everything below Next is settled.
type Durable struct {
	Next pos.Offset
	// Held says that the record before the offset asked for is in the store. Without, it
	// is not any more: local retention or remote retention took it.
	Held bool
}

// StreamGone tells a replica reader that its stream was deleted.
type StreamGone struct{}

// waiter waits across generations: the truth is learned anew, the question stays.
type waiter struct {
	id   WaiterID
	next pos.Offset
}

func (m *Machine) await(in Await) {
	if len(m.waiters) >= MaxWaiters {
		m.emit(Answer{ID: in.ID, Full: true})
		return
	}
	m.waiters = append(m.waiters, waiter{in.ID, in.Next})
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
