package resolve

import (
	"fmt"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// Pointer says whether the metadata store names a manifest of the stream. It
// matters only while tiering is off.
type Pointer uint8

// What is known of the pointer.
const (
	PointerUnasked Pointer = iota
	PointerAbsent
	PointerPresent
	PointerFailed // the metadata store did not answer
)

// Known is what a node knows of a stream when it resolves.
type Known struct {
	// First and Committed bound the local log, [First, Committed): equal when it is
	// empty.
	First, Committed pos.Offset
	// Tiering says whether tiering is enabled on the node.
	Tiering bool
	// Row is the node's cached manifest; the zero Row, which is pending, if there
	// is none. Read only with Tiering.
	Row manifest.Row
	// Why says what the manifest waits for while Row is pending; empty if nobody can tell.
	Why string
	// Pointer is read only without Tiering.
	Pointer Pointer
}

// Place is where to read. One of LocalAt, LocalLast, LocalTime, RemoteAt,
// RemoteTime, Doubtful, Ask, Unavailable.
//
//sumtype:decl
type Place interface{ place() }

// LocalAt is the chunk of the local log that contains At, which is First at least.
// At Committed it is the tail: there is nothing to read yet.
type LocalAt struct {
	At    pos.Offset
	Moved *Moved
}

// LocalLast is the last user chunk of the local log, or its tail if it has none.
type LocalLast struct{}

// LocalTime is the first chunk of the local log with that timestamp or a later
// one, or its tail if all are earlier.
type LocalTime struct{ Time pos.Millis }

// RemoteAt is the chunk of a fragment that contains At.
type RemoteAt struct {
	Entry manifest.Entry
	At    pos.Offset
	Moved *Moved
}

// RemoteTime is the first chunk of a fragment with that timestamp or a later one.
// There is one.
type RemoteTime struct {
	Entry manifest.Entry
	Time  pos.Millis
}

// Doubtful is Then, a place in the local log, if the node's row is up to date. It
// may not be: the local log begins above the manifest's next offset. Either records
// were trimmed before they were uploaded, or a manifest that has them is on its way.
// It is to be believed only if the same row says so for longer than that can take.
type Doubtful struct{ Then Place }

// Ask means: ask the metadata store for the stream's pointer and resolve again.
type Ask struct{}

// Unavailable means that the answer is not known now. Nothing may be served.
type Unavailable struct {
	Why string
	// Lasting says that only an operator changes it; otherwise it is worth trying
	// again soon.
	Lasting bool
}

func (LocalAt) place()     {}
func (LocalLast) place()   {}
func (LocalTime) place()   {}
func (RemoteAt) place()    {}
func (RemoteTime) place()  {}
func (Doubtful) place()    {}
func (Ask) place()         {}
func (Unavailable) place() {}

// Why says why a reader was moved.
type Why uint8

// Reasons of a move.
const (
	// Retention: the records were removed by the stream's retention.
	Retention Why = iota + 1
	// Gap: local retention removed the records before they were uploaded.
	Gap
)

// String returns the reason's name, as metrics carry it.
func (w Why) String() string {
	switch w {
	case Retention:
		return "retention"
	case Gap:
		return "gap"
	}
	return fmt.Sprintf("reason %d", uint8(w))
}

// Moved says that the records [From, To) exist no more and were passed over.
type Moved struct {
	From, To pos.Offset
	Why      Why
}

// Resolve returns where to read. See the table in the package's comment.
func Resolve(s Spec, k Known) Place {
	s.Offset = max(s.Offset, 0)
	switch s.Kind {
	case KindNext:
		return LocalAt{At: k.Committed}
	case KindLast:
		return LocalLast{}
	case KindOffset:
		if s.Offset >= k.First {
			return LocalAt{At: min(s.Offset, k.Committed)}
		}
	case KindTimestamp:
		if k.First == 0 {
			return LocalTime{Time: s.Time}
		}
	case KindFirst:
		if k.First == 0 {
			return LocalAt{At: 0}
		}
	default:
		return Unavailable{Why: fmt.Sprintf("%s is no place in a stream", s), Lasting: true}
	}
	// What is asked for may lie below the local log.
	if !k.Tiering {
		return withoutTiering(s, k)
	}
	if k.Row.State != manifest.StateResolved || k.Row.Manifest == nil {
		return pending(k)
	}
	return withManifest(s, k, k.Row.Manifest)
}

// pending is the answer while the manifest is not known.
func pending(k Known) Unavailable {
	if k.Why == "" {
		return Unavailable{Why: "the stream's manifest is not known to this node yet: try again"}
	}
	return Unavailable{Why: "what the object store holds of the stream is not known to this node: " + k.Why}
}

// Covered returns where the object store has the record o, whether or not the local log
// has it too: for a reader that found the local copy damaged. Without, the place is not
// known to be in the store.
func Covered(o pos.Offset, k Known) (RemoteAt, bool) {
	if !k.Tiering || k.Row.State != manifest.StateResolved || k.Row.Manifest == nil {
		return RemoteAt{}, false
	}
	m := k.Row.Manifest
	i, ok := m.Find(o)
	if !ok || m.Entries[i].First > o {
		return RemoteAt{}, false
	}
	return RemoteAt{Entry: m.Entries[i], At: o}, true
}

// withManifest resolves what may lie below the local log.
func withManifest(s Spec, k Known, m *manifest.Manifest) (p Place) {
	switch s.Kind {
	case KindFirst:
		p = oldest(m, k, nil)
	case KindTimestamp:
		p = atTime(s.Time, m, k)
	default:
		p = below(s.Offset, m, k)
	}
	_, at := p.(LocalAt)
	_, time := p.(LocalTime)
	if (at || time) && m.Next < k.First {
		return Doubtful{Then: p}
	}
	return p
}

// withoutTiering resolves what may lie below the local log while tiering is off.
func withoutTiering(s Spec, k Known) Place {
	switch k.Pointer {
	case PointerUnasked:
		return Ask{}
	case PointerAbsent:
		switch s.Kind {
		case KindFirst:
			return LocalAt{At: k.First}
		case KindTimestamp:
			return LocalTime{Time: s.Time}
		default:
			return LocalAt{At: k.First, Moved: &Moved{From: s.Offset, To: k.First, Why: Retention}}
		}
	case PointerPresent:
		return Unavailable{Why: "older records are in the object store, and tiering is disabled: enable tiering", Lasting: true}
	default:
		return Unavailable{Why: "the metadata store does not tell whether the object store has older records: try again"}
	}
}

// oldest resolves to the first record that any tier has.
func oldest(m *manifest.Manifest, k Known, moved *Moved) Place {
	at, remote := k.First, !m.Empty() && m.First < k.First
	if remote {
		at = m.First
	}
	if moved != nil {
		moved.To = at
	}
	if remote {
		return RemoteAt{Entry: m.Entries[0], At: at, Moved: moved}
	}
	return LocalAt{At: at, Moved: moved}
}

// below resolves an offset below the local log.
func below(o pos.Offset, m *manifest.Manifest, k Known) Place {
	if m.Empty() || o < m.First {
		return oldest(m, k, &Moved{From: o, Why: Retention})
	}
	i, ok := m.Find(o)
	switch {
	case ok && m.Entries[i].First <= o:
		return RemoteAt{Entry: m.Entries[i], At: o}
	case ok && m.Entries[i].First < k.First:
		at := m.Entries[i].First
		return RemoteAt{Entry: m.Entries[i], At: at, Moved: &Moved{From: o, To: at, Why: Gap}}
	default:
		return LocalAt{At: k.First, Moved: &Moved{From: o, To: k.First, Why: Gap}}
	}
}

// atTime resolves a time that may lie below the local log.
func atTime(t pos.Millis, m *manifest.Manifest, k Known) Place {
	if i, ok := m.FindTime(t); ok && m.Entries[i].First < k.First {
		return RemoteTime{Entry: m.Entries[i], Time: t}
	}
	return LocalTime{Time: t}
}
