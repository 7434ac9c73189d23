package actors

import (
	"maps"
	"slices"
)

// The end of an incarnation, and its being gone.
//
// A unit stands for something that may still run code of the incarnation: the shell
// until it can't enter a callback any more, every task, and whoever is in end. The
// incarnation is gone when it has ended and no unit is left.

// end ends the incarnation, once; it returns at once if that has happened. own tells that
// the caller is the shell, which then runs no further callback.
func (h *Handle) end(why Reason, own bool) {
	l, ok := h.close(why)
	if !ok {
		return
	}
	h.cancel()
	for t := range l.timers {
		t.timer.Stop()
	}
	runAll(l.onExit)
	h.announce(why, l, own)
}

// close stores the reason and takes over what must now be undone. The taken life keeps
// nothing that the incarnation could still change.
func (h *Handle) close(why Reason) (taken life, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return life{}, false
	}
	taken = h.life
	h.life = life{reason: why, refused: taken.refused, units: taken.units + 1, onGone: taken.onGone}
	h.phase.Store(phaseEnded)
	return taken, true
}

// announce tells everyone that h has ended and why.
func (h *Handle) announce(why Reason, l life, own bool) {
	for ref, target := range l.watched {
		target.removeWatcher(ref)
	}
	if len(l.watchers) > 0 {
		for _, ref := range slices.Sorted(maps.Keys(l.watchers)) {
			l.watchers[ref].Send(Down{Ref: ref, Path: h.path, Reason: why})
		}
	}
	for r := range l.open.all() {
		r.fail(&DeadError{Path: h.path, Reason: why})
	}
	for child := range l.children {
		child.Kill()
	}
	h.sys.actors.ProcessRegistry.Remove(h.pid)
	h.sys.forget(h)
	if h.parent != nil {
		h.parent.disown(h)
	}
	if own {
		h.turn.Store(turnClosed)
	}
	if own || h.closeTurn() {
		h.release()
	}
	h.settle()
	close(h.done)
	select {
	case <-h.started:
		if h.parent != nil {
			h.parent.Send(Exited{Handle: h, Reason: why})
		}
	default:
	}
}

// closeTurn keeps the shell out of any further callback. False: it is in one now and
// will close the turn itself, or the turn is closed already.
func (h *Handle) closeTurn() bool { return h.turn.CompareAndSwap(turnIdle, turnClosed) }

// acquire takes a unit for a task; false once the process has ended.
func (h *Handle) acquire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return false
	}
	h.life.units++
	return true
}

// release gives the unit of the shell or of a task back; the last one of an ended
// incarnation makes it gone.
func (h *Handle) release() {
	h.mu.Lock()
	h.life.units--
	h.leaveIfGone()
}

// settle gives back the unit of end. What then still runs is a zombie.
func (h *Handle) settle() {
	h.mu.Lock()
	h.life.units--
	if h.life.units > 0 {
		h.life.zombie = true
		h.sys.zombies.Add(1)
	}
	h.leaveIfGone()
}

// leaveIfGone unlocks h.mu, and does what is due when no code of an ended incarnation
// runs any more.
func (h *Handle) leaveIfGone() {
	l := &h.life
	gone := l.units == 0 && h.phase.Load() == phaseEnded
	wasZombie, onGone := l.zombie, l.onGone
	if gone {
		l.zombie, l.onGone = false, nil
	}
	h.mu.Unlock()
	if !gone {
		return
	}
	if wasZombie {
		h.sys.zombies.Add(-1)
	}
	defer h.sys.departed()
	defer close(h.gone)
	runAll(onGone)
}

// runAll runs every function, the latest given first, and waits for them. They have a
// goroutine of their own: one that calls runtime.Goexit would else take along whoever
// ends the process, which may be its supervisor.
func runAll(fs []func()) {
	if len(fs) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runEach(fs)
	}()
	<-done
}

// runEach runs every function, the latest given first. One that panics or ends the
// goroutine does not keep the others from running, and has nobody left to report to.
func runEach(fs []func()) {
	if len(fs) == 0 {
		return
	}
	last := len(fs) - 1
	defer runEach(fs[:last])
	defer survive()
	fs[last]()
}

// survive, deferred, ends a panic that nobody is left to hear of.
func survive() {
	if recover() != nil {
		return
	}
}
