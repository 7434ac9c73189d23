package fold

import (
	"fmt"
	"slices"

	"millrace/core/pos"
)

// Ledger checks that the positions of a stream's events are each there once and in
// order, and that each transaction is whole. It goes on after a fault and counts.
type Ledger struct {
	Events     int64 // changes of rows and truncates, loaded and streamed
	Commits    int64 // transactions of which the last event was seen
	Missing    int64 // events that the numbering says there must be
	Duplicated int64
	OutOfOrder int64

	positions []Position // of all events accepted since the last void that went back, increasing
	open      bool       // a streamed transaction has begun and not ended
}

// Apply takes the next event of the stream, at the given offset. An error names
// what is wrong with its position; the event is then not to be folded if it is a
// duplicate or out of order.
//
// A message of a changed schema shares its position with the change behind it, and
// a void may go back: it begins the history of its table anew.
func (l *Ledger) Apply(at pos.Offset, e *Event) error {
	p, n := e.Position(), len(l.positions)
	back := n > 0 && !l.positions[n-1].Less(p)
	switch {
	case back && e.void():
		l.positions = l.positions[:0]
	case back:
		return l.backwards(at, e)
	case e.Op == "m" && e.Streamed():
		return nil
	}
	err := l.contiguous(at, e)
	l.positions = append(l.positions, p)
	if e.Op != "m" && !e.void() {
		l.Events++
	}
	l.open = e.Streamed() && !e.Source.Last
	if e.Streamed() && e.Source.Last {
		l.Commits++
	}
	return err
}

// backwards tells an event that was there before from one that comes too late.
func (l *Ledger) backwards(at pos.Offset, e *Event) error {
	p := e.Position()
	i, seen := slices.BinarySearchFunc(l.positions, p, func(a, b Position) int {
		switch {
		case a.Less(b):
			return -1
		case b.Less(a):
			return 1
		}
		return 0
	})
	if seen {
		l.Duplicated++
		return fmt.Errorf("offset %s, %s: duplicated, it was there before", at, e)
	}
	l.OutOfOrder++
	return fmt.Errorf("offset %s, %s: out of order, it belongs before %s", at, e, l.positions[i])
}

// contiguous checks a streamed event against the one before it. What a load
// writes has its own numbering, and a void ends an open transaction.
func (l *Ledger) contiguous(at pos.Offset, e *Event) error {
	if !e.Streamed() {
		return nil
	}
	p, want := e.Position(), int64(0)
	if l.open {
		last := l.positions[len(l.positions)-1]
		if last.LSN != p.LSN {
			l.Missing++
			return fmt.Errorf("offset %s, %s: the transaction at %s lacks its last event", at, e, last)
		}
		want = last.Seq + 1
	}
	if p.Seq != want {
		l.Missing += max(p.Seq-want, 1)
		return fmt.Errorf("offset %s, %s: events %d up to it are missing", at, e, want)
	}
	return nil
}

// End reports a transaction that the stream leaves open.
func (l *Ledger) End() error {
	if !l.open {
		return nil
	}
	l.Missing++
	return fmt.Errorf("the stream ends within the transaction at %s", l.positions[len(l.positions)-1])
}
