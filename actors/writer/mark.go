package writer

import (
	"context"
	"time"

	"millrace/actors"
	"millrace/core/pos"
)

// mark is what the node's state says of the log's cleanness, as far as is known.
type mark struct {
	state    markState
	busy     bool // a change is under way
	hold     bool // the last change failed: not yet again
	why      string
	until    pos.Millis
	attempts int
	task     *actors.Task
}

type markState uint8

const (
	markedClean  markState = iota // or never written by this node
	markedUnsure                  // a change failed: it may say either
	markedDirty                   // chunks may be written
)

// marked is the outcome of a change.
type marked struct {
	clean bool
	err   error
}

// markAgain ends the pause after a change that failed.
type markAgain struct{}

// takes reports whether a flush gets on: by writing, or by having the log marked.
func (m *mark) takes() bool { return !m.busy && !m.hold }

// dirty reports whether chunks may be written.
func (m *mark) dirty() bool { return m.state == markedDirty && !m.busy }

// unclean reports whether the log should be marked clean once it is.
func (m *mark) unclean() bool { return m.state != markedClean }

// begin changes the mark. The log must not be written until the outcome is there.
func (m *mark) begin(c *actors.Context, clean bool, put func(context.Context) error) {
	m.busy = true
	m.task = c.Task("node state", func(ctx context.Context) any { return marked{clean: clean, err: put(ctx)} })
}

// end takes the outcome.
func (m *mark) end(c *actors.Context, o marked) {
	m.busy, m.task = false, nil
	if o.err != nil {
		d := min(firstPause<<min(m.attempts, 6), lastPause)
		m.state, m.hold, m.why, m.until = markedUnsure, true, o.err.Error(), now().Add(d)
		m.attempts++
		c.After(d, markAgain{})
		return
	}
	m.attempts, m.why, m.until = 0, "", 0
	m.state = markedDirty
	if o.clean {
		m.state = markedClean
	}
}

// Pauses between attempts to change the mark.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// wait waits until a change that is under way has been done. What it came to is not
// known: nobody takes its answer any more.
func (m *mark) wait() {
	if m.task != nil {
		<-m.task.Done()
		m.state, m.busy, m.task = markedUnsure, false, nil
	}
}
