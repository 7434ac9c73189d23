package fetch

import (
	"time"

	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// Input is what a Machine is told: one of the types below.
//
//sumtype:decl
type Input interface{ input() }

// Pulled is a Pull that arrived. ID is the shell's, never used again.
type Pulled struct {
	ID       uint64
	MaxBytes int
	Wait     time.Duration
}

// Seen answers Look. Running says whether the stream's log runs on this node; if
// not, Known means nothing.
type Seen struct {
	Running bool
	Known   resolve.Known
}

// PointerSeen answers AskPointer.
type PointerSeen struct{ Pointer resolve.Pointer }

// Opened answers OpenLocal: the cursor's next chunk begins at, or contains, At; at
// the tail, At is the log's committed offset.
type Opened struct{ At pos.Offset }

// LocalRead answers ReadLocal, and OpenLocal if it failed.
type LocalRead struct {
	Chunks []Chunk
	End    End
	Why    string // with EndFailed and EndDamaged
}

// Chunk is a whole, verified chunk of the local log.
type Chunk struct {
	Header chunk.Header
	Bytes  []byte
}

// End says why a local read ended.
type End uint8

// Ends of a local read.
const (
	EndFull    End = iota // MaxBytes are reached; more may follow
	EndTail               // nothing more is committed
	EndTrimmed            // retention took the segment
	EndGone               // the log's writer ended
	EndFailed             // the disk refused to read
	EndDamaged            // what is on the disk is not what was written
)

// Fetched answers Fetch. Data may be shorter than asked for; it is the machine's
// from now on.
type Fetched struct {
	ID   uint64
	Data []byte
}

// FetchFailed answers Fetch with the store's error.
type FetchFailed struct {
	ID    uint64
	Class Class // Fault, Throttled, Denied, Gone or Damaged
	Why   string
}

// FetchRefused answers a Fetch that was only read-ahead: there is no memory for it.
type FetchRefused struct{ ID uint64 }

// Woken answers Notify: more is committed, or the log's writer ended.
type Woken struct{}

// Fired answers SetTimer.
type Fired struct{ ID uint64 }

func (Pulled) input()       {}
func (Seen) input()         {}
func (PointerSeen) input()  {}
func (Opened) input()       {}
func (LocalRead) input()    {}
func (Fetched) input()      {}
func (FetchFailed) input()  {}
func (FetchRefused) input() {}
func (Woken) input()        {}
func (Fired) input()        {}
