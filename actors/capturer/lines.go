package capturer

import (
	"sync"

	"millrace/actors/port"
	"millrace/core/pos"
)

// lines holds the open connections of an attempt. Tasks and the end of the process
// close them, so it locks; what is closed is closed outside the lock.
type lines struct {
	mu    sync.Mutex
	snap  port.Snapshot
	repl  port.Replication
	ended bool
}

// adopt takes connections over, nil for none; once the process has ended it closes them.
func (l *lines) adopt(snap port.Snapshot, repl port.Replication) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		d := done{snap: snap, repl: repl}
		d.close()
		return
	}
	var old port.Snapshot
	if snap != nil {
		old, l.snap = l.snap, snap
	}
	if repl != nil {
		l.repl = repl
	}
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

func (l *lines) get() (port.Snapshot, port.Replication) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snap, l.repl
}

func (l *lines) confirm(lsn pos.LSN) {
	if _, repl := l.get(); repl != nil {
		repl.Confirm(lsn)
	}
}

// takeSnapshot and take hand the connections over to be closed.
func (l *lines) takeSnapshot() done {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := done{snap: l.snap}
	l.snap = nil
	return d
}

func (l *lines) take() done {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := done{snap: l.snap, repl: l.repl}
	l.snap, l.repl = nil, nil
	return d
}

func (l *lines) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	d := l.take()
	d.close()
}
