package keep

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"millrace/core/backoff"
	"millrace/core/pos"
)

// Kind says what an item is.
type Kind uint8

// The kinds of item, in the order in which they are started.
const (
	Tiering Kind = iota // the tiering tree; its ID is empty
	Writer              // a local log; its ID is the stream's
	Capture             // a capture; its ID is its name
)

// String returns the word used in logs and in the status.
func (k Kind) String() string {
	switch k {
	case Tiering:
		return "tiering"
	case Writer:
		return "writer"
	case Capture:
		return "capture"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Item names one thing that can be started.
type Item struct {
	Kind Kind
	ID   string
}

// String returns the item as logs show it.
func (i Item) String() string {
	if i.ID == "" {
		return i.Kind.String()
	}
	return i.Kind.String() + " " + i.ID
}

func compareItems(a, b Item) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}

// Config is fixed for the life of a Machine.
type Config struct {
	Interval    time.Duration // between two looks, and the first back-off
	MaxInterval time.Duration // the longest back-off; a start that lasts so long counts as good
}

// Machine holds what was started, how often, and when to try again.
//
// Invariants, which check verifies:
//
//	K1 an item is tried at most once in each back-off, unless it was excused meanwhile
//	K2 a back-off lies between Interval and MaxInterval
type Machine struct {
	cfg   Config
	items map[Item]record
}

type record struct {
	tries int        // starts since it last ran for MaxInterval
	last  pos.Millis // the last start
}

// New returns a machine that has started nothing yet.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, items: map[Item]record{}}
}

// Input is what a Machine is told.
//
//sumtype:decl
type Input interface{ isInput() }

// Looked says what is wanted here and what runs, at a moment.
type Looked struct {
	Now     pos.Millis
	Wanted  []Item
	Running []Item
}

// Excused says that an operator stopped these items, or what they run under. Their end
// tells nothing of how long they last: each is started at once when it is seen missing,
// however often it was started before.
type Excused struct{ Items []Item }

func (Looked) isInput()  {}
func (Excused) isInput() {}

// Start is the one effect: this item is to be started now.
type Start struct {
	Item  Item
	Tries int // how often it was started before without lasting
}

// Step applies one input and appends to out what must be started, in Item order.
func (m *Machine) Step(in Input, out []Start) []Start {
	switch in := in.(type) {
	case Looked:
		out = m.looked(in, out)
	case Excused:
		for _, i := range in.Items {
			delete(m.items, i)
		}
	}
	return out
}

func (m *Machine) looked(in Looked, out []Start) []Start {
	running := map[Item]bool{}
	for _, i := range in.Running {
		running[i] = true
	}
	wanted := slices.SortedFunc(slices.Values(in.Wanted), compareItems)
	wanted = slices.Compact(wanted)
	m.forget(wanted)
	for _, i := range wanted {
		r := m.items[i]
		if running[i] {
			if r.tries > 0 && in.Now.Sub(r.last) >= m.cfg.MaxInterval {
				delete(m.items, i)
			}
			continue
		}
		if r.tries > 0 && in.Now < r.last.Add(m.backoff(r.tries)) {
			continue
		}
		out = append(out, Start{Item: i, Tries: r.tries})
		m.items[i] = record{tries: r.tries + 1, last: in.Now}
	}
	return out
}

// forget drops what is no longer wanted, so that it starts at once when it is
// wanted again, and so that the map can't grow without bound.
func (m *Machine) forget(wanted []Item) {
	for i := range m.items {
		if _, found := slices.BinarySearchFunc(wanted, i, compareItems); !found {
			delete(m.items, i)
		}
	}
}

func (m *Machine) backoff(tries int) time.Duration {
	return backoff.Doubling{First: m.cfg.Interval, Last: m.cfg.MaxInterval}.After(tries)
}

func (m *Machine) check() error {
	for i, r := range m.items {
		if r.tries < 1 {
			return fmt.Errorf("%v is kept with %d tries", i, r.tries)
		}
		if d := m.backoff(r.tries); d < m.cfg.Interval || d > m.cfg.MaxInterval {
			return fmt.Errorf("K2: %v backs off for %v", i, d)
		}
	}
	return nil
}
