package storemonitor

import (
	"context"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/probe"
)

// A question that is not answered within timeout says that the store is away. It is put again
// so often, beside what is open, and given up at givenUpAt: a store that is back is found to be
// soon, and one that needs long for each answer is understood.
const (
	timeout   = 10 * time.Second
	givenUpAt = 3 * time.Minute // a first claim is several requests
)

// question is one of the machine's, while it is open. Whatever comes first is the answer, but
// for one that gave up waiting while another has not.
type question struct {
	name  string
	put   func(ctx context.Context) error
	input func(probe.Answer) probe.Input // that ends it
	until time.Time
	tries []*actors.Task
	open  int // of these
}

// Messages to itself, of a question.
type (
	answered struct {
		to  *question
		err error
	}
	again struct{ to *question }
)

func (m *monitor) ask(c *actors.Context, q *question) {
	m.open, q.until = q, time.Now().Add(givenUpAt)
	m.try(c, q)
}

// try puts a question once more, as long as it is not to be given up.
func (m *monitor) try(c *actors.Context, q *question) {
	if !time.Now().Before(q.until) {
		return
	}
	q.open++
	q.tries = append(q.tries, c.Task(q.name, func(ctx context.Context) any {
		ctx, cancel := context.WithDeadline(ctx, q.until)
		defer cancel()
		return answered{q, q.put(ctx)}
	}))
	c.After(timeout, again{q})
}

func (m *monitor) answered(c *actors.Context, a answered) {
	q := a.to
	if q != m.open {
		return // it is answered
	}
	if q.open--; q.open > 0 && port.ClassOf(a.err) == port.Timeout {
		return
	}
	m.open, m.refused = nil, a.err
	for _, t := range q.tries {
		t.Cancel()
	}
	m.step(c, q.input(answerOf(a.err)))
}
