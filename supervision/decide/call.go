package decide

// The calls, with OTP's answers.

func (m *Machine) reply(id string, a Answer, incarnation uint64, why string) {
	m.emit(Reply{ID: id, Answer: a, Incarnation: incarnation, Why: why})
}

func (m *Machine) startChild(ev StartChild) {
	id := ev.Spec.ID
	c := m.find(id)
	err := m.flags.validateChild(ev.Spec)
	switch {
	case err != nil:
		if c == nil {
			m.emit(Forget{ID: id})
		}
		m.reply(id, BadSpec, 0, err.Error())
	case c == nil && m.state.phase == leaving:
		m.emit(Forget{ID: id})
		m.reply(id, Leaving, 0, "")
	case c == nil:
		m.then(step{do: start, child: m.add(ev.Spec), cause: byAdd})
	case c.incarnation != 0 || m.flags.Strategy == SimpleOneForOne:
		m.reply(id, AlreadyStarted, c.incarnation, "")
	default:
		m.reply(id, AlreadyPresent, 0, "")
	}
}

func (m *Machine) terminateChild(ev TerminateChild) {
	c := m.find(ev.ID)
	if c == nil {
		m.reply(ev.ID, NotFound, 0, "")
		return
	}
	m.then(step{do: stop, child: c, cause: byCall})
}

func (m *Machine) restartChild(ev RestartChild) {
	c := m.vacant(ev.ID)
	switch {
	case c == nil: // it is answered
	case m.state.phase == leaving:
		m.reply(ev.ID, Leaving, 0, "")
	default:
		m.then(step{do: start, child: c, cause: byCall})
	}
}

func (m *Machine) deleteChild(ev DeleteChild) {
	if c := m.vacant(ev.ID); c != nil {
		m.drop(c)
		m.reply(ev.ID, OK, 0, "")
	}
}

// vacant returns a child that has no process, or answers why there is none to be had.
func (m *Machine) vacant(id string) *child {
	c := m.find(id)
	switch {
	case m.flags.Strategy == SimpleOneForOne:
		m.reply(id, NotSimple, 0, "")
	case c == nil:
		m.reply(id, NotFound, 0, "")
	case c.state == Restarting:
		m.reply(id, StillRestarting, 0, "")
	case c.state != Undefined:
		m.reply(id, StillRunning, 0, "")
	default:
		return c
	}
	return nil
}
