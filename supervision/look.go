package supervision

import (
	"time"

	"millrace/actors"
)

// Look lists the children of a supervisor, in the order of declaration, as Tree would,
// without what is below them. It waits for nobody. Of a process that is no supervisor,
// or has ended, it lists none.
func Look(sup *actors.Handle) []Node {
	b := boardOf(sup)
	if b == nil {
		return nil
	}
	shown, since := b.shown(), time.Now().Add(-b.flags.Period)
	nodes := make([]Node, 0, len(shown))
	for _, e := range shown {
		nodes = append(nodes, e.node(sup.Path(), b, since))
	}
	return nodes
}

// LookAt is one line of Look. It costs the same whatever stands beside the child.
func LookAt(sup *actors.Handle, id string) (Node, bool) {
	b := boardOf(sup)
	if b == nil {
		return Node{}, false
	}
	since := time.Now().Add(-b.flags.Period)
	if e, ok := b.entries.Load(id); ok {
		return e.(*entry).node(sup.Path(), b, since), true
	}
	for _, e := range *b.zombies.Load() {
		if e.child.ID == id && e.handle.Zombie() {
			return e.node(sup.Path(), b, since), true
		}
	}
	return Node{}, false
}

// State is the state of a supervisor as its own place in Tree shows it: undefined if it
// is none, or has ended.
func State(sup *actors.Handle) string {
	b := boardOf(sup)
	if b == nil {
		return stateUndefined
	}
	return b.state.Load().(string)
}

// Find returns the live process at the end of a path of ids below a supervisor, nil if
// there is none. It costs the same whatever stands beside the path, and waits for nobody.
func Find(sup *actors.Handle, ids ...string) *actors.Handle {
	at := sup
	for _, id := range ids {
		b := boardOf(at)
		if b == nil {
			return nil
		}
		e, ok := b.entries.Load(id)
		if !ok {
			return nil
		}
		at = e.(*entry).handle
	}
	if !at.Alive() {
		return nil
	}
	return at
}

// boardOf is what a live supervisor shows, nil if it is none.
func boardOf(sup *actors.Handle) *board {
	if !sup.Alive() {
		return nil
	}
	b, ok := sup.Status().(*board)
	if !ok {
		return nil
	}
	return b
}
