package node

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"millrace/actors/admin"
	"millrace/supervision"
)

// parked remembers which children of the factories spent their restarts, or were stopped by
// an operator. Such a child has left its factory, so the tree alone doesn't tell of it. It is
// safe from any goroutine.
type parked struct {
	mu    sync.Mutex
	spots map[string]spot // by the path of the stream's or the capture's supervisor
}

type spot struct {
	at    time.Time
	why   string
	state string // admin.StateParked or StateStopped
}

// factories are the ids of the supervisors whose children come and go, with who starts
// a stopped or parked one again; nobody does a reader.
var factories = map[string]string{
	idLog:           "the keeper starts it again within a minute",
	idCaptures:      "the keeper starts it again within a minute",
	idStreamFactory: "the reconciler starts it again at its next look",
	idReaders:       "",
}

// note keeps the books: a supervisor below a factory that gives up, or does not even
// start, is parked until its factory starts one of that id again.
func (p *parked) note(e supervision.Event) {
	fromFactory := factories[path.Base(e.Path)] != ""
	inFactory := factories[path.Base(path.Dir(e.Path))] != ""
	switch {
	case e.Kind == supervision.EventMaxIntensity && inFactory:
		p.park(e.Path, spot{at: e.Time, state: admin.StateParked, why: fmt.Sprintf("%d restarts within its period, the last for %s", e.Intensity, e.Reason)})
	case e.Kind == supervision.EventStartError && fromFactory:
		p.park(path.Join(e.Path, e.ID), spot{at: e.Time, state: admin.StateParked, why: "it did not start: " + e.Reason.String()})
	case e.Kind == supervision.EventStarted && fromFactory:
		p.clear(path.Join(e.Path, e.ID))
	}
}

// clear forgets a spot: its child runs again, or was not stopped after all.
func (p *parked) clear(at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.spots, at)
}

func (p *parked) park(at string, s spot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spots == nil {
		p.spots = map[string]spot{}
	}
	p.spots[at] = s
}

// below lists what is parked or stopped below a factory, in the order of the ids.
func (p *parked) below(factory string) []supervision.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	var nodes []supervision.Node
	for _, at := range slices.Sorted(maps.Keys(p.spots)) {
		if path.Dir(at) == factory {
			nodes = append(nodes, p.spots[at].node(at))
		}
	}
	return nodes
}

// node shows the place of a child that is not there.
func (s spot) node(at string) supervision.Node {
	return supervision.Node{
		ID: path.Base(at), Path: at, Kind: supervision.Supervisor.String(), Restart: supervision.Temporary.String(),
		State: s.state, LastExit: s.why,
	}
}

// absent reports whether a node only stands for a child that is not there.
func absent(t supervision.Node) bool {
	return t.State == admin.StateParked || t.State == admin.StateStopped
}

// at returns the spot of the child of that path.
func (p *parked) at(path string) (s spot, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok = p.spots[path]
	return s, ok
}
