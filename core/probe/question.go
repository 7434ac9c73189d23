package probe

import (
	"fmt"
	"math"
	"time"

	"millrace/core/pos"
)

const (
	// Timeout is how long an answer is waited for before the store counts as away and the question
	// is put again.
	Timeout = 10 * time.Second
	// GiveUp is how long the tries at one question go on. A first claim is several requests.
	GiveUp = 3 * time.Minute
)

// question is one of the two, and its tries.
type question struct {
	asked pos.Millis // for the first time
	tried pos.Millis // for the last
	since Try        // those below were at what was asked before
	open  int        // tries; 0: it is not open
}

// ask opens a question.
func (m *Machine) ask(q Question, out []Effect) []Effect {
	m.questions[q] = question{asked: m.now, since: m.try + 1}
	return m.put(q, out)
}

// put puts a question, once more if it is open.
func (m *Machine) put(which Question, out []Effect) []Effect {
	q := &m.questions[which]
	m.try++
	q.tried, q.open = m.now, q.open+1
	within := q.asked.Add(GiveUp).Sub(m.now)
	if which == Whose {
		return append(out, Claim{Try: m.try, Within: within})
	}
	return append(out, Probe{Try: m.try, Within: within})
}

// answered ends a question, if this is its answer.
func (m *Machine) answered(which Question, try Try, a Answer, out []Effect) (bool, []Effect) {
	q := &m.questions[which]
	if q.open == 0 || try < q.since {
		return false, out
	}
	if q.open--; q.open > 0 && a.Late {
		return false, out
	}
	q.open = 0
	m.status.Checked = m.now
	return true, append(out, Drop{which})
}

// void ends a question without its answer.
func (m *Machine) void(q Question, out []Effect) []Effect {
	m.questions[q].open = 0
	return append(out, Drop{q})
}

// retryQuestion puts an open question again when it is time for that.
func (m *Machine) retryQuestion(which Question, out []Effect) []Effect {
	if m.now < m.questions[which].retryAt(m.now) {
		return out
	}
	m.unsure(fmt.Sprintf("no answer within %s", Timeout))
	return m.put(which, out)
}

// never is later than any time.
const never = pos.Millis(math.MaxInt64)

// retryAt is when a question is put again.
func (q *question) retryAt(now pos.Millis) pos.Millis {
	at := q.tried.Add(Timeout)
	if q.open == 0 || max(at, now) >= q.asked.Add(GiveUp) {
		return never
	}
	return at
}
