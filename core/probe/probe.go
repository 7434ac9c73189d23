package probe

import (
	"fmt"
	"time"

	"millrace/core/pos"
)

const (
	// Interval is between rounds while all is well, unless New is given another.
	Interval = 5 * time.Minute
	// Retry is between rounds otherwise; never longer than the interval.
	Retry = 5 * time.Second
	// Active is how old the last look at the owner may be while something is stored.
	Active = 10 * time.Second
)

// Machine holds what is known of the store.
//
// Invariants, which check verifies:
//
//	S1 while it is not asked whose the prefix is, the time of the next round is set
//	S2 what is admitted is ours: owned exactly if the last word on the owner was ours
//	S3 nothing is known to be Accessible while the prefix is not known to be ours, nor that while
//	   a marker is put
//	S4 the state is NoBucket, Foreign, Unmarked or Damaged only while the prefix is not ours
//	S5 the next round is at most the interval away, Retry while not all is well
//	S6 nobody waits for a look but while it is asked whose the prefix is
type Machine struct {
	interval  time.Duration
	started   bool
	now       pos.Millis
	questions [Whether + 1]question
	try       Try        // the last one
	next      pos.Millis // round
	again     bool       // one is asked for while it is asked whose the prefix is
	used      bool       // something was put since that was asked
	nextBrief bool       // the next round asks for the owner only, if all is well
	brief     bool       // this one does
	suspect   bool       // the store may be another one than the one that was ours
	refused   bool       // Refuse was the last that was said of the prefix
	claim     Answer     // the last one
	claimed   pos.Millis // when it came
	looks     []uint64   // that the next round answers
	looking   []uint64   // that this one does
	owned     bool
	restoring restoring
	status    Status
}

// Status is what is known of the store, as the operator sees it.
type Status struct {
	// State is yes, no or unknown. No failure to ask takes back a yes or a no.
	State string     `json:"state"`
	Why   string     `json:"why,omitempty"`   // of no
	Since pos.Millis `json:"since_ms"`        // of the state
	Owned bool       `json:"owned"`           // the prefix is known to be ours: uploads and deletions pass
	Owner string     `json:"owner,omitempty"` // the cluster that owns the prefix instead
	// UnsureSince is when the answers began to say nothing; 0: the last one was definite.
	UnsureSince pos.Millis `json:"unsure_since_ms,omitempty"`
	UnsureWhy   string     `json:"unsure_why,omitempty"`
	Checked     pos.Millis `json:"checked_ms,omitempty"` // the last answer; 0: there was none

	Verdict Verdict `json:"-"` // the last definite one; Unsure: there was none
}

// The states.
const (
	StateUnknown = "unknown"
	StateYes     = "yes"
	StateNo      = "no"
)

// Definite reports whether what is known is known as of the last answer.
func (s Status) Definite() bool { return s.Verdict != Unsure && s.UnsureSince == 0 }

// well reports whether the last answer was that all is in order.
func (s Status) well() bool { return s.Definite() && s.Verdict == Accessible }

// String says in words whether the store is accessible, and if not, why not.
func (s Status) String() string {
	if s.Definite() {
		return s.said()
	}
	text := "unknown since " + max(s.UnsureSince, s.Since).Time().Format(time.RFC3339)
	switch {
	case s.UnsureWhy != "":
		text += " (" + s.UnsureWhy + ")"
	case s.Checked == 0:
		text += " (it has not answered yet)"
	}
	if s.Verdict != Unsure {
		text += "; " + s.verdict() + " before that"
	}
	return text
}

func (s Status) verdict() string {
	switch s.Verdict {
	case Unsure:
	case Accessible:
		return StateYes
	case NoBucket:
		return "no (bucket does not exist)"
	case Denied:
		return "no (access denied)"
	case Foreign:
		return "no (owned by cluster " + s.Owner + ")"
	case Unmarked:
		return "no (the cluster's marker is missing)"
	case Damaged:
		return "no (the cluster's marker is damaged)"
	}
	return StateUnknown
}

// said is the verdict with the reason.
func (s Status) said() string {
	if s.Why == "" {
		return s.verdict()
	}
	return s.verdict() + ": " + s.Why
}

// New returns a machine that knows nothing. interval: between rounds while all is well; not
// above 0: Interval.
func New(interval time.Duration) *Machine {
	if interval <= 0 {
		interval = Interval
	}
	return &Machine{interval: interval, status: Status{State: StateUnknown}}
}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	before := m.status
	switch in := in.(type) {
	case Start:
		m.clock(in.Now)
		if !m.started {
			m.started, m.next, m.owned, m.suspect = true, in.Now, in.Owned, in.Disowned
			m.status.Since, m.status.Owned = in.Now, in.Owned
			before = m.status
			if m.owned && !m.suspect {
				out = append(out, Owned{}) // the one before may have had no time to say so
			}
		}
	case Claimed:
		m.clock(in.Now)
		out = m.claimAnswered(in, out)
	case Probed:
		m.clock(in.Now)
		out = m.probeAnswered(in, out)
	case Restore:
		m.clock(in.Now)
		out = m.restore(in.ID, out)
	case MarkerPut:
		m.clock(in.Now)
		out = m.markerPut(in, out)
	case Look:
		m.clock(in.Now)
		m.looks = append(m.looks, in.ID)
		m.lookAnew()
	case Stored:
		m.clock(in.Now)
		m.used = true
		m.active()
	case Doubt:
		m.clock(in.Now)
		m.nextBrief, m.brief = false, false
		m.next = min(m.next, max(m.now, min(m.status.Checked, m.now).Add(m.retry())))
	case Tick:
		m.clock(in.Now)
		out = m.retryQuestion(Whether, m.retryQuestion(Whose, out))
	}
	if m.status.well() && !before.well() {
		out = append(out, Back{})
	}
	if s := m.status; s.UnsureSince != 0 && before.UnsureSince == 0 {
		out = append(out, Away{Since: s.UnsureSince, Why: s.UnsureWhy})
	}
	if m.status.Verdict != before.Verdict || m.status.Owner != before.Owner || (m.status.UnsureSince == 0) != (before.UnsureSince == 0) {
		out = append(out, Note{Status: m.status, Before: before})
	}
	return m.goOn(m.looked(out))
}

// lookAnew has a round begin now, or after the one that is under way.
func (m *Machine) lookAnew() { m.next, m.again = m.now, m.open(Whose) }

func (m *Machine) open(q Question) bool { return m.questions[q].open > 0 }

// looked answers whoever asked for the round that has learned whose the prefix is.
func (m *Machine) looked(out []Effect) []Effect {
	if m.open(Whose) {
		return out
	}
	for _, id := range m.looking {
		out = append(out, Looked{ID: id, Ours: m.claim.Verdict == Accessible})
	}
	m.looking = nil
	return out
}

// clock takes the time. One that was set back must not keep the next round waiting.
func (m *Machine) clock(now pos.Millis) {
	m.now, m.claimed, m.restoring.asked = now, min(m.claimed, now), min(m.restoring.asked, now)
	for i := range m.questions {
		q := &m.questions[i]
		q.asked, q.tried = min(q.asked, now), min(q.tried, now)
	}
}

func (m *Machine) claimAnswered(in Claimed, out []Effect) []Effect {
	a, answered := in.Answer, false
	if answered, out = m.answered(Whose, in.Try, a, out); !answered {
		return out
	}
	if a.Verdict == Accessible && m.restoring.underWay() {
		a = Answer{Why: marking}
	}
	m.claim, m.claimed = a, m.now
	switch a.Verdict {
	case NoBucket, Foreign, Unmarked, Damaged:
		return m.disown(a, out)
	case Accessible:
		out = m.own(out)
		if m.status.Verdict.disowns() {
			m.status = Status{State: StateUnknown, Since: m.now, Owned: true, Checked: m.now}
		}
	case Unsure, Denied:
	}
	switch {
	case m.open(Whether):
		m.plan()
	case m.brief && a.Verdict == Accessible && m.status.well():
		m.conclude(a)
	default:
		m.plan()
		out = m.ask(Whether, out)
	}
	return out
}

// own has found the prefix to be ours.
func (m *Machine) own(out []Effect) []Effect {
	was := m.owned
	m.owned, m.status.Owned, m.refused = true, true, false
	if !was {
		out = append(out, Admit{})
	}
	switch {
	case m.suspect:
		m.suspect = false
		return append(out, Reclaimed{})
	case !was:
		return append(out, Owned{})
	}
	return out
}

// probeAnswered ends a round. What the claim met counts where the probe met nothing: a store may
// answer and refuse the marker.
func (m *Machine) probeAnswered(in Probed, out []Effect) []Effect {
	a, answered := in.Answer, false
	if answered, out = m.answered(Whether, in.Try, a, out); !answered {
		return out
	}
	if a.Verdict == Accessible && m.claim.Verdict != Accessible {
		a = m.claim
	}
	if a.Verdict.disowns() {
		return m.disown(a, out)
	}
	m.conclude(a)
	return out
}

// voidClaim ends the first question without its answer: who waits for that waits for a new one.
func (m *Machine) voidClaim(out []Effect) []Effect {
	if !m.open(Whose) {
		return out
	}
	m.looks, m.looking = append(m.looking, m.looks...), nil
	return m.void(Whose, out)
}

// disown ends a round that found the prefix not to be ours: how it is with a write is of no
// interest.
func (m *Machine) disown(a Answer, out []Effect) []Effect {
	if m.open(Whether) {
		out = m.void(Whether, out)
	}
	// It was asked before the store said that.
	out = m.voidClaim(out)
	m.again = m.again || len(m.looks) > 0
	if !m.refused || m.status.Verdict != a.Verdict || m.status.Owner != a.Owner {
		out = append(out, Refuse{})
	}
	m.owned, m.suspect, m.refused = false, true, true
	m.conclude(a)
	return out
}

// conclude ends a round with what it found.
func (m *Machine) conclude(a Answer) {
	if a.Verdict == Unsure {
		m.unsure(a.Why)
	} else {
		m.definite(a)
	}
	m.plan()
}

// plan sets the next round.
func (m *Machine) plan() {
	if m.open(Whose) {
		return // which is one, and plans the next
	}
	m.next, m.nextBrief = m.now.Add(m.wait()), false
	if m.again {
		m.again, m.next = false, m.now
	}
	m.active()
}

// active sets a round for what was put.
func (m *Machine) active() {
	at := max(m.now, m.claimed.Add(Active))
	if m.used && at < m.next {
		m.next, m.nextBrief = at, true
	}
}

// wait is how long after a round the next one is.
func (m *Machine) wait() time.Duration {
	if m.status.well() {
		return m.interval
	}
	return m.retry()
}

func (m *Machine) retry() time.Duration { return min(Retry, m.interval) }

func (m *Machine) unsure(why string) {
	if m.status.UnsureSince == 0 {
		m.status.UnsureSince = m.now
	}
	m.status.UnsureWhy = why
}

func (m *Machine) definite(a Answer) {
	s := &m.status
	s.UnsureSince, s.UnsureWhy = 0, ""
	if s.Verdict != a.Verdict {
		s.Since = m.now
	}
	s.Verdict, s.Owned, s.State, s.Why, s.Owner = a.Verdict, m.owned, StateNo, a.Why, a.Owner
	if a.Verdict == Accessible {
		s.State, s.Why = StateYes, ""
	}
}

// goOn begins the round that is due, and asks to be woken for what will be.
func (m *Machine) goOn(out []Effect) []Effect {
	if !m.started {
		return out
	}
	m.next = min(m.next, m.now.Add(m.wait()))
	if !m.open(Whose) && m.next <= m.now {
		m.looking, m.looks = m.looks, nil
		m.brief, m.used = m.nextBrief, false
		out = m.ask(Whose, out)
	}
	at := min(m.questions[Whose].retryAt(m.now), m.questions[Whether].retryAt(m.now))
	if !m.open(Whose) {
		at = min(at, m.next)
	}
	if at == never {
		return out
	}
	return append(out, Wake{At: at})
}

// Owned reports whether the prefix is known to be ours.
func (m *Machine) Owned() bool { return m.owned }

// Status returns the state for the operator.
func (m *Machine) Status() Status { return m.status }

func (m *Machine) check() error {
	s := m.status
	if !m.started {
		return nil
	}
	if !m.open(Whose) && m.next <= m.now {
		return fmt.Errorf("S1: it is not asked whose the prefix is, and the next round is past: %s at %s", m.next, m.now)
	}
	if !m.open(Whose) && len(m.looks)+len(m.looking) > 0 {
		return fmt.Errorf("S6: %v and %v wait for a look", m.looks, m.looking)
	}
	if s.Owned != m.owned {
		return fmt.Errorf("S2: shown as owned %v, is %v", s.Owned, m.owned)
	}
	if s.well() && !m.owned || m.owned && m.restoring.underWay() {
		return fmt.Errorf("S3: %s, ours %v, for %v a marker is put", s, m.owned, m.restoring.ids)
	}
	if (s.Verdict == Foreign) != (s.Owner != "") || s.Verdict.disowns() && m.owned {
		return fmt.Errorf("S4: verdict %d, owner %q, ours %v", s.Verdict, s.Owner, m.owned)
	}
	if m.next > m.now.Add(m.wait()) {
		return fmt.Errorf("S5: the next round is %s away", m.next.Sub(m.now))
	}
	return nil
}
