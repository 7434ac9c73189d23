package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/core/backoff"
	"millrace/core/pos"
)

// Limits of a Machine.
const (
	BatchKeys   = 1000    // keys of one request: what object stores take
	PendingKeys = 500_000 // keys that wait; further ones are given up, and counted
	MaxTries    = 5       // requests that a key refused by the store takes part in
)

// Delete asks the reaper to remove objects. It is a plain message: nobody waits.
type Delete struct {
	Keys  []string   // not to be changed by the sender afterwards
	After pos.Millis // not before this time; 0: at once
}

// Config is fixed for the life of a Machine.
type Config struct {
	// Linger is how long, at most, a key that is due waits for others, so that a request
	// is worth its price. Times are rounded up to it, which also bounds the groups kept.
	Linger time.Duration
	// Retry and MaxRetry bound the doubling pause after a failed request.
	Retry, MaxRetry time.Duration
}

// Machine holds what is to be deleted.
//
// Invariants, which check verifies:
//
//	C1 pending is ordered by time, and keys counts it
//	C2 keys never exceeds PendingKeys
//	C3 a request has 1 to BatchKeys keys
type Machine struct {
	cfg     Config
	pending []group
	keys    int
	sent    []target   // the request in flight; nil: none
	failed  int        // requests that failed as a whole since the last that did not
	next    pos.Millis // no request before
	counts  Counts
}

type group struct {
	at      pos.Millis // deletable from then on
	targets []target
}

type target struct {
	key   string
	tries int // requests that named it and were answered for it alone
}

// Counts are what a Machine has counted since it was made.
type Counts struct {
	Deleted int64 // objects that the store confirmed to be gone
	Failed  int64 // failures: of a key each time the store refused it, of each request once for each of its keys
	GivenUp int64 // objects left behind: refused MaxTries times, or one too many to remember
}

// Status is a Machine's state as the operator sees it.
type Status struct {
	Pending  int        `json:"pending_keys"`
	InFlight int        `json:"in_flight_keys"`
	Failed   int        `json:"failed_requests"` // in a row
	Until    pos.Millis `json:"waiting_until_ms,omitempty"`
}

// New returns a machine with nothing to delete.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// Input is what a Machine is told.
//
//sumtype:decl
type Input interface{ input() }

// Inputs.
type (
	// Add is a Delete that arrived.
	Add struct {
		Now    pos.Millis
		Delete Delete
	}
	// Answered ends the request in flight.
	Answered struct {
		Now     pos.Millis
		Refused []string // keys that the store did not delete, of those that it was asked to
		Failed  bool     // the whole request failed: nothing is known of any key
	}
	// Tick says what time it is, at the latest when Wake asked for it.
	Tick struct{ Now pos.Millis }
)

func (Add) input()      {}
func (Answered) input() {}
func (Tick) input()     {}

// Effect is what must be done.
//
//sumtype:decl
type Effect interface{ effect() }

// Effects.
type (
	// Request asks the store to delete. Answered follows; until then there is no other.
	Request struct{ Keys []string }
	// Wake asks for a Tick at a time. It replaces the Wake before it.
	Wake struct{ At pos.Millis }
)

func (Request) effect() {}
func (Wake) effect()    {}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	switch in := in.(type) {
	case Add:
		targets := make([]target, 0, len(in.Delete.Keys))
		for _, k := range in.Delete.Keys {
			targets = append(targets, target{key: k})
		}
		m.insert(m.roundUp(max(in.Delete.After, in.Now)), targets)
		return m.request(in.Now, out)
	case Answered:
		m.answered(in)
		return m.request(in.Now, out)
	case Tick:
		return m.request(in.Now, out)
	}
	return out
}

func (m *Machine) roundUp(at pos.Millis) pos.Millis {
	step := pos.Millis(m.cfg.Linger.Milliseconds())
	if step <= 1 {
		return at
	}
	return (at + step - 1) / step * step
}

// insert keeps the order by time. What does not fit is given up: better a leaked
// object than a node without memory.
func (m *Machine) insert(at pos.Millis, targets []target) {
	if over := m.keys + len(targets) + len(m.sent) - PendingKeys; over > 0 {
		over = min(over, len(targets))
		m.counts.GivenUp += int64(over)
		targets = targets[:len(targets)-over]
	}
	if len(targets) == 0 {
		return
	}
	m.keys += len(targets)
	i, found := slices.BinarySearchFunc(m.pending, at, func(g group, at pos.Millis) int { return cmp.Compare(g.at, at) })
	if found {
		m.pending[i].targets = append(m.pending[i].targets, targets...)
		return
	}
	m.pending = slices.Insert(m.pending, i, group{at: at, targets: targets})
}

func (m *Machine) request(now pos.Millis, out []Effect) []Effect {
	if m.sent != nil || m.keys == 0 {
		return out
	}
	if at := max(m.pending[0].at, m.next); at > now {
		return append(out, Wake{At: at})
	}
	for len(m.pending) > 0 && m.pending[0].at <= now && len(m.sent) < BatchKeys {
		g := &m.pending[0]
		n := min(len(g.targets), BatchKeys-len(m.sent))
		m.sent = append(m.sent, g.targets[:n]...)
		g.targets = g.targets[n:]
		m.keys -= n
		if len(g.targets) == 0 {
			m.pending = slices.Delete(m.pending, 0, 1)
		}
	}
	keys := make([]string, 0, len(m.sent))
	for _, t := range m.sent {
		keys = append(keys, t.key)
	}
	return append(out, Request{Keys: keys})
}

func (m *Machine) answered(in Answered) {
	sent := m.sent
	if sent == nil {
		return
	}
	m.sent = nil
	if in.Failed {
		m.counts.Failed += int64(len(sent))
		m.failed++
		m.next = in.Now.Add(backoff.Doubling{First: m.cfg.Retry, Last: m.cfg.MaxRetry}.After(m.failed))
		m.insert(in.Now, sent)
		return
	}
	m.failed, m.next = 0, 0
	refused := slices.Sorted(slices.Values(in.Refused))
	again := sent[:0]
	for _, t := range sent {
		_, isRefused := slices.BinarySearchFunc(refused, t.key, strings.Compare)
		if !isRefused {
			m.counts.Deleted++
			continue
		}
		m.counts.Failed++
		if t.tries++; t.tries >= MaxTries {
			m.counts.GivenUp++
			continue
		}
		again = append(again, t)
	}
	m.insert(in.Now.Add(m.cfg.MaxRetry), again)
}

// Counts returns what was counted so far.
func (m *Machine) Counts() Counts { return m.counts }

// Status returns the state for the operator.
func (m *Machine) Status() Status {
	return Status{Pending: m.keys, InFlight: len(m.sent), Failed: m.failed, Until: m.next}
}

func (m *Machine) check() error {
	n := 0
	for i, g := range m.pending {
		if len(g.targets) == 0 || i > 0 && g.at <= m.pending[i-1].at {
			return fmt.Errorf("C1: group %d of %d keys at %d is empty or out of order", i, len(g.targets), g.at)
		}
		n += len(g.targets)
	}
	if n != m.keys {
		return fmt.Errorf("C1: %d keys are pending, counted %d", n, m.keys)
	}
	if m.keys+len(m.sent) > PendingKeys {
		return fmt.Errorf("C2: %d keys are kept", m.keys+len(m.sent))
	}
	if m.sent != nil && (len(m.sent) == 0 || len(m.sent) > BatchKeys) {
		return fmt.Errorf("C3: a request of %d keys", len(m.sent))
	}
	return nil
}
