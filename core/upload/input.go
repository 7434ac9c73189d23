package upload

import (
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/segment"
)

// Gen numbers the times that the truth was learned from the stores. An input that
// answers an effect of another generation is ignored.
type Gen uint64

// Stamp comes with every input.
type Stamp struct {
	Now pos.Millis
	UID pos.UID // freshly drawn, never 0: for names of objects and for jitter
}

// Fault says what a failure means for what to do next.
type Fault uint8

// Faults.
const (
	FaultNone      Fault = iota // it worked
	FaultTransient              // worth trying again soon: throttled, unavailable, timed out
	FaultLasting                // likely to last until somebody acts: denied, full, damaged
	FaultMissing                // what was named does not exist
	FaultConflict               // a guard did not hold; nothing changed
	FaultUnknown                // it may or may not have taken effect
)

var faultNames = [...]string{"ok", "transient", "lasting", "missing", "conflict", "outcome unknown"}

// String names the fault in words.
func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return "unknown fault"
}

// Result is how something ended.
type Result struct {
	Fault Fault
	Why   string // for the operator: what failed, on what
}

// Pointer is the stream's pointer in the metadata store.
type Pointer struct {
	Revision pos.Revision
	Epoch    pos.Epoch
	UID      pos.UID
	Next     pos.Offset
}

// Local is what the local log holds.
type Local struct {
	First  pos.Offset         // LF
	Next   pos.Offset         // T: fsynced and committed below
	Epochs []segment.EpochEnd // of what is on disk below Inspect.Below, rising
}

// Input is what a Machine is told.
//
//sumtype:decl
type Input interface {
	stamp() Stamp
	stamped(s Stamp) Input
}

// Inputs. Those with a Gen answer the effect of that generation.
type (
	// Start is the first input. Disowned: the store is not known to be the cluster's; StoreOwned
	// or StoreReclaimed follows once it is.
	Start struct {
		Stamp
		Disowned bool
	}
	// Tick says what time it is, at the latest when Wake asked for it.
	Tick struct{ Stamp }
	// PointerRead answers ReadPointer. FaultMissing: none is stored, or no such stream.
	PointerRead struct {
		Stamp
		Gen     Gen
		Pointer Pointer
		Result
	}
	// RootRead answers ReadRoot.
	RootRead struct {
		Stamp
		Gen  Gen
		Body []byte
		Result
	}
	// RootsListed answers ListRoots, in any order.
	RootsListed struct {
		Stamp
		Gen  Gen
		Keys []string
		Result
	}
	// LookedFor answers LookFor. FaultMissing: it is not there.
	LookedFor struct {
		Stamp
		Gen Gen
		Result
	}
	// Inspected answers Inspect.
	Inspected struct {
		Stamp
		Gen   Gen
		Local Local
		Result
	}
	// ChunksRead answers Read. End: there is nothing further yet.
	ChunksRead struct {
		Stamp
		Gen     Gen
		Chunks  []segment.ChunkRef
		End     bool
		Trimmed bool       // the log no longer has the place; Floor tells where it begins
		Floor   pos.Offset // LF
		Result
	}
	// Moved answers Listen: the log's fsynced end has passed the place, or its writer ended.
	Moved struct {
		Stamp
		Gen Gen
	}
	// AnchorPut answers PutAnchor. FaultMissing: the stream was deleted.
	AnchorPut struct {
		Stamp
		Gen Gen
		Result
	}
	// Granted is the governor's answer to Submit.
	Granted struct {
		Stamp
		Ref pace.Ref
	}
	// GovernorUp says that a governor started: it knows of nothing that was submitted.
	GovernorUp struct{ Stamp }
	// Sent says that more of an Upload was sent than when it was last said.
	Sent struct {
		Stamp
		Ref pace.Ref
	}
	// Uploaded answers Upload, by its ref.
	Uploaded struct {
		Stamp
		Ref   pace.Ref
		Floor pos.Offset // LF at that moment
		Result
	}
	// RootPut answers PutRoot.
	RootPut struct {
		Stamp
		Gen Gen
		Result
	}
	// PointerSwapped answers SwapPointer. FaultMissing: the stream was deleted.
	PointerSwapped struct {
		Stamp
		Gen Gen
		Result
	}
	// ReplicaUp says that a manifest replica started, or asks for the whole manifest.
	ReplicaUp struct{ Stamp }
	// Await asks to be answered when everything below Next is durable in the store, or
	// at the time Until, 0: never.
	Await struct {
		Stamp
		ID    WaiterID
		Next  pos.Offset
		Until pos.Millis
	}
	// ForceCut asks for a fragment of what is assembled once the log was read up to
	// Upto, or for the reason why there is none, at the latest at the time Until.
	ForceCut struct {
		Stamp
		ID    WaiterID
		Upto  pos.Offset
		Until pos.Millis
	}
	// Retain says what the stream's bounds are from now on.
	Retain struct {
		Stamp
		Bounds
	}
	// Reset is ResetManifest: ResetDone answers it.
	Reset struct {
		Stamp
		ID WaiterID
	}
)

// Inputs that others send to a replica reader as they are.
type (
	// StreamDeleted says that the stream was deleted.
	StreamDeleted struct{ Stamp }
	// StoreAway says that the store has not answered since a time, or nothing that tells how it
	// is. StoreBack follows once it does.
	StoreAway struct {
		Stamp
		Since pos.Millis
		Why   string
	}
	// StoreBack says that the store is well again: what waits for a later time is tried now.
	StoreBack struct{ Stamp }
	// StoreOwned says that the store is known to be the cluster's, and the one that was: what is in
	// it may be freed.
	StoreOwned struct{ Stamp }
	// StoreDisowned says that the store is not the cluster's, or may be another one than it was:
	// what is trusted to be in it may be elsewhere. StoreOwned or StoreReclaimed follows once that
	// is known.
	StoreDisowned struct{ Stamp }
	// StoreReclaimed says that the store is the cluster's again, or that an operator had the
	// marker put into one that had none: it may be another one than before, or have lost what
	// it held. The truth is learned anew, from the store itself.
	StoreReclaimed struct{ Stamp }
)

// FlightID names a fragment from its cut to its end. It is never used again.
type FlightID uint64

// WaiterID names an Await, a ForceCut or a Reset. It is never used again.
type WaiterID uint64

// Stamped returns the input with its stamp. Tasks make inputs; the shell stamps them
// when their turn comes, so that time does not run backwards from one to the next.
func Stamped(in Input, s Stamp) Input { return in.stamped(s) }

func (s Stamp) stamp() Stamp { return s }

func (in Start) stamped(s Stamp) Input          { in.Stamp = s; return in }
func (in Tick) stamped(s Stamp) Input           { in.Stamp = s; return in }
func (in PointerRead) stamped(s Stamp) Input    { in.Stamp = s; return in }
func (in RootRead) stamped(s Stamp) Input       { in.Stamp = s; return in }
func (in RootsListed) stamped(s Stamp) Input    { in.Stamp = s; return in }
func (in LookedFor) stamped(s Stamp) Input      { in.Stamp = s; return in }
func (in Inspected) stamped(s Stamp) Input      { in.Stamp = s; return in }
func (in ChunksRead) stamped(s Stamp) Input     { in.Stamp = s; return in }
func (in Moved) stamped(s Stamp) Input          { in.Stamp = s; return in }
func (in AnchorPut) stamped(s Stamp) Input      { in.Stamp = s; return in }
func (in Granted) stamped(s Stamp) Input        { in.Stamp = s; return in }
func (in GovernorUp) stamped(s Stamp) Input     { in.Stamp = s; return in }
func (in Sent) stamped(s Stamp) Input           { in.Stamp = s; return in }
func (in Uploaded) stamped(s Stamp) Input       { in.Stamp = s; return in }
func (in RootPut) stamped(s Stamp) Input        { in.Stamp = s; return in }
func (in PointerSwapped) stamped(s Stamp) Input { in.Stamp = s; return in }
func (in ReplicaUp) stamped(s Stamp) Input      { in.Stamp = s; return in }
func (in Await) stamped(s Stamp) Input          { in.Stamp = s; return in }
func (in ForceCut) stamped(s Stamp) Input       { in.Stamp = s; return in }
func (in Retain) stamped(s Stamp) Input         { in.Stamp = s; return in }
func (in StreamDeleted) stamped(s Stamp) Input  { in.Stamp = s; return in }
func (in StoreAway) stamped(s Stamp) Input      { in.Stamp = s; return in }
func (in StoreBack) stamped(s Stamp) Input      { in.Stamp = s; return in }
func (in StoreOwned) stamped(s Stamp) Input     { in.Stamp = s; return in }
func (in StoreDisowned) stamped(s Stamp) Input  { in.Stamp = s; return in }
func (in StoreReclaimed) stamped(s Stamp) Input { in.Stamp = s; return in }
func (in Reset) stamped(s Stamp) Input          { in.Stamp = s; return in }
