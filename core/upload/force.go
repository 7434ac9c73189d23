package upload

import (
	"cmp"
	"fmt"
	"time"

	"millrace/core/pos"
)

// CutNow asks a replica reader, with Call or Request, to cut a fragment of what was
// committed until now and is not cut yet, however small. It answers with CutAnswer; that
// nothing waits to be cut is no refusal, as with PostgreSQL's pg_switch_wal.
type CutNow struct {
	// For is how long the log may take to be read that far.
	For time.Duration
}

// CutRefusal says why a fragment was not cut on request.
type CutRefusal uint8

// Reasons not to cut.
const (
	CutOK          CutRefusal = iota // it was cut
	CutNotResolved                   // the manifest is not known yet
	CutNoAssembly                    // the local log is not open behind the manifest
	CutNoRoom                        // as much is ahead of the pointer as may be
	CutUnread                        // the log could not be read that far in time
	CutTooMany                       // too many wait for answers of this stream
)

var cutNames = [...]string{"cut", "manifest_not_resolved", "no_assembly", "no_room", "timeout", "too_many"}

// String is the reason as a program reads it.
func (c CutRefusal) String() string {
	if int(c) < len(cutNames) {
		return cutNames[c]
	}
	return fmt.Sprintf("refusal %d", c)
}

// CutAnswer answers CutNow.
type CutAnswer struct {
	Refused CutRefusal
	Why     string // of a refusal, for the operator
	First   pos.Offset
	Next    pos.Offset // up to where everything is cut; of a refusal NoOffset if that is not known
	Bytes   int64      // of chunks on disk
	Chunks  int        // 0: everything below Next was cut already
}

// cut is a wish to cut that waits for the log to be read up to an offset.
type cut struct {
	id    WaiterID
	upto  pos.Offset
	until pos.Millis
}

func (m *Machine) forceCut(in ForceCut) {
	if len(m.cuts) >= MaxWaiters {
		m.emit(Cut{ID: in.ID, CutAnswer: CutAnswer{Refused: CutTooMany, First: pos.NoOffset, Next: pos.NoOffset, Why: "too many wait already"}})
		return
	}
	m.cuts = append(m.cuts, cut{in.ID, in.Upto, in.Until})
	if m.drain.fails == 0 {
		m.drain.at = 0 // a pause between two readings ends; a back-off does not
	}
}

// force cuts for whoever asked, or says why not.
func (m *Machine) force() {
	kept := m.cuts[:0]
	for _, c := range m.cuts {
		if a, ok := m.forced(c); ok {
			m.emit(Cut{ID: c.id, CutAnswer: a})
		} else {
			kept = append(kept, c)
		}
	}
	m.cuts = kept
}

// forced returns the answer to one wish, false if it has to wait.
func (m *Machine) forced(c cut) (CutAnswer, bool) {
	refuse := func(r CutRefusal, why string) (CutAnswer, bool) {
		a := CutAnswer{Refused: r, Why: why, First: pos.NoOffset, Next: pos.NoOffset}
		if m.now != nil {
			a.Next = m.tail()
		}
		return a, true
	}
	switch {
	case m.phase == phasePlacing, m.phase == phaseShort:
		return refuse(CutNoAssembly, m.why)
	case m.phase != phaseOpen:
		return refuse(CutNotResolved, cmp.Or(m.why, "the stored manifest is being looked for"))
	case m.drain.want >= c.upto && m.assembly.Empty():
		return CutAnswer{First: m.tail(), Next: m.tail()}, true
	case !m.room():
		return refuse(CutNoRoom, fmt.Sprintf("%d fragments are cut and not in the stored manifest yet", m.ahead().count)+because(m.hindrance()))
	case m.drain.want < c.upto && m.at.Now >= c.until:
		return refuse(CutUnread, fmt.Sprintf("the local log was read up to %s only", m.drain.want)+because(m.drain.why))
	case m.drain.want < c.upto:
		return CutAnswer{}, false
	}
	f := m.cut()
	return CutAnswer{First: f.First, Next: f.Next, Bytes: f.Size, Chunks: f.Chunks}, true
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func (m *Machine) wakeForced(earliest func(pos.Millis)) {
	for _, c := range m.cuts {
		earliest(c.until)
	}
}
