package upload

import (
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
)

// Effect is what must be done. Effects are carried out in order; those that take
// time are only started. Fragments, manifests and slices belong to the machine and
// are never changed after they were handed out.
//
//sumtype:decl
type Effect interface{ effect() }

// Effects that are answered by an input.
type (
	// ReadPointer reads the stream's pointer: PointerRead.
	ReadPointer struct{ Gen Gen }
	// ReadRoot reads a root object: RootRead.
	ReadRoot struct {
		Gen   Gen
		Key   string
		Tries int // that failed before
	}
	// ListRoots asks for the keys of all root objects, which begin with Prefix: RootsListed.
	ListRoots struct {
		Gen    Gen
		Prefix string
		Tries  int // that failed before
	}
	// LookFor asks whether an object is in the store: LookedFor.
	LookFor struct {
		Gen   Gen
		Key   string
		Tries int // that failed before
	}
	// Inspect looks at what the local log holds, epochs below Below only: Inspected.
	Inspect struct {
		Gen   Gen
		Below pos.Offset
	}
	// Read takes up to Max chunk headers from the log, fsynced chunks only, the first
	// of them at From: ChunksRead. One Read at a time.
	Read struct {
		Gen  Gen
		From pos.Offset
		Max  int
	}
	// Listen asks to be told once the fsynced end has passed From, at once if it has: Moved.
	Listen struct {
		Gen  Gen
		From pos.Offset
	}
	// PutAnchor notes in the metadata store that objects may exist from now on:
	// AnchorPut. No object is put before it has succeeded.
	PutAnchor struct{ Gen Gen }
	// Submit asks the governor: Granted, sooner or later, or GovernorUp.
	Submit struct {
		Ref   pace.Ref
		Bytes int64
	}
	// Upload puts the fragment under Key, and holds its chunks to what was committed on the
	// way: Uploaded. Doubted: the last attempt failed for good, perhaps because they are damaged;
	// they are read through before anything is sent.
	Upload struct {
		Ref      pace.Ref
		Key      string
		Fragment *fragment.Fragment // its UID is the key's
		Doubted  bool
		Tries    int // that failed before
	}
	// PutRoot puts a root object: RootPut.
	PutRoot struct {
		Gen   Gen
		Key   string
		Body  []byte
		Tries int // that failed before
	}
	// SwapPointer moves the pointer: PointerSwapped. It follows the RootPut of the
	// object it names.
	SwapPointer struct {
		Gen      Gen
		Expected pos.Revision
		Next     Pointer
	}
)

// Effects that nothing answers.
type (
	// Release gives a grant back to the governor.
	Release struct{ Ref pace.Ref }
	// Withdraw takes back what was submitted to the governor, granted or not.
	Withdraw struct{ Refs []pace.Ref }
	// CancelUpload ends an Upload whose time is over; its result no longer matters.
	CancelUpload struct{ Ref pace.Ref }
	// Abort ends everything of an earlier generation; no result of it matters.
	Abort struct{}
	// ShowPending tells the manifest replica that the manifest is not known: readers
	// fail closed.
	ShowPending struct{}
	// ShowSync gives the manifest replica the persisted manifest.
	ShowSync struct{ Manifest *manifest.Manifest }
	// ShowEdits gives it the edits that a persist made of revision Seq-1 into Seq.
	ShowEdits struct {
		Seq   pos.Revision
		Edits []manifest.Edit
	}
	// Forget makes the manifest replica drop the row.
	Forget struct{}
	// Seam tells the local log that everything below Next is in the store. It must not
	// reach the log before the node's manifest row is at Seq: a reader that finds its
	// offset trimmed looks there.
	Seam struct {
		Next pos.Offset
		Seq  pos.Revision
	}
	// NoSeam tells the local log that nothing is known to be in the store.
	NoSeam struct{}
	// Collect hands garbage to the reaper.
	Collect struct {
		Keys  []string
		After pos.Millis
	}
	// Answer ends an Await. Held: the record before its Next is in the store; without,
	// it is in a declared gap or was retained away.
	Answer struct {
		ID   WaiterID
		Next pos.Offset // n; Late: NoOffset if it is not known
		Held bool
		Late bool // its time is over
		Full bool // not answered: too many wait already
	}
	// Cut answers a ForceCut.
	Cut struct {
		ID WaiterID
		CutAnswer
	}
	// ResetDone answers a Reset.
	ResetDone struct {
		ID WaiterID
		ResetAnswer
	}
	// Note is for the log.
	Note struct {
		Level Level
		Text  string
	}
	// Wake asks for a Tick at a time. It replaces the Wake before it.
	Wake struct{ At pos.Millis }
	// Stop ends the replica reader normally.
	Stop struct{ Why string }
)

// Level is how loud a Note is.
type Level uint8

// Levels.
const (
	LevelInfo Level = iota
	LevelWarn
	LevelError
)

func (ReadPointer) effect()  {}
func (ReadRoot) effect()     {}
func (ListRoots) effect()    {}
func (LookFor) effect()      {}
func (Inspect) effect()      {}
func (Read) effect()         {}
func (Listen) effect()       {}
func (PutAnchor) effect()    {}
func (Submit) effect()       {}
func (Upload) effect()       {}
func (PutRoot) effect()      {}
func (SwapPointer) effect()  {}
func (Release) effect()      {}
func (Withdraw) effect()     {}
func (CancelUpload) effect() {}
func (Abort) effect()        {}
func (ShowPending) effect()  {}
func (ShowSync) effect()     {}
func (ShowEdits) effect()    {}
func (Forget) effect()       {}
func (Seam) effect()         {}
func (Collect) effect()      {}
func (Answer) effect()       {}
func (Cut) effect()          {}
func (Note) effect()         {}
func (Wake) effect()         {}
func (Stop) effect()         {}
func (NoSeam) effect()       {}
func (ResetDone) effect()    {}
