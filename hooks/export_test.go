package hooks

import "millrace/actors"

// Waiters is how many notifications are pending.
func (l *Log) Waiters() int { return int(l.waiting.Load()) }

// Installed is the process that is told, nil if there is none.
func (h *Hooks) Installed() *actors.Handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.to
}
