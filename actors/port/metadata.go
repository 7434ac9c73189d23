package port

import (
	"context"
	"fmt"

	"millrace/core/pos"
)

// Cluster is what the metadata store says of itself.
type Cluster struct {
	ID     pos.UID // drawn when the store was made, never changed; owns an object store prefix
	Format int     // version of the store's layout
	// Generation changes when the store is rolled back or restored from a copy. Compare
	// for equality only: a change means that pointers may be older than the roots in
	// the object store.
	Generation string
}

// Phase is where a stream stands in its life.
type Phase string

// The phases of a stream.
const (
	PhaseNew      Phase = "new"      // created, never had a writer
	PhaseElecting Phase = "electing" // Epoch and Ballot are being promised
	PhaseReady    Phase = "ready"    // Writer writes in Epoch
	PhaseDeleting Phase = "deleting" // to be deleted; no election starts
	PhaseDeleted  Phase = "deleted"  // gone; seen in ChangedSince only
)

// Member is one replica of a stream. A node that lost its data is another member:
// its log incarnation differs.
type Member struct {
	Node           pos.NodeID `json:"node"`
	LogIncarnation pos.UID    `json:"log_incarnation"`
}

// Stream is the row of a stream.
type Stream struct {
	ID        pos.StreamID      `json:"id"`   // never reused
	Name      string            `json:"name"` // unique among the streams that are not deleted
	Arguments map[string]string `json:"arguments"`
	Created   pos.Millis        `json:"created"`
	Epoch     pos.Epoch         `json:"epoch"`  // never falls
	Ballot    pos.UID           `json:"ballot"` // of the election that set Epoch
	Phase     Phase             `json:"phase"`
	Writer    pos.NodeID        `json:"writer"` // "" = none
	Members   []Member          `json:"members"`
	Settled   bool              `json:"settled"`  // the last change of Members is known to a majority
	Revision  pos.Revision      `json:"revision"` // 1 when created, +1 with each swap
	Seq       uint64            `json:"seq"`      // of the store's change that last touched the row; grows over all streams
}

// Pointer names the root object of a stream's manifest.
type Pointer struct {
	Revision pos.Revision `json:"revision"`
	Epoch    pos.Epoch    `json:"epoch"`
	UID      pos.UID      `json:"uid"`
	Next     pos.Offset   `json:"next"` // the manifest's next: the seam
}

// Deletion is a deleted stream whose objects are still to be removed.
type Deletion struct {
	Stream pos.StreamID `json:"stream"`
	Name   string       `json:"name"`
	Seq    uint64       `json:"seq"` // of the change that deleted it: the queue's order
}

// The phases of a capture.
const (
	CaptureCreating  = "creating"
	CaptureLoading   = "loading"
	CaptureStreaming = "streaming"
)

// Capture is the row of a capture of one PostgreSQL database.
type Capture struct {
	Name          string       `json:"name"`
	Stream        pos.StreamID `json:"stream"`
	SystemID      string       `json:"system_id"`
	Timeline      int          `json:"timeline"`
	Slot          string       `json:"slot"`
	Phase         string       `json:"phase"`          // one of CaptureCreating, CaptureLoading, CaptureStreaming
	ConsistentLSN pos.LSN      `json:"consistent_lsn"` // of the slot's snapshot
	// The last event that was fsynced when the slot was last confirmed: E.
	EventLSN    pos.LSN    `json:"event_lsn"`
	EventSeq    int64      `json:"event_seq"`
	EventOffset pos.Offset `json:"event_offset"`
	// The highest LSN that was ever confirmed, stored before it is; 0: not known.
	ConfirmedLSN pos.LSN      `json:"confirmed_lsn,omitempty"`
	Revision     pos.Revision `json:"revision"` // 1 when created, +1 with each swap
}

// MetadataError is a failed operation of a Metadata. Classes: Conflict, NotFound,
// Unavailable, UnknownOutcome, Denied (a malformed id or name); the embedded store
// also tells Full. With all but UnknownOutcome nothing was changed.
type MetadataError struct {
	Op    string // the method, for example "swap pointer"
	What  string // the stream, capture or setting
	Class Class
	Err   error
}

// Error says what failed on what and why.
func (e *MetadataError) Error() string { return "metadata: " + describe(e.Op, e.What, e.Class, e.Err) }

// Unwrap returns the cause.
func (e *MetadataError) Unwrap() error { return e.Err }

// Is matches the error's class.
func (e *MetadataError) Is(target error) bool { return target == error(e.Class) }

func (e *MetadataError) portClass() Class { return e.Class }

// Metadata is the store of what the cluster must agree on. Each method is one
// transaction: it takes effect as a whole or not at all, durably before it returns,
// and all of them can be put in one order (reads included). A context that ends
// before the transaction began is Unavailable and changed nothing; one that ends
// while it commits is UnknownOutcome.
//
// After UnknownOutcome the caller reads again, and knows its own change by the uid,
// id or value it chose.
type Metadata interface {
	// Cluster describes the store.
	Cluster(ctx context.Context) (Cluster, error)

	// StreamByName returns the stream of that name; NotFound if there is none.
	StreamByName(ctx context.Context, name string) (Stream, error)

	// Stream returns the stream; NotFound if it does not exist, or no longer.
	Stream(ctx context.Context, id pos.StreamID) (Stream, error)

	// Streams returns all streams in the order of their ids.
	Streams(ctx context.Context) ([]Stream, error)

	// ChangedSince returns what changed after the change seq (0 = everything), in the
	// order of the changes, each stream once as it is now, and the number to ask with
	// next time. A deleted stream comes as PhaseDeleted with ID, Name and Seq only.
	ChangedSince(ctx context.Context, seq uint64) ([]Stream, uint64, error)

	// CreateStream stores a new row and returns it with Revision 1 and its Seq (what s
	// says of both is ignored). Conflict if the name is taken, or the id ever was. Denied
	// if CheckStream refuses the row.
	CreateStream(ctx context.Context, s Stream) (Stream, error)

	// SwapStreams replaces rows, all or none. The Revision of each is the one it was
	// read with; it is stored with Revision+1. Conflict if any was changed meanwhile,
	// if an Epoch would fall, or if ID repeats; NotFound if one does not exist. Name and
	// Created do not change, whatever the new rows say.
	SwapStreams(ctx context.Context, rows []Stream) error

	// Pointer returns the manifest pointer. NotFound when none was ever stored, or the
	// stream does not exist.
	Pointer(ctx context.Context, id pos.StreamID) (Pointer, error)

	// SwapPointer replaces the pointer if its Revision is expected (0 = none stored yet).
	// next.Revision must be greater than any revision ever stored for this stream, so at
	// least expected+1, and next.Epoch not less than the stored one: else Conflict.
	// NotFound if the stream does not exist.
	SwapPointer(ctx context.Context, id pos.StreamID, expected pos.Revision, next Pointer) error

	// Anchored reports whether the stream was anchored. A stream that does not exist is not.
	Anchored(ctx context.Context, id pos.StreamID) (bool, error)

	// PutAnchor notes, for the stream's whole life, that objects of it may exist. Doing it
	// again does nothing. NotFound if the stream does not exist.
	PutAnchor(ctx context.Context, id pos.StreamID) error

	// DeleteStream removes the row, pointer and anchor and enqueues a Deletion, in one
	// transaction. Conflict if the row's revision is another; NotFound if it does not exist.
	DeleteStream(ctx context.Context, id pos.StreamID, revision pos.Revision) error

	// Deletions returns the queue, oldest first.
	Deletions(ctx context.Context) ([]Deletion, error)

	// FinishDeletion takes a stream out of the queue. One that is not in it is no error.
	FinishDeletion(ctx context.Context, id pos.StreamID) error

	// Capture returns the row of a capture; NotFound if there is none.
	Capture(ctx context.Context, name string) (Capture, error)

	// SwapCapture stores the row with Revision+1. Its Revision is the one it was read
	// with, 0 to create it: Conflict if another is stored, or (above 0) none.
	SwapCapture(ctx context.Context, c Capture) error

	// DeleteCapture removes the row. One that is not there is no error.
	DeleteCapture(ctx context.Context, name string) error

	// Setting returns a wish of the operator; NotFound if it was never put.
	Setting(ctx context.Context, key string) (string, error)

	// PutSetting stores a wish of the operator, over the former one.
	PutSetting(ctx context.Context, key, value string) error
}

// CheckStream reports why s can't be created: id or name are malformed. The error has
// class Denied.
func CheckStream(s Stream) error {
	_, err := pos.ParseStreamID(s.ID.String())
	if err == nil {
		err = pos.CheckStreamName(s.Name)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", Denied, err)
	}
	return nil
}
