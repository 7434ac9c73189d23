package supervision

import "millrace/actors"

// Look lists the children of a supervisor, in the order of declaration, as Tree would,
// without what is below them. It waits for nobody. Of a process that is no supervisor,
// or has ended, it lists none.
func Look(sup *actors.Handle) []ChildInfo {
	b := boardOf(sup)
	if b == nil {
		return nil
	}
	shown := b.shown()
	infos := make([]ChildInfo, 0, len(shown))
	for _, e := range shown {
		infos = append(infos, ChildInfo{ID: e.child.ID, Handle: e.handle, State: e.state, Kind: e.child.Kind})
	}
	return infos
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
