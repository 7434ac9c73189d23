package actors

import (
	"runtime"

	"github.com/asynkron/protoactor-go/actor"
)

// stopMark wakes a process that was told to stop; under Drain it stands behind what is
// still to be handled.
type stopMark struct{}

// shell is the only code protoactor runs: it recovers every callback, so that nothing of
// a process ever escapes into protoactor's own failure handling.
//
// Invariant: callbacks run only between enter and either leave or the end of the
// incarnation. After runtime.Goexit in a callback the mailbox's goroutine is lost and
// protoactor never schedules the mailbox again; what is left to do then runs on a
// goroutine of its own, so the invariant holds there too.
type shell struct {
	h      *Handle
	c      *Context
	create func() Process
	proc   Process
}

// Receive implements actor.Actor.
func (s *shell) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.init()
	case *actor.Stopping, *actor.Stopped, *actor.Restarting:
		// Only protoactor's guardian sends these, and only when the shell itself failed.
		s.h.end(Reason{Kind: Crash, Detail: "the process shell failed"}, false)
	default:
		s.receive(msg)
	}
}

func (s *shell) init() {
	if !s.enter() {
		return
	}
	var out outcome
	s.guard(func() {
		s.proc = s.create()
		out = outcomeOf(s.proc.Init(s.c))
	}, func(crash *Reason) { s.initDone(out, crash) })
}

// initDone acts on the outcome of Init.
func (s *shell) initDone(out outcome, crash *Reason) {
	h := s.h
	switch {
	case crash != nil:
		h.end(*crash, true)
	case out.ignored:
		h.refuse(out)
		h.end(Reason{Kind: Normal, Detail: "ignored"}, true)
	case out.err != nil:
		h.refuse(out)
		h.end(h.initFailure(out.text), true)
	default:
		h.up()
	}
	s.leave()
}

// initFailure is how a process ended whose Init failed: of that, or of the stop that came
// before, which may well be why it failed.
func (h *Handle) initFailure(detail string) Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.stop != nil {
		return *h.life.stop
	}
	return Reason{Kind: Crash, Detail: detail}
}

// up makes a starting process a running one. One that was told to stop during Init stays
// what it is: its start has failed, and the stop that waits in its mailbox ends it.
func (h *Handle) up() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseStarting {
		h.phase.Store(phaseRunning)
		close(h.started)
	}
}

func (s *shell) receive(msg any) {
	_, mark := msg.(stopMark)
	if !mark {
		s.h.queued.Add(-1)
	}
	if !s.enter() {
		s.drop(msg)
		return
	}
	var why *Reason
	switch phase := s.h.phase.Load(); {
	case phase >= phaseStopping && s.h.mustEnd(mark, &why):
		s.drop(msg)
	case !mark:
		why = s.dispatch(msg)
	}
	if why != nil {
		s.conclude(*why)
		return
	}
	s.leave()
}

// mustEnd reports whether a stopping process handles no further message, and why it
// ends; no reason means that it has ended already.
func (h *Handle) mustEnd(mark bool, why **Reason) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return true
	}
	if mark || h.life.stopNow {
		*why = h.life.stop
		return true
	}
	return false
}

// dispatch hands one message to the process, unless it was taken back meanwhile.
func (s *shell) dispatch(msg any) *Reason {
	switch m := msg.(type) {
	case *tick:
		if m.timer.stopped.Load() {
			return nil
		}
		msg = m.msg
	case Down:
		s.h.unwatch(m.Ref)
	}
	return s.handle(msg)
}

// handle calls Handle. It is guard without closures: this is the path of every message.
func (s *shell) handle(msg any) (why *Reason) {
	returned := false
	defer func() {
		if returned {
			return
		}
		crash := crashReason(recover())
		if crash.goexit {
			s.elsewhere(func() { s.conclude(crash.Reason) })
			return
		}
		why = &crash.Reason
	}()
	why = s.proc.Handle(s.c, msg)
	returned = true
	return why
}

// conclude ends the process in good order: Terminate, then the end of the incarnation.
func (s *shell) conclude(why Reason) {
	if !s.h.beginEnd(why) {
		s.leave()
		return
	}
	s.guard(func() { s.proc.Terminate(s.c, why) }, func(crash *Reason) {
		if crash != nil {
			crash.Detail = "in terminate (" + why.String() + "): " + crash.Detail
			why = *crash
		}
		s.h.end(why, true)
		s.leave()
	})
}

// beginEnd cancels the process's context before Terminate; false if it was killed.
func (h *Handle) beginEnd(why Reason) bool {
	h.mu.Lock()
	ended := h.phase.Load() == phaseEnded
	if !ended {
		h.phase.Store(phaseStopping)
		h.life.stop, h.life.stopNow = &why, true
	}
	h.mu.Unlock()
	if !ended {
		h.cancel()
	}
	return !ended
}

// drop counts a message that will not be handled. A request among them is answered by
// the end of the process.
func (s *shell) drop(msg any) {
	if _, mark := msg.(stopMark); !mark {
		s.h.sys.dropped(1)
	}
}

// enter takes the turn to run a callback; false once the incarnation is closed.
func (s *shell) enter() bool { return s.h.turn.CompareAndSwap(turnIdle, turnBusy) }

// leave gives the turn back. If the process was killed meanwhile, this was its last.
func (s *shell) leave() {
	if s.h.phase.Load() == phaseEnded {
		s.proc, s.create = nil, nil // a handle that is kept must not keep what the process held
	}
	if !s.h.turn.CompareAndSwap(turnBusy, turnIdle) {
		return
	}
	if s.h.phase.Load() == phaseEnded && s.h.closeTurn() {
		s.h.release()
	}
}

// crash is a reason, and whether the goroutine that met it is lost.
type crash struct {
	Reason
	goexit bool
}

// crashReason makes a reason of what recover returned in a function that did not return:
// nil means runtime.Goexit, since panic(nil) recovers as a *runtime.PanicNilError.
func crashReason(panicked any) crash {
	if panicked == nil {
		return crash{Reason: Reason{Kind: Crash, Detail: "runtime.Goexit", Stack: stack()}, goexit: true}
	}
	return crash{Reason: Panicked(panicked)}
}

// Panicked makes a reason of what recover returned after a panic, for work whose crash is
// not to end its process. It asks the value for its text no longer than 100 ms.
func Panicked(value any) Reason {
	return Reason{Kind: Crash, Detail: textOf(value), Stack: stack()}
}

// stack returns the text of the present goroutine's stack. It is debug.Stack with room for
// most stacks from the start: that begins with 1 KiB, and writes all of it again for every
// doubling, which was half of the time from a crash to the restarted process.
func stack() string {
	for size := 8 << 10; ; size *= 2 {
		text := make([]byte, size)
		if n := runtime.Stack(text, false); n < size {
			return string(text[:n])
		}
	}
}

// guard runs f and then next, with the crash f ended in or nil. After runtime.Goexit in f
// the goroutine is lost, and next runs on one of its own.
func (s *shell) guard(f func(), next func(crash *Reason)) { next(s.attempt(f, next)) }

// attempt runs f and returns its crash. It does not return when f calls runtime.Goexit.
func (s *shell) attempt(f func(), afterGoexit func(crash *Reason)) (met *Reason) {
	returned := false
	defer func() {
		if returned {
			return
		}
		c := crashReason(recover())
		if c.goexit {
			s.elsewhere(func() { afterGoexit(&c.Reason) })
			return
		}
		met = &c.Reason
	}()
	f()
	returned = true
	return nil
}

// elsewhere does what is left for a process whose mailbox is lost: f ends it, and what
// is queued will never be taken.
func (s *shell) elsewhere(f func()) {
	go func() {
		f()
		s.h.sys.dropped(s.h.queued.Swap(0))
	}()
}
