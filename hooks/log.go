package hooks

import (
	"slices"
	"sync"
	"sync/atomic"

	"millrace/actors"
	"millrace/core/pos"
	"millrace/core/segment"
)

// Log is the shared view of one running local log, from when its writer has found it
// until the writer ends. All methods are safe from any goroutine and never block.
type Log struct {
	Stream pos.StreamID // also the name of its folder
	Name   string
	Epoch  pos.Epoch
	Writer *actors.Handle

	born      pos.Offset
	fromStore bool
	lazy      bool // the writer syncs when asked

	first, committed, synced, last, lastChunk, bytes atomic.Int64
	segments                                         atomic.Pointer[[]pos.Offset]
	ended                                            atomic.Bool

	waiting atomic.Int64 // len(waiters): a publisher without waiters takes no lock
	mu      sync.Mutex
	waiters []waiter
	pruneAt int // how many waiters there are when the dead are next looked for
}

type waiter struct {
	to     *actors.Handle
	from   pos.Offset
	synced bool
	msg    any
}

// LogSpec is what is known of a log when its writer publishes it.
type LogSpec struct {
	Stream    pos.StreamID
	Name      string
	Epoch     pos.Epoch
	Writer    *actors.Handle
	Mode      segment.SyncMode
	Born      pos.Offset
	FromStore bool
}

// NewLog returns the view of a log. Publish fills it before anybody else sees it.
func NewLog(s LogSpec) *Log {
	return &Log{
		Stream: s.Stream, Name: s.Name, Epoch: s.Epoch, Writer: s.Writer,
		born: s.Born, fromStore: s.FromStore, lazy: s.Mode != segment.Always, pruneAt: 64,
	}
}

// First is the first offset on local disk; Committed if the log is empty.
func (l *Log) First() pos.Offset { return pos.Offset(l.first.Load()) }

// Committed is the offset after the last committed record: readers see
// [First, Committed).
func (l *Log) Committed() pos.Offset { return pos.Offset(l.committed.Load()) }

// Synced is the offset after the last record that is both committed and fsynced:
// uploads and LSN confirmations stop here in every sync mode.
func (l *Log) Synced() pos.Offset { return pos.Offset(l.synced.Load()) }

// Last is the offset after the last record that was written when the log was last
// published.
func (l *Log) Last() pos.Offset { return pos.Offset(l.last.Load()) }

// LastChunk is the first offset of the last committed chunk; NoOffset if the log holds
// none.
func (l *Log) LastChunk() pos.Offset { return pos.Offset(l.lastChunk.Load()) }

// Bytes is the size of the log's segments on disk.
func (l *Log) Bytes() int64 { return l.bytes.Load() }

// Segments lists the first offsets of the log's segments, oldest first. It must not be
// changed.
func (l *Log) Segments() []pos.Offset {
	if s := l.segments.Load(); s != nil {
		return *s
	}
	return nil
}

// Born tells where the log began when its writer found it. With fromStore that offset
// was taken from the object store, or from what this node remembers, because the log
// itself was gone or ended before it: records that were confirmed may be missing.
func (l *Log) Born() (at pos.Offset, fromStore bool) { return l.born, l.fromStore }

// Alive reports whether the log's writer has not ended. The offsets of a dead log stay
// what they were.
func (l *Log) Alive() bool { return !l.ended.Load() }

// Notify sends msg to h once the committed offset (or Synced, if synced) is above from,
// or the writer has ended; at once if that is so already. One call sends one message.
// Waiting for the synced offset also makes the writer sync, in every mode.
func (l *Log) Notify(h *actors.Handle, from pos.Offset, synced bool, msg any) {
	w := waiter{to: h, from: from, synced: synced, msg: msg}
	if l.passed(w) {
		h.Send(msg)
		return
	}
	l.mu.Lock()
	l.prune()
	l.waiters = append(l.waiters, w)
	l.waiting.Store(int64(len(l.waiters)))
	l.mu.Unlock()
	// What was published before the waiter could be seen is looked at again.
	if l.passed(w) {
		l.fire()
		return
	}
	if synced && l.lazy {
		l.Writer.Send(segment.SyncNow{})
	}
}

func (l *Log) passed(w waiter) bool {
	if l.ended.Load() {
		return true
	}
	if w.synced {
		return l.Synced() > w.from
	}
	return l.Committed() > w.from
}

// prune drops waiters whose process is gone. An idle log would collect them.
func (l *Log) prune() {
	if len(l.waiters) < l.pruneAt {
		return
	}
	l.waiters = slices.DeleteFunc(l.waiters, func(w waiter) bool { return !w.to.Alive() })
	l.pruneAt = max(64, 2*len(l.waiters))
}

// fire sends what is due.
func (l *Log) fire() {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters = slices.DeleteFunc(l.waiters, func(w waiter) bool {
		due := l.passed(w)
		if due {
			w.to.Send(w.msg)
		}
		return due
	})
	l.waiting.Store(int64(len(l.waiters)))
}

// WantsSync reports whether somebody waits for records to be synced that are committed.
// It is the writer's.
func (l *Log) WantsSync() bool {
	if !l.lazy || l.waiting.Load() == 0 || l.Synced() >= l.Committed() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.waiters, func(w waiter) bool { return w.synced && w.from < l.Committed() })
}

// Publish shows what the writer's machine says. It is the writer's. The order matters:
// whoever sees the new committed offset must find its segment.
func (l *Log) Publish(p *segment.Publish) {
	l.first.Store(int64(p.First))
	if segments := p.Segments; segments != nil {
		l.segments.Store(&segments)
	}
	l.last.Store(int64(p.Last))
	l.lastChunk.Store(int64(p.LastChunk))
	l.bytes.Store(p.Bytes)
	l.committed.Store(int64(p.Committed))
	l.synced.Store(int64(p.Synced))
	l.fire()
}

// End says that the writer has ended. It is the writer's.
func (l *Log) End() {
	l.ended.Store(true)
	l.fire()
}
