package manifest

import "millrace/core/pos"

// State says whether a node knows a stream's manifest.
type State uint8

// States of a Row. A row that is missing means the same as a pending one.
const (
	StatePending State = iota
	StateResolved
)

// Row is what a node's cache says of one stream.
type Row struct {
	State    State
	Epoch    pos.Epoch    // of the writer that sent it
	Seq      pos.Revision // the manifest's revision
	Manifest *Manifest    // nil while pending
}

// Messages to a manifest replica. The writer's replica reader sends them, and only
// what it has persisted: Seq is the revision under which the pointer names it.

// Sync replaces a stream's row. It is refused if (Epoch, Seq) is older.
type Sync struct {
	Stream   pos.StreamID
	Epoch    pos.Epoch
	Seq      pos.Revision
	Manifest *Manifest
}

// Edits changes a row by all of Edits, or not at all: only in the same epoch and
// if Seq is the row's plus one. Otherwise the sender is asked for a Sync.
type Edits struct {
	Stream pos.StreamID
	Epoch  pos.Epoch
	Seq    pos.Revision
	Edits  []Edit
}

// Pending says that the writer of Epoch does not know the manifest yet: readers
// that need it fail closed. It is refused if Epoch is older than the row's.
type Pending struct {
	Stream pos.StreamID
	Epoch  pos.Epoch
}

// Forget drops a row: the stream was deleted.
type Forget struct{ Stream pos.StreamID }

// Resync is the manifest replica's answer to a replica reader when an Edits did
// not fit: send a Sync.
type Resync struct{ Stream pos.StreamID }
