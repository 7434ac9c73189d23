package supervision

import (
	"path"
	"time"

	"millrace/actors"
)

// Node is one process of the tree, or the place of one that is not running.
type Node struct {
	ID          string `json:"id"`
	Path        string `json:"path"`
	Kind        string `json:"kind"`              // worker or supervisor
	Restart     string `json:"restart,omitempty"` // empty at the root of the snapshot
	Significant bool   `json:"significant"`
	Shutdown    string `json:"shutdown,omitempty"` // how long it may take to stop: brutal, infinity or a limit; empty at the root
	// State is starting, running, stopping, restarting (its restart failed and is tried
	// again), undefined (no process), zombie (ended, its code still runs) or stuck
	// (starting, while an earlier incarnation's code still runs).
	State       string    `json:"state"`
	Incarnation uint64    `json:"incarnation,omitempty"` // of the latest process; 0: there was none
	StartedAt   time.Time `json:"started_at,omitzero"`   // when it came up
	// Restarts of this child within its supervisor's period, at most as many as that allows.
	Restarts   int     `json:"restarts"`
	LastExit   string  `json:"last_exit,omitempty"` // how the process before ended, or its last start failed
	MailboxLen int     `json:"mailbox_len"`
	Budget     *Budget `json:"budget,omitempty"` // of a supervisor
	Children   []Node  `json:"children,omitempty"`

	// Handle is the process, or nil.
	Handle *actors.Handle `json:"-"`
}

// Budget is what a supervisor has spent of its restarts.
type Budget struct {
	Strategy  string `json:"strategy"`
	Restarts  int    `json:"restarts"` // within the period, as of its last decision
	Intensity int    `json:"intensity"`
	PeriodMS  int64  `json:"period_ms"`
	// AutoShutdown says whether the end of significant children ends it.
	AutoShutdown string `json:"auto_shutdown"`
}

// Tree returns a snapshot of a supervisor and all below it. It waits for nobody, so each
// supervisor's part is as of its own last change. For a process that is no supervisor it
// has no children.
func Tree(sup *actors.Handle) Node {
	n := Here(sup)
	n.Children = Below(sup)
	return n
}

// Here is the root of Tree alone.
func Here(sup *actors.Handle) Node {
	if sup == nil {
		return Node{State: stateUndefined}
	}
	n := Node{ID: path.Base(sup.Path()), Path: sup.Path(), Kind: Worker.String(), State: stateRunning}
	n.show(sup)
	if b, ok := sup.Status().(*board); ok {
		n.Kind = Supervisor.String()
		n.State = b.state.Load().(string)
	}
	if !sup.Alive() {
		n.State = stateUndefined
	}
	return n
}

// Below lists what is below a supervisor, as Tree does. Of a process that is none, or has
// ended, it lists nothing.
func Below(sup *actors.Handle) []Node {
	nodes := Look(sup)
	for i, n := range nodes {
		nodes[i].Children = Below(n.Handle)
	}
	return nodes
}

// show fills in what a handle tells.
func (n *Node) show(h *actors.Handle) {
	if h == nil {
		return
	}
	n.Handle, n.Incarnation, n.MailboxLen = h, h.Incarnation(), h.MailboxLen()
	b, ok := h.Status().(*board)
	if !ok {
		return
	}
	n.Budget = &Budget{
		Strategy: b.flags.Strategy.String(), Restarts: int(b.restarts.Load()),
		Intensity: b.flags.Intensity, PeriodMS: b.flags.Period.Milliseconds(),
		AutoShutdown: b.flags.AutoShutdown.String(),
	}
}

// node shows one child, and nothing below it.
func (e *entry) node(parent string, b *board, since time.Time) Node {
	n := Node{
		ID: e.child.ID, Path: parent + "/" + e.child.ID, Kind: e.child.Kind.String(), Restart: e.child.Restart.String(),
		Significant: e.child.Significant, Shutdown: e.child.Shutdown.String(), State: e.state, StartedAt: e.startedAt, LastExit: e.last,
	}
	for _, at := range e.restarts {
		if !at.Before(since) {
			n.Restarts++
		}
	}
	if n.State == stateStarting && b.haunted(e.child.ID) {
		n.State = stateStuck
	}
	n.show(e.handle)
	return n
}
