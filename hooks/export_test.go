package hooks

// Waiters is how many notifications are pending.
func (l *Log) Waiters() int { return int(l.waiting.Load()) }
