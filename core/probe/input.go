package probe

import (
	"time"

	"millrace/core/pos"
)

// Verdict is what an answer of the store means.
type Verdict uint8

// The verdicts. Accessible and those below it are definite.
const (
	Unsure     Verdict = iota // it says nothing of the store: unreachable, throttled, timed out, a failure without a class
	Accessible                // the prefix is ours; the store takes what we put
	NoBucket                  // the bucket, or the folder, does not exist
	Denied                    // access denied
	Foreign                   // another cluster owns the prefix
	Unmarked                  // the marker that names the owner is gone, and was there before
	Damaged                   // the marker can't be read
)

// disowns reports whether a verdict takes the prefix away from us. Our marker is not in a
// bucket that does not exist, nor in the one that will be made in its place.
func (v Verdict) disowns() bool {
	return v == Foreign || v == Unmarked || v == Damaged || v == NoBucket
}

// Answer is what the store said.
type Answer struct {
	Verdict Verdict
	Why     string // the error, in the store's own words and what to do; "" if there is none
	Owner   string // the cluster that owns the prefix, of Foreign
	Late    bool   // of Unsure: none came in time
}

// Question is what the store is asked.
type Question uint8

// The questions of a round, in order.
const (
	Whose   Question = iota // Claim
	Whether                 // Probe
)

// Try tells the tries at questions from one another.
type Try uint64

// Input is what a Machine is told.
//
//sumtype:decl
type Input interface{ input() }

// Inputs.
type (
	// Start is the first input. Owned: an earlier incarnation found the prefix to be ours;
	// Disowned: not to be.
	Start struct {
		Now      pos.Millis
		Owned    bool
		Disowned bool
	}
	// Claimed ends a Claim.
	Claimed struct {
		Now    pos.Millis
		Try    Try
		Answer Answer
	}
	// Probed ends a Probe.
	Probed struct {
		Now    pos.Millis
		Try    Try
		Answer Answer
	}
	// Restore says that an operator claims the prefix: the marker is put where it is gone or
	// damaged. Restored follows.
	Restore struct {
		Now pos.Millis
		ID  uint64 // never used again
	}
	// MarkerPut ends a PutMarker.
	MarkerPut struct {
		Now    pos.Millis
		Put    bool // the marker was not there, or damaged; also where the try has failed
		Failed bool
		Late   bool // of Failed: no answer came in time
	}
	// Stored says that something was put: whose the prefix is had better be still known.
	Stored struct{ Now pos.Millis }
	// Look asks for a round that begins from now on. Looked follows, once that has learned whose
	// the prefix is.
	Look struct {
		Now pos.Millis
		ID  uint64 // never used again
	}
	// Doubt says that an operation failed which a store that is well would have done.
	Doubt struct{ Now pos.Millis }
	// Tick says what time it is, at the latest when Wake asked for it.
	Tick struct{ Now pos.Millis }
)

func (Start) input()     {}
func (Claimed) input()   {}
func (Probed) input()    {}
func (Restore) input()   {}
func (MarkerPut) input() {}
func (Stored) input()    {}
func (Look) input()      {}
func (Doubt) input()     {}
func (Tick) input()      {}

// Effect is what must be done.
//
//sumtype:decl
type Effect interface{ effect() }

// Effects.
type (
	// Claim asks whose the prefix is, and makes it ours if it is nobody's. Claimed follows,
	// Within a time at most.
	Claim struct {
		Try    Try
		Within time.Duration
	}
	// Probe asks whether the store answers and takes a write. Probed follows, Within a time at most.
	Probe struct {
		Try    Try
		Within time.Duration
	}
	// Drop ends whatever tries at a question are open: it is answered, or void.
	Drop struct{ Question Question }
	// Admit lets everything be put and deleted from now on: the prefix is ours.
	Admit struct{}
	// Refuse lets nothing be put or deleted from now on: the prefix is another cluster's, or
	// its marker is gone or damaged, or the bucket is. The shell has the error from the answer.
	Refuse struct{}
	// Suspect lets nothing be put or deleted from now on, and nothing be freed for being in the
	// store, until Admit or Refuse: it may be another one than the one that was ours. A successor of this
	// machine has to know.
	Suspect struct{}
	// Owned says that the prefix is known to be ours, and that this is the store that was.
	Owned struct{}
	// Reclaimed says that the prefix is ours again, after it was not or its marker had to be
	// put: the store may hold other things than before, or nothing.
	Reclaimed struct{}
	// Away says that the store's answers say nothing any more, or that it gives none.
	Away struct {
		Since pos.Millis
		Why   string
	}
	// Back says that the store is well again, or for the first time.
	Back struct{}
	// Looked answers a Look. Ours: the prefix was found to be ours.
	Looked struct {
		ID   uint64
		Ours bool
	}
	// PutMarker puts the marker where it is gone or damaged. MarkerPut follows, Within a time at
	// most. Tries: how many before this one were not answered in time.
	PutMarker struct {
		Tries  int
		Within time.Duration
	}
	// Restored answers a Restore. Put: a marker was put for it. Failed: what for is the error of
	// the last try.
	Restored struct {
		ID     uint64
		Put    bool
		Failed bool
	}
	// Wake asks for a Tick at a time. It replaces the Wake before it.
	Wake struct{ At pos.Millis }
	// Note is for the log: the state changed, or became unknown, or known again.
	Note struct {
		Status Status
		Before Status
	}
)

func (Claim) effect()     {}
func (Probe) effect()     {}
func (Drop) effect()      {}
func (Admit) effect()     {}
func (Refuse) effect()    {}
func (Away) effect()      {}
func (Back) effect()      {}
func (Suspect) effect()   {}
func (Owned) effect()     {}
func (Reclaimed) effect() {}
func (Looked) effect()    {}
func (PutMarker) effect() {}
func (Restored) effect()  {}
func (Wake) effect()      {}
func (Note) effect()      {}
