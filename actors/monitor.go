package actors

// MonitorRef names one monitor.
type MonitorRef uint64

// Down tells the holder of a monitor that the process ended. It follows the last message
// that process sent to the holder from its callbacks. The reason is NoProc when the
// process had already ended when the monitor was set.
type Down struct {
	Ref    MonitorRef
	Path   string
	Reason Reason
}

// Exited tells a parent that its child, which had come up, has ended. It is the last
// thing that happens to the incarnation.
type Exited struct {
	Handle *Handle
	Reason Reason
}

// Monitor asks for one Down when h ends. Monitoring the same process twice gives two.
func (c *Context) Monitor(h *Handle) MonitorRef {
	ref := MonitorRef(c.h.sys.next())
	if !c.h.watch(ref, h) {
		return ref
	}
	if h == nil {
		c.h.Send(Down{Ref: ref, Path: "(no process)", Reason: Reason{Kind: NoProc}})
	} else if !h.addWatcher(ref, c.h) {
		c.h.Send(Down{Ref: ref, Path: h.path, Reason: Reason{Kind: NoProc, Detail: "already ended"}})
	}
	return ref
}

// watch notes that h monitors target; false if h has ended.
func (h *Handle) watch(ref MonitorRef, target *Handle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return false
	}
	if h.life.watched == nil {
		h.life.watched = map[MonitorRef]*Handle{}
	}
	h.life.watched[ref] = target
	return true
}

// unwatch forgets a monitor h holds.
func (h *Handle) unwatch(ref MonitorRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.life.watched, ref)
}

// addWatcher notes that watcher monitors h; false if h has ended.
func (h *Handle) addWatcher(ref MonitorRef, watcher *Handle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return false
	}
	if h.life.watchers == nil {
		h.life.watchers = map[MonitorRef]*Handle{}
	}
	h.life.watchers[ref] = watcher
	return true
}

func (h *Handle) removeWatcher(ref MonitorRef) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.life.watchers, ref)
}
