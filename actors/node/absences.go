package node

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"millrace/actors/admin"
	"millrace/supervision"
)

// absences remembers which children of the factories spent their restarts, or were stopped by
// an operator. Such a child has left its factory, so the tree alone doesn't tell of it. It is
// safe from any goroutine.
type absences struct {
	mu sync.Mutex
	of map[string]absence // by the path of the stream's or the capture's supervisor
}

type absence struct {
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

// factoryChild is the child of a factory that a path leads to or through, with the
// factory's id; both are "" if there is none.
func factoryChild(at string) (factory, id string) {
	parts := strings.Split(at, "/")
	for i := 1; i < len(parts); i++ {
		if _, is := factories[parts[i-1]]; is {
			return parts[i-1], parts[i]
		}
	}
	return "", ""
}

// note keeps the books: a supervisor below a factory that gives up, or does not even
// start, is parked until its factory starts one of that id again.
func (a *absences) note(e supervision.Event) {
	fromFactory := factories[path.Base(e.Path)] != ""
	inFactory := factories[path.Base(path.Dir(e.Path))] != ""
	switch {
	case e.Kind == supervision.EventMaxIntensity && inFactory:
		a.add(e.Path, absence{state: admin.StateParked, why: fmt.Sprintf("%d restarts within its period, the last for %s", e.Intensity, e.Reason)})
	case e.Kind == supervision.EventStartError && fromFactory:
		a.add(path.Join(e.Path, e.ID), absence{state: admin.StateParked, why: "it did not start: " + e.Reason.String()})
	case e.Kind == supervision.EventStarted && fromFactory:
		a.end(path.Join(e.Path, e.ID))
	}
}

// end forgets an absence: its child runs again, or was not stopped after all.
func (a *absences) end(at string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, at)
}

func (a *absences) add(at string, one absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]absence{}
	}
	a.of[at] = one
}

// below lists what is parked or stopped below a factory, in the order of the ids.
func (a *absences) below(factory string) []supervision.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	var nodes []supervision.Node
	for _, at := range slices.Sorted(maps.Keys(a.of)) {
		if path.Dir(at) == factory {
			nodes = append(nodes, a.of[at].node(at))
		}
	}
	return nodes
}

// node shows the place of a child that is not there.
func (a absence) node(at string) supervision.Node {
	return supervision.Node{
		ID: path.Base(at), Path: at, Kind: supervision.Supervisor.String(), Restart: supervision.Temporary.String(),
		State: a.state, LastExit: a.why,
	}
}

// absent reports whether a node only stands for a child that is not there.
func absent(t supervision.Node) bool {
	return t.State == admin.StateParked || t.State == admin.StateStopped
}

// at returns the absence of the child of that path.
func (a *absences) at(path string) (one absence, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok = a.of[path]
	return one, ok
}
