package pace

import (
	"fmt"
	"slices"

	"millrace/core/pos"
)

// Config is fixed for the life of a Machine.
type Config struct {
	BytesPerSecond int64 // not above 0: no limit
	// Burst is how many bytes may go at once after a pause. 0 is allowed: then every
	// transfer waits until the debt of the one before it is paid.
	Burst int64
	// MaxInFlight is how many transfers may be granted and not done at once; not above 0:
	// any number. More than the store has connections for would only wait behind them
	// with their deadlines running.
	MaxInFlight int
}

// DefaultBurst returns the burst that goes with a rate: a fifth of a second.
func DefaultBurst(bytesPerSecond int64) int64 { return bytesPerSecond / 5 }

// perByte is how many parts a byte's token is divided into: then a rate in bytes a
// second adds whole parts each millisecond, and the slowest rate still moves.
const perByte = 1000

// Machine is the bucket and its queue.
//
// Invariants, which check verifies:
//
//	P1 the tokens never exceed the burst
//	P2 without a limit nothing waits
//	P3 with something waiting, the tokens do not suffice for the first of it, or as many
//	   transfers as may are under way
//	P4 no owner has the same ref granted twice
//	P5 the sums of bytes are those of what they sum
type Machine struct {
	cfg     Config
	parts   int64      // tokens, in parts of a byte; negative: debt
	filled  pos.Millis // up to when parts counts
	waiting []Submit
	granted map[Owner]map[Ref]int64

	waitingBytes int64
	grantedBytes int64
	grantedCount int
	counts       Counts
}

// Counts are what a Machine has counted since it was made.
type Counts struct {
	Submitted int64 // transfers asked for
	Granted   int64
	Oversized int64 // granted to a transfer larger than the burst, which left a debt
	Dropped   int64 // asked for by an owner that was dead when its turn came
}

// Status is a Machine's state as the operator sees it.
type Status struct {
	BytesPerSecond int64 `json:"bytes_per_second"` // 0: no limit
	MaxInFlight    int   `json:"max_in_flight"`    // 0: no limit
	Burst          int64 `json:"burst_bytes"`
	// FullAt is when all debt is paid and the whole burst may go at once; past: since then.
	FullAt        pos.Millis `json:"full_at_ms"`
	Waiting       int        `json:"waiting"`
	WaitingBytes  int64      `json:"waiting_bytes"`
	InFlight      int        `json:"in_flight"`
	InFlightBytes int64      `json:"in_flight_bytes"`
}

// New returns a machine whose bucket is full.
func New(cfg Config, now pos.Millis) *Machine {
	cfg.BytesPerSecond, cfg.Burst = max(cfg.BytesPerSecond, 0), max(cfg.Burst, 0)
	return &Machine{cfg: cfg, parts: cfg.Burst * perByte, filled: now, granted: map[Owner]map[Ref]int64{}}
}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	switch in := in.(type) {
	case Ask:
		m.fill(in.Now)
		m.ask(in)
	case End:
		m.fill(in.Now)
		m.release(in.Done.Owner, in.Done.Ref)
	case Withdraw:
		m.fill(in.Now)
		m.withdraw(in.Cancel)
	case OwnerDown:
		m.fill(in.Now)
		m.ownerDown(in.Owner)
	case Tick:
		m.fill(in.Now)
	}
	return m.grant(out)
}

func (m *Machine) ask(in Ask) {
	m.counts.Submitted++
	if in.Dead {
		m.counts.Dropped++
		return
	}
	m.waiting = append(m.waiting, in.Submit)
	m.waitingBytes += in.Submit.Bytes
}

// fill adds the tokens of the time that passed. A clock that ran backwards adds none.
func (m *Machine) fill(now pos.Millis) {
	elapsed := int64(now - m.filled)
	m.filled = now
	if elapsed <= 0 || m.cfg.BytesPerSecond == 0 {
		return
	}
	room := m.cfg.Burst*perByte - m.parts
	if elapsed > room/m.cfg.BytesPerSecond { // also keeps the product from overflowing
		m.parts += room
		return
	}
	m.parts += elapsed * m.cfg.BytesPerSecond
}

func (m *Machine) grant(out []Effect) []Effect {
	for len(m.waiting) > 0 {
		s := m.waiting[0]
		if m.busy() {
			return out // a Done, or the end of an owner, lets it go on
		}
		if lack := m.lack(s); lack > 0 {
			wait := (lack + m.cfg.BytesPerSecond - 1) / m.cfg.BytesPerSecond
			return append(out, Wake{At: m.filled + pos.Millis(wait)})
		}
		m.waiting = m.waiting[1:]
		m.waitingBytes -= s.Bytes
		if m.cfg.BytesPerSecond > 0 {
			m.parts -= s.Bytes * perByte
			if s.Bytes > m.cfg.Burst {
				m.counts.Oversized++
			}
		}
		m.hold(s)
		out = append(out, Grant{Owner: s.Owner, Ref: s.Ref})
	}
	m.waiting = nil
	return out
}

func (m *Machine) busy() bool { return m.cfg.MaxInFlight > 0 && m.grantedCount >= m.cfg.MaxInFlight }

// lack returns how many parts are missing until s can be granted.
func (m *Machine) lack(s Submit) int64 {
	if m.cfg.BytesPerSecond == 0 {
		return 0
	}
	return min(s.Bytes, m.cfg.Burst)*perByte - m.parts
}

func (m *Machine) hold(s Submit) {
	refs := m.granted[s.Owner]
	if refs == nil {
		refs = map[Ref]int64{}
		m.granted[s.Owner] = refs
	}
	if old, twice := refs[s.Ref]; twice {
		m.grantedBytes -= old
		m.grantedCount--
	}
	refs[s.Ref] = s.Bytes
	m.grantedBytes += s.Bytes
	m.grantedCount++
	m.counts.Granted++
}

func (m *Machine) release(o Owner, ref Ref) {
	refs := m.granted[o]
	bytes, ok := refs[ref]
	if !ok {
		return
	}
	delete(refs, ref)
	m.grantedBytes -= bytes
	m.grantedCount--
	if len(refs) == 0 {
		delete(m.granted, o)
	}
}

// withdraw looks at both the queue and what runs: the same ref can be in both,
// when it was submitted again.
func (m *Machine) withdraw(c Cancel) {
	m.waiting = slices.DeleteFunc(m.waiting, func(s Submit) bool {
		gone := s.Owner == c.Owner && slices.Contains(c.Refs, s.Ref)
		if gone {
			m.waitingBytes -= s.Bytes
		}
		return gone
	})
	for _, ref := range c.Refs {
		m.release(c.Owner, ref)
	}
}

func (m *Machine) ownerDown(o Owner) {
	m.waiting = slices.DeleteFunc(m.waiting, func(s Submit) bool {
		gone := s.Owner == o
		if gone {
			m.waitingBytes -= s.Bytes
			m.counts.Dropped++
		}
		return gone
	})
	for ref := range m.granted[o] {
		m.release(o, ref)
	}
}

// Counts returns what was counted so far.
func (m *Machine) Counts() Counts { return m.counts }

// Status returns the state for the operator.
func (m *Machine) Status() Status {
	full := m.filled
	if rate := m.cfg.BytesPerSecond; rate > 0 {
		full += pos.Millis((m.cfg.Burst*perByte - m.parts + rate - 1) / rate)
	}
	return Status{
		BytesPerSecond: m.cfg.BytesPerSecond, MaxInFlight: max(m.cfg.MaxInFlight, 0), Burst: m.cfg.Burst, FullAt: full,
		Waiting: len(m.waiting), WaitingBytes: m.waitingBytes,
		InFlight: m.grantedCount, InFlightBytes: m.grantedBytes,
	}
}

func (m *Machine) check() error {
	if m.parts > m.cfg.Burst*perByte {
		return fmt.Errorf("P1: %d parts of a token, the burst is %d bytes", m.parts, m.cfg.Burst)
	}
	if m.cfg.BytesPerSecond == 0 && m.cfg.MaxInFlight <= 0 && len(m.waiting) > 0 {
		return fmt.Errorf("P2: %d wait though there is no limit", len(m.waiting))
	}
	if len(m.waiting) > 0 && !m.busy() && m.lack(m.waiting[0]) <= 0 {
		return fmt.Errorf("P3: %+v waits though the bucket holds %d parts", m.waiting[0], m.parts)
	}
	count, bytes, waiting := 0, int64(0), int64(0)
	for o, refs := range m.granted {
		if len(refs) == 0 {
			return fmt.Errorf("P4: %v is kept without a grant", o)
		}
		count += len(refs)
		for _, b := range refs {
			bytes += b
		}
	}
	for _, s := range m.waiting {
		waiting += s.Bytes
	}
	if count != m.grantedCount || bytes != m.grantedBytes || waiting != m.waitingBytes {
		return fmt.Errorf("P5: %d granted with %d bytes and %d bytes waiting, counted %d, %d and %d",
			count, bytes, waiting, m.grantedCount, m.grantedBytes, m.waitingBytes)
	}
	return nil
}
