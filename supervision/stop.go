package supervision

import (
	"time"

	"millrace/actors"
	"millrace/supervision/decide"
)

func (s *supervisor) stop(a decide.Stop) []decide.Event {
	return s.stopAll(decide.StopAll{Children: []decide.Stop{a}})
}

// stopAll stops children at the same time: all are asked, each is waited for as long as
// its specification says, and those that are late are killed.
func (s *supervisor) stopAll(all decide.StopAll) []decide.Event {
	asked := time.Now()
	for _, a := range all.Children {
		k := s.kids[a.ID]
		s.board.put(k, stateStopping)
		if a.Shutdown.IsBrutal() {
			k.handle.Kill()
		} else {
			k.handle.Stop(actors.Reason{Kind: actors.Shutdown})
		}
	}
	events := make([]decide.Event, 0, len(all.Children))
	var killed []*kid
	for _, a := range all.Children {
		k := s.kids[a.ID]
		late := !endsInTime(k.handle, a.Shutdown, asked)
		if late {
			k.handle.Kill()
		}
		<-k.handle.Done()
		k.end(k.handle.Reason())
		k.stopped = true
		if late || a.Shutdown.IsBrutal() {
			killed = append(killed, k)
		}
		events = append(events, decide.Stopped{ID: a.ID, Fault: k.fault(a.Shutdown, late)})
		s.board.put(k, stateUndefined)
	}
	s.noteZombies(killed)
	return events
}

// endsInTime waits for a process that was asked to stop; false if its time is over.
func endsInTime(h *actors.Handle, limit Shutdown, asked time.Time) bool {
	d, limited := limit.Limit()
	if !limited || limit.IsBrutal() {
		<-h.Done()
		return true
	}
	timer := time.NewTimer(d - time.Since(asked))
	defer timer.Stop()
	select {
	case <-h.Done():
		return true
	case <-timer.C:
	}
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// fault says how a child failed to stop as it was told to; empty if it did not. A
// permanent one that had ended for a reason of its own has failed, whatever the reason.
func (k *kid) fault(limit Shutdown, late bool) string {
	why := k.last
	// A supervisor's detail is in words why it gave up, which in OTP is a plain shutdown.
	plain := why.Kind == actors.Shutdown && (why.Detail == "" || k.child.Kind == Supervisor)
	d, _ := limit.Limit()
	switch {
	case late && why.Kind == actors.Killed:
		return "did not stop within " + d.String() + " and was killed"
	case limit.IsBrutal() && why.Kind == actors.Killed,
		!limit.IsBrutal() && plain,
		k.child.Restart != Permanent && !why.Abnormal():
		return ""
	}
	return "ended while being stopped: " + why.String()
}

// noteZombies gives killed children a moment to return, and reports those that do not.
func (s *supervisor) noteZombies(killed []*kid) {
	if len(killed) == 0 {
		return
	}
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	over := false
	for _, k := range killed {
		if !over {
			select {
			case <-k.handle.Gone():
			case <-grace.C:
				over = true
			}
		}
		s.noteZombie(k)
	}
}

// noteZombie shows and reports a child that has ended while its code still runs.
func (s *supervisor) noteZombie(k *kid) {
	if k.handle.Zombie() {
		s.board.addZombie(k)
		s.tell(Event{Kind: EventZombie, ID: k.child.ID, Incarnation: k.handle.Incarnation(), Reason: k.last, Restarts: s.machine.Restarts(s.now())})
	}
}
