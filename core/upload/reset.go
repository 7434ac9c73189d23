package upload

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// ResetManifest asks a replica reader, with Call or Request, to give up what the store has lost
// of a stream: the stored manifest if that is lost or damaged, else the objects at its beginning
// that are. It answers with ResetAnswer, once a manifest without them is stored. Who asks while
// one is under way is answered by that one.
type ResetManifest struct{}

// ResetAnswer answers ResetManifest. What is in [From, Next) is given up, and what is in Hole.
type ResetAnswer struct {
	Refused string     // why nothing was given up, as far as is known; "": it was
	From    pos.Offset // at the earliest: where a manifest that is lost began is not known
	Next    pos.Offset
	Hole    manifest.Gap // behind what is kept and before what local disk holds
}

// resetting is a reset from its being asked for until a manifest is stored without what it
// gives up.
//
// All is looked at again first, since it may have come back: pointer, root, first object.
// Where the root is not there, or is damaged, the newest one that is there stands for it: one
// before it, which is kept for a while, or one that the pointer never named; what they name
// was stored before they were. Where the first objects of a root are not there, those that
// are missing are the ones before some entry, which is searched for by halves.
type resetting struct {
	ids    []WaiterID // who asked for it, also while it was under way
	listed bool       // the roots that are there
	older  []string   // of these, what was not tried yet, the newest first
	from   pos.Offset // of what was known
	there  halving    // for the first entry of the root whose object is there
	next   pos.Offset // where it ends
	// hole is what lies between an older root and the local log, which is given up as well: it
	// becomes a declared gap with the next fragment.
	hole manifest.Gap
}

const thereAgain = "the stored manifest is there again, with the first object that it names"

func (m *Machine) reset(in Reset) {
	refuse := func(why string) { m.answerReset([]WaiterID{in.ID}, refusedReset(why)) }
	switch {
	case m.resetting != nil:
		m.resetting.ids = append(m.resetting.ids, in.ID)
	case m.lost, m.phase == phaseResolving:
		// What is being looked at is looked at from the beginning.
		m.gen++
		m.emit(Abort{})
		m.resetting = &resetting{ids: []WaiterID{in.ID}}
		if m.stored != nil {
			m.resetting.from = m.stored.First
		}
		m.resolve()
	case m.phase == phaseOpen:
		refuse("the stored manifest is neither lost nor damaged")
	default:
		refuse(fmt.Sprintf("the stored manifest is not known to be lost or damaged, the stream is %s", phaseNames[m.phase]) + because(m.why))
	}
}

// resetWithout goes on with a reset whose root is lost or damaged; false if there is none.
func (m *Machine) resetWithout() bool {
	r := m.resetting
	switch {
	case r == nil:
		return false
	case !r.listed:
		all := manifest.RootPrefix(m.cfg.Prefix, m.cfg.Stream)
		m.emit(ListRoots{Gen: m.gen, Prefix: all, Tries: m.ask(all)})
	case len(r.older) > 0:
		key := r.older[0]
		r.older = r.older[1:]
		m.readRoot(key)
	default:
		m.resetOn(manifest.New(m.pointer.Next))
	}
	return true
}

func (m *Machine) rootsListed(in RootsListed) {
	r := m.resetting
	if in.Gen != m.gen || m.phase != phaseResolving || r == nil || r.listed {
		return
	}
	m.told(in.Fault)
	switch {
	case in.Fault != FaultNone:
		m.unresolved(in.Why)
	default:
		r.listed, r.older = true, m.newest(in.Keys)
		m.resetWithout()
	}
}

// newest returns the keys of the stream's roots, the newest first, but for the one that the
// pointer names.
func (m *Machine) newest(keys []string) []string {
	parsed := map[string]manifest.Key{}
	for _, key := range keys {
		if k, ok := manifest.ParseKey(m.cfg.Prefix, key); ok && k.Kind == manifest.ObjectRoot && k.Stream == m.cfg.Stream && key != m.rootKey(m.pointer) {
			parsed[key] = k
		}
	}
	return slices.SortedFunc(maps.Keys(parsed), func(a, b string) int {
		x, y := parsed[a], parsed[b]
		return cmp.Or(cmp.Compare(y.Revision, x.Revision), cmp.Compare(y.Epoch, x.Epoch), cmp.Compare(a, b))
	})
}

// halving finds the first of some entries whose object is there, if those of all behind it
// are: by halves, but the first of all before, since mostly nothing is missing.
type halving struct {
	low, end int // the first is one of these; end: none is
	at       int // of this one it is asked
}

// take takes whether the object of entry at is there, and reports whether at is to be asked
// for next. If not, end is the first one.
func (h *halving) take(there bool) bool {
	if there {
		h.end = h.at
	} else {
		h.low = h.at + 1
	}
	h.at = (h.low + h.end) / 2
	return h.low < h.end
}

// search takes whether the object that was looked for is there.
func (m *Machine) search(there bool) {
	r := m.resetting
	switch {
	case r.there.take(there):
		m.lookFor(r.there.at)
	case r.there.end == 0 && !r.listed:
		root := m.root
		m.endReset(thereAgain)
		m.resolved(m.pointer, root)
	default:
		m.resetOn(m.root)
	}
}

// resetOn looks at the local log, with the root from which something is given up. The next one
// follows the one that the pointer names all the same.
func (m *Machine) resetOn(root *manifest.Manifest) {
	if !root.Empty() {
		m.resetting.from = root.First
	}
	m.contradicted = true
	m.resolved(m.pointer, root)
}

// giveUp changes the manifest, once it is known where the local log begins. It does not, and
// ends the reset, while that ends before what is kept: a log that was lost grows over it first.
//
// What is kept although local disk has all of it and more is uploaded again.
func (m *Machine) giveUp(l Local) bool {
	r := m.resetting
	kept := m.now.Entries[min(r.there.end, len(m.now.Entries)):]
	n := len(kept)
	if n > 0 && kept[n-1].Next > l.Next {
		m.contradicted = false
		m.unresolved(fmt.Sprintf("the local log ends at %s, the object store holds the stream up to %s", l.Next, kept[n-1].Next))
		return false
	}
	if n > 0 && l.First < kept[0].First {
		for i := range kept {
			m.drops = append(m.drops, m.fragmentKey(kept[i].First, kept[i].UID))
		}
		kept = nil
	}
	r.next = l.First
	if len(kept) > 0 {
		r.next = kept[0].First
	}
	r.from = min(r.from, r.next)
	m.edit(manifest.ResetEdit(r.next))
	for i := range kept {
		m.edit(manifest.AppendEdit(m.now, kept[i]))
	}
	if m.now.Next < l.First {
		r.hole = manifest.Gap{From: m.now.Next, To: l.First}
	}
	return true
}

// endReset answers a reset that gives nothing up after all.
func (m *Machine) endReset(why string) {
	if r := m.resetting; r != nil {
		m.resetting = nil
		m.answerReset(r.ids, refusedReset(why))
	}
}

func refusedReset(why string) ResetAnswer {
	return ResetAnswer{Refused: why, From: pos.NoOffset, Next: pos.NoOffset}
}

func (m *Machine) answerReset(ids []WaiterID, a ResetAnswer) {
	for _, id := range ids {
		m.emit(ResetDone{ID: id, ResetAnswer: a})
	}
}

// loss tells what a reset gave up.
func (r *resetting) loss() (Level, string) {
	var lost []string
	for _, g := range []manifest.Gap{{From: r.from, To: r.next}, r.hole} {
		if g.To > g.From {
			lost = append(lost, fmt.Sprintf("[%s, %s)", g.From, g.To))
		}
	}
	if len(lost) == 0 {
		return LevelWarn, "an operator had the stored manifest written anew: no record is lost"
	}
	return LevelError, "an operator gave up what was lost: in no tier is " + strings.Join(lost, ", nor ")
}

// resetDone accounts for what a reset gave up: it is stored that it is.
func (m *Machine) resetDone() {
	r := m.resetting
	if r == nil {
		return
	}
	m.resetting = nil
	m.counts.Resets++
	if r.next > r.from {
		m.counts.Gaps++
		m.counts.GapRecords += int64(r.next - r.from)
	}
	m.note(r.loss())
	m.answerReset(r.ids, ResetAnswer{From: r.from, Next: r.next, Hole: r.hole})
}
