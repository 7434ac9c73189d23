package actors

import "context"

// Context is what a process has: itself, its monitors, timers, tasks and requests. It is
// valid for one incarnation; once that has ended everything here does nothing.
type Context struct{ h *Handle }

// Self returns the process's own handle.
func (c *Context) Self() *Handle { return c.h }

// System returns the system the process runs in.
func (c *Context) System() *System { return c.h.sys }

// Done returns the process's context. It is cancelled when stopping begins: at once when
// a stop is asked for, even while Init runs.
func (c *Context) Done() context.Context { return c.h.ctx }

// SetStatus publishes v for Handle.Status. It must not be changed from then on.
func (c *Context) SetStatus(v any) { c.h.status.Store(&v) }

// OnExit adds a function that runs, latest first, when the process ends, also when it is
// killed: before Done closes and before the parent is told, which wait for it. It must
// not block and must not ask a process. Once the process has ended, it runs at once.
func (c *Context) OnExit(f func()) {
	if !c.h.keep(f, func(l *life) *[]func() { return &l.onExit }, false) {
		runAll([]func(){f})
	}
}

// OnGone adds a function that runs, latest first and after the OnExit functions, when no
// code of the process runs any more: neither a callback nor a task. When the process
// ends in good order that is before Done closes; for a zombie it may be long after.
func (c *Context) OnGone(f func()) {
	if !c.h.keep(f, func(l *life) *[]func() { return &l.onGone }, true) {
		runAll([]func(){f})
	}
}

// keep files f for later; false if its time has passed.
func (h *Handle) keep(f func(), list func(*life) *[]func(), untilGone bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := h.phase.Load() == phaseEnded
	if untilGone {
		passed = passed && h.life.units == 0
	}
	if passed {
		return false
	}
	fs := list(&h.life)
	*fs = append(*fs, f)
	return true
}
