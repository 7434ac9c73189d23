package hooks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"millrace/actors"
	"millrace/core/pos"
	"millrace/core/segment"
)

// WriterUp tells the installed process that a log runs.
type WriterUp struct{ Log *Log }

// WriterDown tells that a log's writer has ended.
type WriterDown struct{ Log *Log }

// RetentionChanged tells that a running log has other bounds now.
type RetentionChanged struct {
	Stream    pos.StreamID
	Retention segment.Retention
}

// Deleted tells that a stream is being deleted.
type Deleted struct{ Stream pos.StreamID }

// Hooks is the list of a node's running logs, and at most one process that is told of
// changes. All methods are safe from any goroutine, and none but Await blocks.
type Hooks struct {
	mu      sync.Mutex
	running map[pos.StreamID]*Log
	to      *actors.Handle
	up      chan struct{} // closed, and replaced, when a log comes up
}

// New returns an empty list without a process to tell.
func New() *Hooks { return &Hooks{running: map[pos.StreamID]*Log{}, up: make(chan struct{})} }

// Install makes the calling process the one that is told, in place of another, until it
// ends. It gets WriterUp, WriterDown, RetentionChanged and Deleted for what happens from
// now on; what runs already it reads from Running afterwards.
func (h *Hooks) Install(c *actors.Context) {
	self := c.Self()
	h.mu.Lock()
	h.to = self
	h.mu.Unlock()
	c.OnExit(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.to == self {
			h.to = nil
		}
	})
}

// Up adds a log, in place of an older one of the same stream.
func (h *Hooks) Up(l *Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[l.Stream] = l
	close(h.up)
	h.up = make(chan struct{})
	h.tell(WriterUp{l})
}

// Gone takes a log off the list.
func (h *Hooks) Gone(l *Log) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running[l.Stream] == l {
		delete(h.running, l.Stream)
	}
	h.tell(WriterDown{l})
}

// RetentionChanged passes a log's new bounds on.
func (h *Hooks) RetentionChanged(stream pos.StreamID, r segment.Retention) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell(RetentionChanged{Stream: stream, Retention: r})
}

// Deleted passes on that a stream is being deleted.
func (h *Hooks) Deleted(stream pos.StreamID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell(Deleted{Stream: stream})
}

// tell sends under the lock, so that messages keep the order of what they report.
func (h *Hooks) tell(msg any) { h.to.Send(msg) }

// Running lists the logs whose writers run, in the order of their stream ids.
func (h *Hooks) Running() []*Log {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.running), func(a, b *Log) int { return cmp.Compare(a.Stream, b.Stream) })
}

// Lookup returns the running log of a stream.
func (h *Hooks) Lookup(stream pos.StreamID) (*Log, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.running[stream]
	return l, ok
}

// Await returns the running log of a stream as soon as there is one. It is for those
// who are no process; it fails only when ctx ends.
func (h *Hooks) Await(ctx context.Context, stream pos.StreamID) (*Log, error) {
	for {
		h.mu.Lock()
		l, up := h.running[stream], h.up
		h.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, fmt.Errorf("the log of stream %s does not run yet: %w", stream, ctx.Err())
		}
	}
}
