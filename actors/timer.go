package actors

import (
	"sync/atomic"
	"time"
)

// Timer sends a process one message after a while.
type Timer struct {
	h       *Handle
	msg     any
	timer   *time.Timer // set before the timer is known to anyone
	stopped atomic.Bool
}

// tick is a timer's message on its way; the shell unwraps it, or drops it when the timer
// was stopped after it fired.
type tick struct {
	timer *Timer
	msg   any
}

// After sends msg to the process itself after d. The timer dies with the process.
func (c *Context) After(d time.Duration, msg any) *Timer {
	t := &Timer{h: c.h, msg: msg}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.h.phase.Load() == phaseEnded {
		t.stopped.Store(true)
		return t
	}
	if c.h.life.timers == nil {
		c.h.life.timers = map[*Timer]struct{}{}
	}
	// fire waits for the mutex, so it finds the timer entered however short d is.
	t.timer = time.AfterFunc(d, t.fire)
	c.h.life.timers[t] = struct{}{}
	return t
}

func (t *Timer) fire() {
	t.leave()
	if t.msg != nil {
		t.h.Send(&tick{timer: t, msg: t.msg})
	}
}

// Stop ends the timer: its message does not arrive any more, even if it is queued. For
// use in the process's own callbacks.
func (t *Timer) Stop() {
	if t == nil || t.stopped.Swap(true) {
		return
	}
	t.timer.Stop()
	t.leave()
}

func (t *Timer) leave() {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	delete(t.h.life.timers, t)
}
