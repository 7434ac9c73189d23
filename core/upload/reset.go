package upload

import (
	"fmt"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// StoreBack tells a replica reader that the object store answers again.
type StoreBack struct{}

// StoreClaimed tells a replica reader that the store was without the cluster's marker, and an
// operator had it put again: what the stored manifest names may be gone.
type StoreClaimed struct{}

// ResetManifest asks a replica reader, with Call or Request, to give up a stored manifest that
// is lost or damaged: the store's part of the stream begins anew where local disk begins. It
// answers with ResetAnswer.
type ResetManifest struct{}

// ResetAnswer answers ResetManifest.
type ResetAnswer struct {
	Refused string     // why nothing was done; "": it was
	Next    pos.Offset // where what is given up ended
}

func (m *Machine) storeAnswers() {
	switch m.phase {
	case phaseWaiting, phaseStalled:
		m.resolve()
	case phaseOpen:
		for _, f := range m.flights {
			f.at = 0
		}
		if m.persist.stage == persistIdle {
			m.persist.at = 0
		}
	default: // an answer comes, or it is not the store that is waited for
	}
}

func (m *Machine) storeReplaced() {
	m.doubted = true
	m.emit(NoSeam{})
	m.restart("the store was claimed anew, what it holds is looked at again")
}

// reset begins with an empty manifest in place of the one that can't be had. It has the
// pointer's revision, so that the one put next follows it; nobody is told of it.
func (m *Machine) reset(in Reset) {
	if !m.lost {
		why := "the stored manifest is neither lost nor damaged"
		if m.phase != phaseOpen {
			why = fmt.Sprintf("the stored manifest is not known to be lost or damaged, the stream is %s", phaseNames[m.phase])
		}
		m.emit(ResetDone{ID: in.ID, ResetAnswer: ResetAnswer{Refused: why + because(m.why), Next: pos.NoOffset}})
		return
	}
	m.note(LevelWarn, fmt.Sprintf("an operator gives up the manifest that ended at %s: the store's part begins anew", m.pointer.Next))
	m.emit(NoSeam{})
	m.emit(ResetDone{ID: in.ID, ResetAnswer: ResetAnswer{Next: m.pointer.Next}})
	m.lost, m.contradicted, m.anew = false, true, true
	m.resolved(m.pointer, manifest.New(m.pointer.Next).Stamped(m.pointer.Epoch, m.pointer.Revision))
}
