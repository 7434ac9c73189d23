package segment

import (
	"millrace/core/chunk"
	"millrace/core/pos"
)

// Input is what a Machine is told. Inputs are not kept after Step returns.
//
//sumtype:decl
type Input interface{ input() }

// Found ends what Open began: the folder is analysed, repaired and synced.
type Found struct {
	Epoch     pos.Epoch  // of this writer
	Segments  []Segment  // oldest first, the last one active; none: the log begins empty at Start
	Epochs    []EpochEnd // of the records in Segments
	Committed pos.Offset // known to be committed; ignored without Segments
	LastChunk pos.Offset // id of the last committed chunk, NoOffset if there is none
	Chunks    []Mark     // the chunks from Committed on
	Discard   []pos.Offset
	Start     pos.Offset
	FromStore bool   // Start was taken from the object store, not from this log
	Damage    string // what had to be left out, for the status
	Now       pos.Millis
}

// Batch says that a sealed user chunk waits to be written. Its id was Next and its
// epoch Epoch. Precondition: Ready.
type Batch struct {
	Records uint32
	Size    int64 // of the whole chunk in bytes
	Now     pos.Millis
}

// Foreign says that a whole chunk of another replica waits to be written.
// Precondition: Ready, and CheckForeign accepts it.
type Foreign struct {
	Header chunk.Header
	Now    pos.Millis
}

// Synced answers a Sync: what it covered is on disk. The machine prepares it; the
// shell fills in Now.
type Synced struct {
	Segment pos.Offset
	Next    pos.Offset
	Bytes   int64
	Chunks  int64
	Cuts    int // how often the log had been cut
	Now     pos.Millis
}

// Committed says that everything below Next is committed. It is rounded down to a
// chunk's end; what is not written yet does not commit.
type Committed struct {
	Next pos.Offset
	Now  pos.Millis
}

// Failed says that an effect failed. It is sent before any other input.
type Failed struct {
	Op      Op
	Segment pos.Offset // OpRemove: which one
	Why     string
	Now     pos.Millis
}

// Cut removes the records from End on: another replica's log goes on differently
// there. The record before End has epoch Epoch. CheckCut says what may be cut; a
// cut that it refuses leaves the log as it is and the machine stuck, since it
// proves a broken promise.
type Cut struct {
	Epoch pos.Epoch
	End   pos.Offset
	Now   pos.Millis
}

// Retain applies the retention bounds, after a change of them, of the seam or of what the stream's
// capture needs.
type Retain struct {
	Seam     pos.Offset // as in the message Seam; NoOffset = unchanged
	Captured pos.Offset // as in the message Captured; NoOffset = unchanged
	Set      *Retention // nil = unchanged
	Now      pos.Millis
}

// Tick is sent when Due says so, and at any time.
type Tick struct {
	Now      pos.Millis
	WantSync bool // somebody waits for the synced offset
	Quiet    bool // the log is idle or about to stop: sync now, in every mode
}

func (*Found) input()     {}
func (*Batch) input()     {}
func (*Foreign) input()   {}
func (*Synced) input()    {}
func (*Committed) input() {}
func (*Failed) input()    {}
func (*Cut) input()       {}
func (*Retain) input()    {}
func (*Tick) input()      {}

// Op says which effect failed.
type Op uint8

// The effects that can fail.
const (
	OpOpen     Op = iota
	OpRoll        // the new pair could not be made; the old one is untouched, and synced or not
	OpRollSync    // a sync during a roll failed
	OpWrite       // a part of the chunk or of the index record may be on disk
	OpSync
	OpTruncate
	OpRemove
)
