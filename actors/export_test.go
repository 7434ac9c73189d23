package actors

// Watchers returns how many monitors are held on h.
func Watchers(h *Handle) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.life.watchers)
}

// Open returns how many requests h has not answered.
func Open(h *Handle) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for range h.life.open.all() {
		n++
	}
	return n
}

// Pending reports whether the timer would still fire, and stops it.
func Pending(t *Timer) bool { return t.timer.Stop() }
