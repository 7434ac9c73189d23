package registry

// Size returns how many names are in the table, held or not.
func Size(r *Registry) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.holders)
}

// Subscribers returns how many names have subscribers.
func Subscribers(r *Registry) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.subscribers)
}
