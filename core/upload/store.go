package upload

// storeAway makes a stall, in time, also of what has not been tried: it waits for its turn
// behind what hangs.
func (m *Machine) storeAway(in StoreAway) {
	if m.phase == phaseOpen && m.away.fails == 0 {
		m.away = retry{fails: 1, since: in.Since, why: in.Why}
	}
}

// storeBack tries what waits for a later time now.
func (m *Machine) storeBack() {
	switch m.phase {
	case phaseWaiting, phaseStalled:
		m.resolve()
	case phaseOpen:
		m.away = retry{}
		for _, f := range m.flights {
			f.at = 0
		}
		if m.persist.stage == persistIdle {
			m.persist.at = 0
		}
	default: // an answer comes, or it is not the store that is waited for
	}
}

// storeOwned lets local disk be freed for what is in the store.
func (m *Machine) storeOwned() {
	if !m.disowned {
		return
	}
	m.disowned = false
	if m.phase == phaseOpen && m.shown {
		m.seam()
	}
}

// storeDisowned lets all go on but what frees local disk: the store refuses by itself.
func (m *Machine) storeDisowned() {
	m.disowned = true
	m.emit(NoSeam{})
}

// storeReclaimed learns the truth anew: what lies in the store, and which edits may be put on
// top of it. Until then the local log frees nothing for having been uploaded.
func (m *Machine) storeReclaimed() {
	m.disowned = false
	m.emit(NoSeam{})
	m.restart("the store is the cluster's again, what it holds is looked at anew")
}
