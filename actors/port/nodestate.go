package port

import (
	"context"

	"millrace/core/pos"
)

// Identity says which node this is.
type Identity struct {
	Node    pos.NodeID // the configured name
	Data    pos.UID    // data incarnation: drawn when the data folder was made
	Nonce   pos.UID    // boot nonce: drawn by this process
	Created pos.Millis // when the data folder was made
}

// Replica is what this node promised, and remembers, of its replica of a stream.
type Replica struct {
	Stream         pos.StreamID `json:"stream"`
	PromisedEpoch  pos.Epoch    `json:"promised_epoch"` // never falls
	Ballot         pos.UID      `json:"ballot"`         // with which PromisedEpoch was promised
	ConfigEpoch    pos.Epoch    `json:"config_epoch"`   // of Members: the newest configuration seen
	Members        []Member     `json:"members"`
	LogIncarnation pos.UID      `json:"log_incarnation"` // of the local log: drawn when it was begun
	// The committed offset when the log was last closed, believed only if Clean is set.
	CommittedAtCleanStop pos.Offset `json:"committed_at_clean_stop"`
	Clean                bool       `json:"clean"` // closed in order; cleared before the log is written again
	// The kernel's boot when the record was written: another one now means that what
	// was not synced then is lost.
	BootID string `json:"boot_id"`
}

// NodeState is the node's own durable memory. Whatever the sync mode of the logs, a
// Put is durable when it returns. Losing it makes another node of this one: its
// data incarnation differs. Errors are *DiskError.
type NodeState interface {
	// Identity says which node this is.
	Identity(ctx context.Context) (Identity, error)

	// Replica returns the record of a stream's replica; false if there is none.
	Replica(ctx context.Context, stream pos.StreamID) (Replica, bool, error)

	// PutReplica stores r as a whole. A promise never falls: a PromisedEpoch below the
	// stored one, or another Ballot in the same epoch, is class Conflict and changes
	// nothing. A malformed stream id is class Denied.
	PutReplica(ctx context.Context, r Replica) error

	// ForgetReplica removes the record of a deleted stream. One that is not there is no
	// error. Safe because a stream's id is never used again.
	ForgetReplica(ctx context.Context, stream pos.StreamID) error

	// BootID names the kernel's present boot.
	BootID() string
}
