package pgout

import (
	"fmt"
	"time"

	"millrace/core/backoff"
	"millrace/core/pos"
)

// trouble is what the capture waits for.
type trouble struct {
	why, hint string
	retryAt   pos.Millis
	attempts  int
	loads     int // of the whole capture that failed in a row, but for an unavailable server
}

func (t *trouble) set(why, hint string) { t.why, t.hint = why, hint }

func (t *trouble) clear() { t.why, t.hint, t.retryAt = "", "", 0 }

// patience is how long an attempt must last for the back-off to begin anew.
const patience = 60 * 1000 // milliseconds

// slow is the wait where only somebody's hand helps.
const slow = 30 * time.Second

// loadRetryMax is the longest wait before a load that failed again and again: each voids,
// and appends anew what comes before its failure.
const loadRetryMax = time.Hour

// loadBackoff is the least wait after the n-th load that failed in a row.
func (m *Machine) loadBackoff(n int) time.Duration {
	if n < 2 {
		return 0
	}
	return backoff.Doubling{First: m.cfg.RetryMax, Last: loadRetryMax}.After(n - 1)
}

// loadFailed is the least wait after an attempt that ends now.
func (m *Machine) loadFailed() time.Duration {
	if m.stage < stLoad || m.stage > stSaveStreaming {
		return 0
	}
	m.trouble.loads++
	return m.loadBackoff(m.trouble.loads)
}

// backoff is the next wait: doubling from RetryMin to RetryMax.
func (m *Machine) backoff() time.Duration {
	m.trouble.attempts++
	return backoff.Doubling{First: m.cfg.RetryMin, Last: m.cfg.RetryMax}.After(m.trouble.attempts)
}

func (m *Machine) retryIn(d time.Duration) {
	m.trouble.retryAt = m.now.Add(d)
	m.enter(stWait)
}

// fail ends the attempt and waits as long as the failure calls for.
func (m *Machine) fail(f Failure) {
	if m.stage == stStream && m.now-m.stream.startedAt > patience {
		m.trouble.attempts = 0
	}
	wait := m.backoff()
	if f.Class == Denied || f.Class == Misconfigured {
		wait = max(wait, min(slow, m.cfg.RetryMax))
	}
	if f.Class != Unavailable {
		wait = max(wait, m.loadFailed())
	}
	m.halt(stWait)
	m.trouble.set(f.Why, f.Hint)
	m.retryIn(wait)
}

// again ends the attempt and looks again soon: the log's tail has moved.
func (m *Machine) again(why string) {
	wait := max(min(100*time.Millisecond, m.cfg.RetryMin), m.loadFailed())
	m.halt(stWait)
	m.trouble.set(why, "")
	m.retryIn(wait)
}

func (m *Machine) failed(in *Failed) {
	f := in.Fail
	switch in.Of.(type) {
	case *Append:
		m.again(f.Why)
		return
	case *Inspect:
		m.inspectedAgainAt()
		return
	case *SaveRow:
		if m.saveWhy == saveConfirm && f.Class == Unavailable {
			m.saveWhy = saveNone
			m.confirm.failed(m.now.Add(m.cfg.RetryMin), f.Why)
			return
		}
	case *StartStream:
		m.unreadable(f)
		if f.Class == SlotInUse && f.PID != 0 {
			m.halt(stFree)
			m.plan.PID = f.PID
			m.trouble.set(f.Why, f.Hint)
			return
		}
	case *CreateSlot, *Load:
		if m.stage.sub() {
			m.subFailed(f)
			return
		}
	case *Receive:
		m.unreadable(f)
	case *Look, *DropSlots, *EndBackend, *SaveTables, *WatchSync:
	case *CloseSnapshot, *CloseAll, *Confirm, *Timer, *Warn: // are not answered
	}
	m.fail(f)
}

// unreadable notes that the slot's WAL holds changes that can't be decoded: the next
// look treats the slot as lost.
func (m *Machine) unreadable(f Failure) {
	if f.Class == Unreadable {
		m.cantRead = f.Why
	}
}

// subFailed gives up loading the new tables for a while: the others stream on.
func (m *Machine) subFailed(f Failure) {
	m.emit(&CloseSnapshot{})
	m.log.seal(false)
	m.load = loading{}
	wait := max(m.backoff(), m.cfg.RetryMin)
	if f.Class != Unavailable {
		m.tables.failures++
		wait = max(wait, m.loadBackoff(m.tables.failures))
	}
	m.tables.retryAt = m.now.Add(wait)
	m.trouble.set(fmt.Sprintf("loading tables new in publication %q: %s", m.cfg.Publication, f.Why), f.Hint)
	m.enter(stStream)
}

// setTimer asks for the next moment at which something is due.
func (m *Machine) setTimer() {
	due := pos.Millis(0)
	sooner := func(t pos.Millis) {
		if t > 0 && (due == 0 || t < due) {
			due = t
		}
	}
	switch m.stage {
	case stWait:
		sooner(m.trouble.retryAt)
	case stStream:
		// A moment that has passed waits for the transaction's end, not for time.
		if len(m.tables.fresh) > 0 && m.tables.retryAt > m.now {
			sooner(m.tables.retryAt)
		}
		sooner(m.confirm.dueAt(m))
	default: // goes on with an answer, not with time
	}
	if since := m.log.standsSince(); since != 0 && m.stage >= stStream {
		sooner(since.Add(letGoAfter))
	}
	sooner(m.inspect.dueAt(m.stage))
	if due != 0 && due != m.timerAt {
		m.timerAt = due
		m.emit(&Timer{At: max(due, m.now)})
	}
}
