package decide

import (
	"fmt"
	"slices"
	"time"
)

// verb is what a step of the plan does.
type verb uint8

const (
	nothing verb = iota
	start
	stop
	stopAll
	say // emit an action that awaits no answer
)

// cause is on whose behalf a child is started or stopped.
type cause uint8

const (
	byBoot    cause = iota
	byAdd           // StartChild
	byCall          // RestartChild, TerminateChild
	byRestart       // the strategy
	byShutdown
)

// step is one piece of the plan.
type step struct {
	do     verb
	child  *child
	cause  cause
	action Action // of say
}

// Step takes one event at a moment, given as the time since any fixed instant, and
// appends the actions that are due.
func (m *Machine) Step(ev Event, now time.Duration, out []Action) []Action {
	m.state.now, m.state.out = now.Milliseconds(), out
	m.take(ev)
	m.advance()
	out, m.state.out = m.state.out, nil
	return out
}

func (m *Machine) take(ev Event) {
	if m.state.awaiting.do != nothing && !isAnswer(ev) && !isLast(ev) {
		panic(fmt.Sprintf("decide: %T while an action awaits its answer", ev))
	}
	switch ev := ev.(type) {
	case Started:
		m.started(m.answered(ev, ev.ID, start), ev.Incarnation)
	case Ignored:
		m.ignored(m.answered(ev, ev.ID, start))
	case Failed:
		m.failed(m.answered(ev, ev.ID, start), ev.Why)
	case Cancelled:
		m.cancelled(m.answered(ev, ev.ID, start))
	case Stopped:
		m.stopped(ev)
	case Boot:
		m.boot()
	case Exited:
		m.exited(ev)
	case Retry:
		m.retry(ev)
	case StartChild:
		m.startChild(ev)
	case TerminateChild:
		m.terminateChild(ev)
	case RestartChild:
		m.restartChild(ev)
	case DeleteChild:
		m.deleteChild(ev)
	case ShutdownAll:
		m.shutdownAll(ev)
	default:
		panic(fmt.Sprintf("decide: unknown event %T", ev))
	}
}

// isAnswer tells the events that answer an action from those that come between actions.
func isAnswer(ev Event) bool {
	switch ev.(type) {
	case Started, Ignored, Failed, Cancelled, Stopped:
		return true
	case Boot, Exited, Retry, StartChild, TerminateChild, RestartChild, DeleteChild, ShutdownAll:
	}
	return false
}

// isLast tells the event that also comes instead of an answer.
func isLast(ev Event) bool {
	_, last := ev.(ShutdownAll)
	return last
}

// answered takes the step that this event answers.
func (m *Machine) answered(ev Event, id string, want verb) step {
	s := m.state.awaiting
	if s.do != want || s.child.spec.ID != id {
		panic(fmt.Sprintf("decide: %T for %s answers no action", ev, id))
	}
	m.state.awaiting = step{}
	return s
}

// advance carries the plan out as far as the next action that awaits an answer.
func (m *Machine) advance() {
	for m.state.awaiting.do == nothing && len(m.state.plan) > 0 {
		s := m.state.plan[0]
		m.state.plan = m.state.plan[1:]
		switch s.do {
		case start:
			s.child.state = Starting
			m.await(s, 1, Start{ID: s.child.spec.ID})
		case stop:
			if s.child.incarnation == 0 {
				m.finishStop(s)
				continue
			}
			m.await(s, 1, m.stopAction(s.child))
		case stopAll:
			var all StopAll
			for _, c := range m.state.children {
				if c.incarnation != 0 {
					all.Children = append(all.Children, m.stopAction(c))
				}
			}
			if len(all.Children) > 0 {
				m.await(s, len(all.Children), all)
			}
		case say:
			m.emit(s.action)
		case nothing: // stands in no plan
		}
	}
	if m.state.awaiting.do == nothing {
		m.state.plan = nil
	}
}

func (m *Machine) await(s step, answers int, a Action) {
	m.state.awaiting, m.state.open = s, answers
	m.emit(a)
}

func (m *Machine) stopAction(c *child) Stop {
	c.state = Stopping
	return Stop{ID: c.spec.ID, Incarnation: c.incarnation, Shutdown: c.spec.Shutdown}
}

func (m *Machine) then(steps ...step) { m.state.plan = append(m.state.plan, steps...) }

func (m *Machine) emit(a Action) { m.state.out = append(m.state.out, a) }

func (m *Machine) report(k ReportKind, c *child, why string) {
	m.emit(Report{
		Kind: k, ID: c.spec.ID, Incarnation: c.incarnation, Why: why,
		Restarts: m.Restarts(time.Duration(m.state.now) * time.Millisecond),
	})
}

func (m *Machine) boot() {
	for _, c := range m.state.children {
		m.then(step{do: start, child: c, cause: byBoot})
	}
	m.then(step{do: say, action: Ready{}})
	m.state.phase = up
}

func (m *Machine) started(s step, incarnation uint64) {
	c := s.child
	if incarnation == 0 || m.findProcess(incarnation) != nil {
		panic(fmt.Sprintf("decide: incarnation %d of %s is not new", incarnation, c.spec.ID))
	}
	c.state, c.incarnation = Running, incarnation
	m.enter(c)
	if s.cause == byRestart {
		m.report(ChildRestarted, c, "")
	} else {
		m.report(ChildStarted, c, "")
	}
	if s.cause == byAdd || s.cause == byCall {
		m.reply(c.spec.ID, OK, incarnation, "")
	}
}

func (m *Machine) ignored(s step) {
	m.report(ChildIgnored, s.child, "")
	m.vacate(s.child)
	if s.cause == byAdd || s.cause == byCall {
		m.reply(s.child.spec.ID, OKIgnored, 0, "")
	}
}

func (m *Machine) failed(s step, why string) {
	c := s.child
	m.report(ChildFailed, c, why)
	switch s.cause {
	case byBoot:
		m.vacate(c)
		m.state.plan, m.state.phase = nil, leaving
		m.stopInReverse(m.state.children, byShutdown)
		m.then(step{do: say, action: BootFailed{ID: c.spec.ID, Why: why}})
	case byAdd:
		c.state = Undefined
		m.drop(c)
		m.reply(c.spec.ID, StartFailed, 0, why)
	case byCall:
		c.state = Undefined
		m.reply(c.spec.ID, StartFailed, 0, why)
	case byRestart:
		// The children of the group that were to follow stay without a process until this
		// one's next attempt, which starts the group again.
		c.state = Restarting
		c.attempt++
		m.state.plan = nil
		m.emit(RetryLater{ID: c.spec.ID, Attempt: c.attempt})
	case byShutdown: // starts nothing
	}
}

// cancelled: a start is no error when the supervisor was told to stop before it was done.
// Who called for it hears what the next caller will: that the supervisor stops.
func (m *Machine) cancelled(s step) {
	if s.cause == byAdd {
		s.child.state = Undefined
		m.drop(s.child)
	}
	m.leave()
	if s.cause == byAdd || s.cause == byCall {
		m.reply(s.child.spec.ID, Leaving, 0, "")
	}
}

func (m *Machine) stopped(ev Stopped) {
	s := m.state.awaiting
	c := m.find(ev.ID)
	if (s.do != stop && s.do != stopAll) || c == nil || c.state != Stopping {
		panic(fmt.Sprintf("decide: Stopped for %s answers no action", ev.ID))
	}
	if ev.Fault != "" {
		m.report(StopFault, c, ev.Fault)
	}
	s.child = c
	m.finishStop(s)
	if m.state.open--; m.state.open == 0 {
		m.state.awaiting = step{}
	}
}

// finishStop does what follows once a child has no process.
func (m *Machine) finishStop(s step) {
	m.vacate(s.child)
	if s.cause == byCall {
		m.reply(s.child.spec.ID, OK, 0, "")
	}
}

// exited: rules 2 and 4.
func (m *Machine) exited(ev Exited) {
	c := m.findProcess(ev.Incarnation)
	if c == nil {
		return
	}
	m.report(ChildTerminated, c, ev.Why)
	restart := c.spec.Restart == Permanent || c.spec.Restart == Transient && ev.Abnormal
	if m.state.phase == up && restart {
		delete(m.state.byIncarnation, c.incarnation)
		c.state, c.incarnation = Undefined, 0
		m.restart(c)
		return
	}
	if m.state.phase == up && ev.GaveUp {
		m.report(ChildParked, c, ev.Why)
	}
	m.vacate(c)
	if m.state.phase == up && c.spec.Significant && m.significanceSpent() {
		m.report(SignificantEnded, c, ev.Why)
		m.exit(Exit{Why: "significant child " + c.spec.ID + " ended: " + ev.Why})
	}
}

// significanceSpent reports whether the end of a significant child ends the supervisor.
func (m *Machine) significanceSpent() bool {
	switch m.flags.AutoShutdown {
	case AnySignificant:
		return true
	case AllSignificant:
		return !slices.ContainsFunc(m.state.children, func(c *child) bool {
			return c.spec.Significant && c.state != Undefined
		})
	case NeverShutdown:
	}
	return false
}

func (m *Machine) retry(ev Retry) {
	c := m.find(ev.ID)
	if m.state.phase == up && c != nil && c.state == Restarting && c.attempt == ev.Attempt {
		m.restart(c)
	}
}

// restart: rules 3 and 7.
func (m *Machine) restart(c *child) {
	if !m.charge() {
		m.report(IntensityReached, c, "")
		m.vacate(c)
		why := fmt.Sprintf("more than %d restarts in %v, the last of child %s", m.flags.Intensity, m.flags.Period, c.spec.ID)
		m.exit(Exit{Why: why, GaveUp: true})
		return
	}
	var group []*child
	switch m.flags.Strategy {
	case OneForOne, SimpleOneForOne:
		group = []*child{c}
	case RestForOne:
		group = m.state.children[m.index(c):]
	case OneForAll:
		group = m.state.children
	}
	if len(group) > 1 { // the child itself has no process, and must not be dropped for it
		m.stopInReverse(group, byRestart)
	}
	for _, c := range group {
		if c.spec.Restart != Temporary {
			m.then(step{do: start, child: c, cause: byRestart})
		}
	}
}

// charge takes one unit of the budget; false when there is none.
func (m *Machine) charge() bool {
	s := &m.state
	first := s.now - m.flags.Period.Milliseconds()
	s.restarts = slices.DeleteFunc(s.restarts, func(at int64) bool { return at < first })
	s.restarts = append(s.restarts, s.now)
	return len(s.restarts) <= m.flags.Intensity
}

func (m *Machine) exit(e Exit) {
	m.leave()
	m.emit(e)
}

// leave begins the end: nothing is started any more, and nothing waits to be.
func (m *Machine) leave() {
	m.state.phase, m.state.plan = leaving, nil
	for _, c := range slices.Clone(m.state.children) {
		if c.incarnation == 0 {
			m.vacate(c)
		}
	}
}

// shutdownAll: rule 6.
func (m *Machine) shutdownAll(ev ShutdownAll) {
	m.giveUp(ev.Started)
	m.leave()
	if m.flags.Strategy != SimpleOneForOne {
		m.stopInReverse(m.state.children, byShutdown)
		return
	}
	m.then(step{do: stopAll, cause: byShutdown})
}

// giveUp takes back what awaits its answer. What was to stop is stopped again with the
// others; what was to start has a process if the shell says so.
func (m *Machine) giveUp(unanswered Started) {
	s := m.state.awaiting
	m.state.awaiting, m.state.open = step{}, 0
	if s.do == start && s.child.spec.ID == unanswered.ID && unanswered.Incarnation != 0 {
		s.child.state, s.child.incarnation = Running, unanswered.Incarnation
		m.enter(s.child)
	}
}

func (m *Machine) stopInReverse(group []*child, why cause) {
	for _, c := range slices.Backward(group) {
		m.then(step{do: stop, child: c, cause: why})
	}
}
