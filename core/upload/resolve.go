package upload

import (
	"fmt"

	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
)

func (m *Machine) resolve() {
	m.phase, m.until, m.lost = phaseResolving, 0, false
	m.emit(ReadPointer{Gen: m.gen})
}

func (m *Machine) pointerRead(in PointerRead) {
	switch {
	case in.Gen != m.gen:
	case m.phase == phaseOpen:
		m.readBack(in)
	case m.phase != phaseResolving:
	case in.Fault == FaultMissing && !m.pointer.Revision.IsZero():
		// There was one, and only the stream's deletion takes it away.
		m.deleted()
	case in.Fault == FaultMissing, in.Fault == FaultNone && in.Pointer.Revision.IsZero():
		m.endReset("there is no stored manifest")
		m.resolved(Pointer{}, manifest.New(0))
	case in.Fault != FaultNone:
		m.unresolved(in.Why)
	case in.Pointer.Epoch > m.cfg.Epoch:
		m.unresolved(fmt.Sprintf("the writer of epoch %s has stored a manifest, this one has epoch %s and is superseded",
			in.Pointer.Epoch, m.cfg.Epoch))
	default:
		m.pointer = in.Pointer
		m.readRoot(m.rootKey(in.Pointer))
	}
}

func (m *Machine) readRoot(key string) {
	m.emit(ReadRoot{Gen: m.gen, Key: key, Tries: m.ask(key)})
}

// ask notes what the store is asked for next, and returns how often it has failed to answer that.
func (m *Machine) ask(what string) (tries int) {
	m.asked = what
	return m.unanswered[what]
}

// told takes what came of asking. That there is no such object is an answer.
func (m *Machine) told(f Fault) {
	if f == FaultNone || f == FaultMissing {
		delete(m.unanswered, m.asked)
		return
	}
	if m.unanswered == nil {
		m.unanswered = map[string]int{}
	}
	m.unanswered[m.asked]++
}

func (m *Machine) rootRead(in RootRead) {
	if in.Gen != m.gen || m.phase != phaseResolving {
		return
	}
	m.told(in.Fault)
	switch {
	case in.Fault == FaultMissing:
		// The pointer was read before somebody moved it on and the grace has passed, or
		// the object is lost. It is never the same as having no manifest.
		if !m.resetWithout() {
			m.loses()
			m.unresolved("the manifest that the pointer names is not in the object store: " + in.Why)
		}
	case in.Fault != FaultNone:
		m.unresolved(in.Why)
	default:
		root, err := manifest.Decode(in.Body)
		older := m.resetting != nil && m.resetting.listed
		if err == nil && !older {
			err = m.belongs(root)
		}
		switch {
		case err == nil && root.Empty() && !older:
			m.endReset(thereAgain)
			m.resolved(m.pointer, root)
		case err == nil && !root.Empty():
			m.root = root
			if m.resetting != nil {
				m.resetting.there = halving{end: len(root.Entries)}
			}
			m.lookFor(0)
		case !m.resetWithout():
			m.loses()
			m.stall(fmt.Sprintf("%s: %v", m.rootKey(m.pointer), err))
		}
	}
}

// lookFor asks for the object of an entry of the root that was read.
func (m *Machine) lookFor(entry int) {
	e := &m.root.Entries[entry]
	key := m.fragmentKey(e.First, e.UID)
	m.emit(LookFor{Gen: m.gen, Key: key, Tries: m.ask(key)})
}

// lookedFor holds a root to its first object. What a store has lost that was emptied, or is
// another one, it has lost from the beginning on; and a root that was put into it since is
// there all the same. One that was set back under a running node has lost the end, which this
// does not find: readers do.
func (m *Machine) lookedFor(in LookedFor) {
	if in.Gen != m.gen || m.phase != phaseResolving || m.root == nil {
		return
	}
	m.told(in.Fault)
	switch {
	case in.Fault != FaultNone && in.Fault != FaultMissing:
		m.unresolved(in.Why)
	case m.resetting != nil:
		m.search(in.Fault == FaultNone)
	case in.Fault == FaultNone:
		m.resolved(m.pointer, m.root)
	default:
		m.loses()
		m.unresolved("what the stored manifest names first is not in the object store: " + in.Why)
	}
}

// loses notes that the store has lost something. What else is in it is not trusted either.
func (m *Machine) loses() {
	m.lost = true
	m.emit(NoSeam{})
}

// seam tells the local log what it may free.
func (m *Machine) seam() {
	if !m.disowned {
		m.emit(Seam{Next: m.stored.Next, Seq: m.stored.Revision})
	}
}

// belongs reports why c is not what the pointer names: an older one, put in its place, would
// move the seam backwards.
func (m *Machine) belongs(c *manifest.Manifest) error {
	if c.Revision != m.pointer.Revision || c.Epoch != m.pointer.Epoch || c.Next != m.pointer.Next {
		return fmt.Errorf("it has epoch %s, revision %s and next offset %s, but the pointer says %s, %s and %s",
			c.Epoch, c.Revision, c.Next, m.pointer.Epoch, m.pointer.Revision, m.pointer.Next)
	}
	return nil
}

func (m *Machine) unresolved(why string) {
	m.endReset(why)
	m.counts.ResolutionFailures++
	m.fails++
	m.waitFor(phaseWaiting, m.at.Now.Add(pause(FaultLasting, m.fails, m.at.UID)), why)
	m.sparse(m.fails, LevelWarn, "the manifest can't be read, readers below the local log wait: "+why)
}

func (m *Machine) stall(why string) {
	m.counts.ResolutionFailures++
	m.fails++
	m.waitFor(phaseStalled, m.at.Now.Add(lasting.Last), why)
	m.sparse(m.fails, LevelError, "the manifest is damaged, restore it or give it up with millrace stream reset: "+why)
}

// sparse notes the first of many failures in a row, and then ever fewer.
func (m *Machine) sparse(n int, level Level, text string) {
	if sparse(n) {
		m.note(level, text)
	}
}

// sparse picks 1, 2, 4, 8 and so on.
func sparse(n int) bool { return n&(n-1) == 0 }

func (m *Machine) resolved(p Pointer, root *manifest.Manifest) {
	m.pointer, m.stored = p, root
	m.live = root.Draft()
	m.now = m.live.Manifest()
	m.root, m.unanswered = nil, nil
	m.anchors = anchorPending
	if !p.Revision.IsZero() {
		m.anchors = anchorDone // no manifest is stored before the anchor
	}
	m.counts.Resolved++
	if p.Revision.IsZero() {
		m.counts.ResolvedEmpty++
	}
	m.inspect()
}

func (m *Machine) inspect() {
	m.phase, m.until = phasePlacing, 0
	m.emit(Inspect{Gen: m.gen, Below: m.now.Next})
}

func (m *Machine) inspected(in Inspected) {
	switch {
	case in.Gen != m.gen || m.phase != phasePlacing:
	case in.Fault != FaultNone:
		m.waitFor(phaseShort, m.at.Now.Add(lasting.First), in.Why)
	default:
		m.place(in.Local)
	}
}

// place decides where to go on reading the local log.
func (m *Machine) place(l Local) {
	if keep := agreeing(m.now.Entries, l); keep < len(m.now.Entries) {
		m.truncate(keep)
	}
	if m.resetting != nil && !m.giveUp(l) {
		return
	}
	if !m.contradicted && !m.shown {
		m.shown = true
		m.show()
		m.answer()
	}
	n := m.now.Next
	if n > l.Next {
		// A log that was lost begins at n, so this one will grow over it and then either
		// agree or not. Nothing is given up meanwhile.
		m.counts.LogBehind++
		m.waitFor(phaseShort, 0, fmt.Sprintf("the local log ends at %s, the object store holds the stream up to %s", l.Next, n))
		m.note(LevelWarn, m.why)
		m.emit(Listen{Gen: m.gen, From: l.Next})
		return
	}
	m.phase, m.why = phaseOpen, ""
	m.drain = drain{want: max(n, l.First)}
	if l.First > n {
		m.passed(n, l.First)
	}
	if m.shown {
		m.seam()
	}
}

// agreeing returns how many entries the local log does not contradict. An entry's
// epoch is that of its last chunk, and epochs rise along a log: where the log holds
// another epoch at an entry's last offset, or, ending within the entry, a later one,
// the two were written by different writers from some point in that entry on. An
// entry outside of the log is not contradicted by itself; if one below it is, it
// goes as well, since it was written after it.
func agreeing(entries []manifest.Entry, l Local) int {
	keep := len(entries)
	for i := len(entries) - 1; i >= 0; i-- {
		e := &entries[i]
		at := min(e.Next, l.Next) - 1
		if at < e.First {
			continue
		}
		if at < l.First {
			break
		}
		epoch, known := epochAt(l.Epochs, at)
		if !known || epoch == e.Epoch || at < e.Next-1 && epoch < e.Epoch {
			break
		}
		keep = i
	}
	return keep
}

func epochAt(epochs []segment.EpochEnd, at pos.Offset) (pos.Epoch, bool) {
	for _, e := range epochs {
		if at < e.End {
			return e.Epoch, true
		}
	}
	return 0, false
}

// truncate gives up the entries that the local log contradicts. Nobody is told of
// the manifest before that is persisted.
func (m *Machine) truncate(keep int) {
	gone := m.now.Entries[keep:]
	m.counts.Divergences++
	m.note(LevelError, fmt.Sprintf("the object store and the local log diverge: %d fragments from %s to %s are given up",
		len(gone), gone[0].First, m.now.Next))
	for i := range gone {
		m.drops = append(m.drops, m.fragmentKey(gone[i].First, gone[i].UID))
	}
	m.contradicted = true
	if m.shown {
		m.shown = false
		m.show()
	}
	m.edit(manifest.TruncateEdit(m.now, keep))
}

// show tells the manifest replica what may be told.
func (m *Machine) show() {
	if m.shown {
		m.emit(ShowSync{Manifest: m.stored})
	} else if m.phase != phaseNew {
		m.emit(ShowPending{})
	}
}
