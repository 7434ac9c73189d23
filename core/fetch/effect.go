package fetch

import (
	"time"

	"millrace/core/pos"
	"millrace/core/resolve"
)

// Effect is what a shell must do: one of the types below. Effects are carried out
// in order. Each says by which input it is answered, exactly once.
//
//sumtype:decl
type Effect interface{ effect() }

// Look asks for what is known of the stream now. Answer: Seen.
type Look struct{}

// AskPointer asks the metadata store whether the stream has a manifest pointer.
// Answer: PointerSeen.
type AskPointer struct{}

// OpenLocal opens a cursor in the local log: Place is LocalAt, LocalLast or
// LocalTime. It follows a CloseLocal if another cursor was open. Answer: Opened,
// or LocalRead with no chunks and why.
type OpenLocal struct{ Place resolve.Place }

// ReadLocal reads chunks from the cursor until they have MaxBytes or more. Answer:
// LocalRead.
type ReadLocal struct{ MaxBytes int }

// CloseLocal closes the cursor. No answer.
type CloseLocal struct{}

// Fetch reads the bytes [Off, Off+N) of an object. At most one is unanswered. The
// shell may read fewer when memory is short, but at least Need; with Need 0 it is
// read-ahead and may be refused. Answer: Fetched, FetchFailed or FetchRefused.
type Fetch struct {
	ID           uint64
	Key          string
	Off, N, Need int64
	Tries        int // of it that failed before
}

// Notify asks to be told once more than From is committed, or the log's writer
// ended. At most one is unanswered. Answer: Woken.
type Notify struct{ From pos.Offset }

// SetTimer starts a timer. Answer: Fired, unless StopTimer came first.
type SetTimer struct {
	ID    uint64
	After time.Duration
}

// StopTimer stops a timer. No answer.
type StopTimer struct{ ID uint64 }

// Answer ends a Pull with Chunks, or with Err if that is not nil.
type Answer struct {
	ID     uint64
	Chunks Chunks
	Err    *Error
}

// Repositioned tells that records were passed over: to be logged and counted.
type Repositioned struct{ Moved resolve.Moved }

// Detour tells that the local log is damaged at At, and that the records [At, To) are
// read from the object store instead: to be logged and counted.
type Detour struct {
	At, To pos.Offset
	Why    string
}

// Waiting tells that something failed and is tried again after a time: to be
// logged and counted.
type Waiting struct {
	Err   Error
	After time.Duration
	Local bool // it is the local log that failed
}

func (Look) effect()         {}
func (AskPointer) effect()   {}
func (OpenLocal) effect()    {}
func (ReadLocal) effect()    {}
func (CloseLocal) effect()   {}
func (Fetch) effect()        {}
func (Notify) effect()       {}
func (SetTimer) effect()     {}
func (StopTimer) effect()    {}
func (Answer) effect()       {}
func (Repositioned) effect() {}
func (Detour) effect()       {}
func (Waiting) effect()      {}
