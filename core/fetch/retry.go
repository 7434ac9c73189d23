package fetch

import "time"

// clock is the back-off of one class of failure: the time doubles with each
// failure, and starts anew once what failed went well.
type clock struct {
	delay    time.Duration
	failures int
}

// clockBounds are the first and the longest time of each class's clock.
var clockBounds = [...]struct{ min, max time.Duration }{
	Unavailable: {100 * time.Millisecond, 2 * time.Second},
	Disabled:    {time.Second, 10 * time.Second},
	Fault:       {time.Second, 30 * time.Second},
	Throttled:   {time.Second, 30 * time.Second},
	Denied:      {5 * time.Second, time.Minute},
	Gone:        {time.Second, 30 * time.Second},
	Damaged:     {time.Second, time.Minute},
}

// doubtful is how often damage is read again before it is believed: a transfer can
// be damaged as well as what is stored.
const doubtful = 3

// wait stops for the class's time. A pull that nobody but an operator can help is
// answered at once.
func (m *Machine) wait(class Class, why string, out []Effect) []Effect {
	c := &m.s.retry.clocks[class]
	c.failures++
	c.delay = min(max(2*c.delay, clockBounds[class].min), clockBounds[class].max)
	m.s.ids++
	m.s.retry.timer = m.s.ids
	m.s.retry.last = &Error{Class: class, Stream: m.cfg.Stream, At: m.s.next, Why: why}
	out = append(out, SetTimer{ID: m.s.ids, After: c.delay}, Waiting{Err: *m.s.retry.last, After: c.delay})
	if m.s.pull.open && m.answerNow(m.s.retry.last) {
		return m.refuse(m.s.retry.last, out)
	}
	return out
}

// answerNow reports whether a pull should not wait for the error to pass.
func (m *Machine) answerNow(e *Error) bool {
	return e != nil && e.Lasting() && (e.Class != Damaged || m.s.retry.clocks[Damaged].failures >= doubtful)
}

// progress forgets all failures: a chunk came, or the tail was reached.
func (m *Machine) progress() {
	m.s.seeks, m.s.doubts = 0, 0
	m.s.retry = retry{}
}

// overcome forgets that these classes failed lately. The clocks of those that tell
// nothing until a chunk comes go on.
func (r *retry) overcome(classes ...Class) {
	for _, class := range classes {
		if class != Unavailable {
			r.clocks[class] = clock{}
		}
		if r.last != nil && r.last.Class == class {
			r.last = nil
		}
	}
}
