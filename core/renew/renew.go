package renew

import (
	"fmt"
	"math"
	"time"

	"millrace/core/backoff"
	"millrace/core/pos"
)

// Config is fixed for the life of a Machine. New fills in what is 0.
type Config struct {
	// Early is how long before their end credentials are fetched anew: 5 minutes. Of a life
	// shorter than twice that, it is half of what is left.
	Early time.Duration
	// Retry and MaxRetry bound the doubling pause after a failed fetch: 1 s and 60 s.
	Retry, MaxRetry time.Duration
	// RejectedPause is between the beginning of a fetch and of one that a refusal asks for: 5 s.
	RejectedPause time.Duration
	// LookEvery is the longest time without a look at the clock: 60 s.
	LookEvery time.Duration
}

func (c *Config) complete() {
	for _, d := range []struct {
		of   *time.Duration
		want time.Duration
	}{
		{&c.Early, 5 * time.Minute}, {&c.Retry, time.Second}, {&c.MaxRetry, time.Minute},
		{&c.RejectedPause, 5 * time.Second}, {&c.LookEvery, time.Minute},
	} {
		if *d.of <= 0 {
			*d.of = d.want
		}
	}
}

// never stands for the time of a fetch that is not planned.
const never pos.Millis = math.MaxInt64

// Machine holds what is known of the credentials in use.
//
// Invariants, which check verifies:
//
//	N1 one fetch at a time; while there is none, the time of the next one is set, unless
//	   what is in use never expires and was not refused
//	N2 what is in use has not expired
//	N3 what is not in use has no source, key id or expiry
//	N4 the next fetch is before the end of what is in use, of a life below Retry at most Retry
//	   after it, unless a failure or refusal set it
//	N5 the next fetch is never further away than a back-off or a life allows
type Machine struct {
	cfg      Config
	started  bool
	now      pos.Millis
	fetching bool
	began    pos.Millis // the last fetch
	due      pos.Millis // the next one, or never
	failures int        // in a row
	why      string     // of the last failure; "" after a success

	held    bool // there are credentials in use
	source  string
	keyID   string
	expires pos.Millis // 0: never
	refused bool       // the store refused what is in use, not long ago
	refusal pos.Millis // the last

	counts Counts
}

// Counts are what a Machine has counted since it was made.
type Counts struct {
	Refreshes int64 // fetches that succeeded
	Failures  int64 // fetches that failed
	Refusals  int64 // Rejected inputs
}

// Status is a Machine's state as the operator sees it.
type Status struct {
	// State is valid, expiring (valid, but no new ones could be had yet), refused (in use, but
	// the store does not take them), fetching (none in use, asking) or none (none in use,
	// waiting to ask again).
	State       string     `json:"state"`
	Source      string     `json:"source,omitempty"`
	AccessKeyID string     `json:"access_key_id,omitempty"`
	Expires     pos.Millis `json:"expires_ms,omitempty"` // 0: never, or none in use
	Why         string     `json:"why,omitempty"`        // the last fetch failed, or the store refuses them
	Until       pos.Millis `json:"until_ms,omitempty"`   // when they are fetched again; 0: not planned, or under way
}

// String says in words what is in use.
func (s Status) String() string {
	text := s.State
	if s.Source != "" {
		ends := "never expires"
		if s.Expires != 0 {
			ends = "expires " + s.Expires.Time().Format(time.RFC3339)
		}
		text = fmt.Sprintf("%s, key %s, %s, %s", s.Source, s.AccessKeyID, ends, s.State)
	}
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

// The states.
const (
	StateValid    = "valid"
	StateExpiring = "expiring"
	StateRefused  = "refused"
	StateFetching = "fetching"
	StateNone     = "none"
)

// New returns a machine without credentials.
func New(cfg Config) *Machine {
	cfg.complete()
	return &Machine{cfg: cfg, due: never}
}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	switch in := in.(type) {
	case Start:
		m.clock(in.Now)
		if !m.started {
			m.started, m.due = true, in.Now
		}
	case Fetched:
		m.clock(in.Now)
		out = m.fetched(in, out)
	case Failed:
		m.clock(in.Now)
		out = m.failed(in.Why, in.Random, out)
	case Rejected:
		m.clock(in.Now)
		out = m.rejected(out)
	case Tick:
		m.clock(in.Now)
	}
	return m.goOn(out)
}

// clock takes the time. One that was set back must not keep a retry waiting for as long
// as it was set back. Nobody says that the store takes credentials again: a minute
// without a refusal does.
func (m *Machine) clock(now pos.Millis) {
	m.now = now
	m.began, m.refusal = min(m.began, now), min(m.refusal, now)
	if m.refused && m.failures == 0 && !m.fetching && now.Sub(m.refusal) > m.cfg.MaxRetry {
		m.refused = false
	}
	if m.due != never && (m.failures > 0 || m.refused || !m.held) {
		m.due = min(m.due, now.Add(m.cfg.MaxRetry))
	}
}

func (m *Machine) fetched(in Fetched, out []Effect) []Effect {
	if !m.fetching {
		return out
	}
	if in.Expires != 0 && in.Expires <= m.now {
		why := fmt.Sprintf("the %s handed out credentials that expired at %s: its clock or this machine's is wrong", in.Source, in.Expires)
		return m.failed(why, in.Random, out)
	}
	other := !m.held || m.keyID != in.AccessKeyID || m.source != in.Source
	m.fetching, m.failures, m.why = false, 0, ""
	m.held, m.source, m.keyID, m.expires = true, in.Source, in.AccessKeyID, in.Expires
	m.counts.Refreshes++
	if in.Expires != 0 {
		m.due = m.renewal(in.Random)
	}
	out = append(out, Use{})
	if other {
		m.refused = false
		out = append(out, Note{Kind: Obtained})
	}
	return out
}

// renewal is when what was fetched just now is to be fetched anew. The jitter makes it
// later, not sooner: an instance role has new ones only Early before the end.
func (m *Machine) renewal(random uint64) pos.Millis {
	life := m.expires.Sub(m.now)
	early := min(m.cfg.Early, life/2)
	late := early / 10
	if late > 0 {
		late = time.Duration(random % uint64(late))
	}
	return m.now.Add(max(life-early+late, m.cfg.Retry))
}

func (m *Machine) failed(why string, random uint64, out []Effect) []Effect {
	if !m.fetching {
		return out
	}
	m.fetching, m.why = false, why
	m.failures++
	m.counts.Failures++
	m.due = m.now.Add(m.pause(random))
	if m.failures == 1 {
		out = append(out, Note{Kind: Failing, Why: why})
	}
	return out
}

// pause is the back-off.
func (m *Machine) pause(random uint64) time.Duration {
	return backoff.Doubling{First: m.cfg.Retry, Last: m.cfg.MaxRetry}.Jittered(m.failures, random)
}

func (m *Machine) rejected(out []Effect) []Effect {
	m.counts.Refusals++
	if !m.held {
		return out
	}
	if !m.refused {
		out = append(out, Note{Kind: Refused})
	}
	m.refused, m.refusal = true, m.now
	if m.fetching {
		return out
	}
	m.due = min(m.due, max(m.now, m.began.Add(m.cfg.RejectedPause)))
	return out
}

// goOn does what is due, and asks to be woken for what will be.
func (m *Machine) goOn(out []Effect) []Effect {
	if !m.started {
		return out
	}
	if m.held && m.expires != 0 && m.expires <= m.now {
		why := fmt.Sprintf("the credentials of the %s expired at %s and there are no new ones", m.source, m.expires)
		if m.why != "" {
			why += ": " + m.why
		}
		m.held, m.source, m.keyID, m.expires, m.refused = false, "", "", 0, false
		out = append(out, Drop{Why: why}, Note{Kind: Lost, Why: why})
		if !m.fetching && m.failures == 0 {
			m.due = max(m.now, m.began.Add(m.cfg.Retry)) // of a life shorter than that
		}
	}
	if !m.fetching && m.due <= m.now {
		m.fetching, m.began, m.due = true, m.now, never
		out = append(out, Fetch{})
	}
	at := min(m.now.Add(m.cfg.LookEvery), m.due)
	if m.expires != 0 {
		at = min(at, m.expires)
	}
	return append(out, Wake{At: at})
}

// Counts returns what was counted so far.
func (m *Machine) Counts() Counts { return m.counts }

// Status returns the state for the operator.
func (m *Machine) Status() Status {
	s := Status{State: StateNone, Source: m.source, AccessKeyID: m.keyID, Expires: m.expires, Why: m.why}
	if m.due != never {
		s.Until = m.due
	}
	switch {
	case m.held && m.refused:
		s.State = StateRefused
	case m.held && m.failures > 0:
		s.State = StateExpiring
	case m.held:
		s.State = StateValid
	case m.fetching:
		s.State = StateFetching
	}
	if m.refused {
		why := "the object store refuses them as expired or unknown"
		if s.Why != "" {
			why += ", and no others can be had: " + s.Why
		}
		s.Why = why
	}
	return s
}

func (m *Machine) check() error {
	if !m.started {
		return nil
	}
	if m.fetching && m.due != never {
		return fmt.Errorf("N1: another fetch is planned while one is under way")
	}
	if !m.fetching && m.due == never && (!m.held || m.expires != 0) {
		return fmt.Errorf("N1: no fetch is under way or planned: %+v", m.Status())
	}
	if m.held && m.expires != 0 && m.expires <= m.now {
		return fmt.Errorf("N2: in use at %s, expired at %s", m.now, m.expires)
	}
	if !m.held && (m.source != "" || m.keyID != "" || m.expires != 0 || m.refused) {
		return fmt.Errorf("N3: %+v of credentials that are not in use", m.Status())
	}
	if m.held && m.due != never && m.failures == 0 && !m.refused && m.due > m.expires.Add(m.cfg.Retry) {
		return fmt.Errorf("N4: renewed at %s, after the end at %s", m.due, m.expires)
	}
	if m.due != never && (m.failures > 0 || !m.held) && m.due > m.now.Add(m.cfg.MaxRetry) {
		return fmt.Errorf("N5: the next fetch is %s away after %d failures", m.due.Sub(m.now), m.failures)
	}
	return nil
}
