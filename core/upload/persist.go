package upload

import (
	"fmt"
	"slices"

	"millrace/core/manifest"
	"millrace/core/pos"
)

type persistStage uint8

const (
	persistIdle     persistStage = iota
	persistPutting               // PutRoot is under way
	persistSwapping              // SwapPointer is under way
	persistSwap                  // SwapPointer is tried again
	persistReading               // ReadPointer is under way, to learn how a swap ended
	persistRead                  // ReadPointer is tried again
)

// persist is the one persist under way: a snapshot, from its first byte to the
// answer of the metadata store.
type persist struct {
	retry
	stage    persistStage
	manifest *manifest.Manifest
	next     Pointer
	edits    int      // how many of Machine.edits it carries
	applied  load     // what of Machine.applied it carries
	drops    int      // how many of Machine.drops it carries
	refused  bool     // the swap was refused, as opposed to: its outcome is not known
	remnants []string // keys that failed attempts may have left
}

// edit changes the live manifest. It was made for it, so it fits.
func (m *Machine) edit(e manifest.Edit) {
	if err := m.live.Apply(e); err != nil {
		panic(fmt.Sprintf("upload: %v: this is a bug", err))
	}
	m.now = m.live.Manifest()
	if len(m.edits) == m.persist.edits {
		m.since = m.at.Now
	}
	m.edits = append(m.edits, e)
}

// startPersist begins a persist, or goes on with the one under way, when it is time.
func (m *Machine) startPersist() {
	p := &m.persist
	if m.at.Now < p.at {
		return
	}
	switch p.stage {
	case persistIdle:
		if due, ok := m.persistDue(); ok && m.at.Now >= due {
			m.putRoot()
		}
	case persistSwap:
		m.swap()
	case persistRead:
		p.stage = persistReading
		m.emit(ReadPointer{Gen: m.gen})
	default: // an answer comes
	}
}

// persistDue returns when the pending edits are to be persisted.
func (m *Machine) persistDue() (pos.Millis, bool) {
	switch {
	case len(m.edits) == 0:
		return 0, false
	case m.contradicted || len(m.edits) >= m.cfg.PersistEdits:
		return m.since, true
	case len(m.flights) == 0 && m.applied.bytes >= worthwhile:
		return m.since, true // nothing that could join them is under way
	}
	return m.since.Add(m.cfg.PersistInterval), true
}

// putRoot takes the snapshot. Each attempt has a uid of its own, since one that
// failed may yet leave its object.
func (m *Machine) putRoot() {
	p := &m.persist
	p.stage, p.edits, p.applied, p.drops = persistPutting, len(m.edits), m.applied, len(m.drops)
	p.next = Pointer{Revision: m.pointer.Revision + 1, Epoch: m.cfg.Epoch, UID: m.at.UID, Next: m.now.Next}
	p.manifest = m.now.Stamped(p.next.Epoch, p.next.Revision)
	m.emit(PutRoot{Gen: m.gen, Key: m.rootKey(p.next), Body: p.manifest.Encode(), Tries: p.fails})
}

func (m *Machine) rootKey(p Pointer) string {
	return manifest.RootKey(m.cfg.Prefix, m.cfg.Stream, p.Epoch, p.Revision, p.UID)
}

func (m *Machine) rootPut(in RootPut) {
	p := &m.persist
	switch {
	case in.Gen != m.gen || p.stage != persistPutting:
	case in.Fault == FaultNone:
		p.retry = retry{}
		m.back()
		m.swap()
	default:
		if len(p.remnants) == maxRemnants {
			p.remnants = slices.Delete(p.remnants, 0, 1)
		}
		p.remnants = append(p.remnants, m.rootKey(p.next))
		p.stage, p.edits, p.applied, p.drops = persistIdle, 0, load{}, 0
		if in.Fault == FaultTransient {
			m.away.failed(in.Result, m.at)
		}
		m.persistFailed(in.Result, "the manifest can't be stored")
	}
}

func (m *Machine) persistFailed(r Result, what string) {
	m.counts.PersistsFailed++
	m.persist.failed(r, m.at)
	m.sparse(m.persist.fails, LevelWarn, fmt.Sprintf("%s, its last %d changes are not durable: %s", what, len(m.edits), r.Why))
}

func (m *Machine) swap() {
	m.persist.stage = persistSwapping
	m.emit(SwapPointer{Gen: m.gen, Expected: m.pointer.Revision, Next: m.persist.next})
}

func (m *Machine) pointerSwapped(in PointerSwapped) {
	p := &m.persist
	if in.Gen != m.gen || p.stage != persistSwapping {
		return
	}
	switch in.Fault {
	case FaultNone:
		m.persisted()
	case FaultConflict, FaultUnknown:
		// Also a refused swap may be our own, when an answer was lost before.
		p.stage, p.refused = persistReading, in.Fault == FaultConflict
		m.emit(ReadPointer{Gen: m.gen})
	case FaultMissing:
		m.pointerGone(in.Why)
	default:
		p.stage = persistSwap
		m.persistFailed(in.Result, "the pointer to the manifest can't be moved")
	}
}

// readBack learns from the stored pointer how a swap ended: it knows its own uid.
func (m *Machine) readBack(in PointerRead) {
	p := &m.persist
	if p.stage != persistReading {
		return
	}
	same := in.Pointer == m.pointer
	if in.Fault == FaultMissing {
		same = m.pointer.Revision.IsZero()
	}
	switch {
	case in.Fault != FaultNone && in.Fault != FaultMissing:
		p.stage = persistRead
		m.persistFailed(in.Result, "it is not known whether the pointer to the manifest was moved")
	case in.Fault == FaultNone && in.Pointer == p.next:
		m.persisted()
	case same && !p.refused:
		p.stage = persistSwap
		m.persistFailed(Result{FaultTransient, "the swap did not take effect"}, "the pointer to the manifest was not moved")
	case in.Fault == FaultMissing && !same:
		m.deleted()
	default:
		m.counts.Conflicts++
		m.note(LevelWarn, fmt.Sprintf("the pointer to the manifest was moved by the writer of epoch %s to revision %s",
			in.Pointer.Epoch, in.Pointer.Revision))
		m.restart("the pointer to the manifest was moved by somebody else")
	}
}

// pointerGone follows a swap for which there was no stream. One that never had a
// pointer may just not be known yet to this replica of the metadata store.
func (m *Machine) pointerGone(why string) {
	if m.pointer.Revision.IsZero() {
		m.restart("the stream is not known to the metadata store: " + why)
		return
	}
	m.deleted()
}

// persisted publishes the snapshot: the pointer names it.
func (m *Machine) persisted() {
	p, old := m.persist, m.pointer
	edits := slices.Clone(m.edits[:p.edits])
	garbage := slices.Concat(m.drops[:p.drops], p.remnants)
	if !old.Revision.IsZero() && m.rootKey(old) != m.rootKey(p.next) {
		garbage = append(garbage, m.rootKey(old))
	}
	before := m.stored
	m.stored, m.pointer, m.persist = p.manifest, p.next, persist{}
	m.live.Stamp(m.pointer.Epoch, m.pointer.Revision)
	m.now = m.live.Manifest()
	m.edits, m.since = slices.Clone(m.edits[p.edits:]), m.at.Now
	m.drops = slices.Clone(m.drops[p.drops:])
	m.applied.count -= p.applied.count
	m.applied.bytes -= p.applied.bytes
	m.counts.Persists++
	m.counts.BytesPersisted += p.applied.bytes
	m.counts.LastPersist = m.at.Now
	m.fails, m.contradicted = 0, false
	if m.shown {
		m.emit(ShowEdits{Seq: m.pointer.Revision, Edits: edits})
	} else {
		m.shown = true
		m.show()
	}
	m.seam()
	m.collect(garbage)
	m.retired(before, edits)
	m.resetDone()
	m.answer()
}

func (m *Machine) wakePersist(earliest func(pos.Millis)) {
	switch m.persist.stage {
	case persistIdle:
		if due, ok := m.persistDue(); ok {
			earliest(max(due, m.persist.at))
		}
	case persistSwap, persistRead:
		earliest(m.persist.at)
	default: // an answer comes
	}
}
