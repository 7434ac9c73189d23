package admin

import (
	"context"
	"time"

	"millrace/core/pos"
	"millrace/core/upload"
)

// Uploads is what of a Node tells about, and steers, a stream's way into the object store.
type Uploads interface {
	// CutStream ends the fragment that is being assembled of what was committed until now,
	// however small it is, so that it is uploaded at once. That nothing is, is no error.
	CutStream(ctx context.Context, stream string) (CutStatus, error)
	// ResetStream gives up what the store has lost of a stream: the stored manifest if that is
	// lost or damaged, else the first objects that it names. Exists: nothing is lost, as far as
	// is known.
	ResetStream(ctx context.Context, stream string) (ResetStatus, error)
	// Durable waits until everything up to next, exclusive, is durable in the store, but no
	// longer than wait. NoOffset stands for everything that is committed now. That it is not
	// durable in time is no error.
	Durable(ctx context.Context, stream string, next pos.Offset, wait time.Duration) (DurableStatus, error)
}

// ResetTime is the longest that ResetStream takes, beside the metadata store's answer.
const ResetTime = 30 * time.Second

// UploadReport is a stream's way into the object store, as its replica reader told when
// it was asked.
type UploadReport struct {
	Node  string      `json:"node"`
	Store StoreStatus `json:"store"`
	// Error says that there is a replica reader and that it did not answer: ReaderTimeout
	// or ReaderDown. Why says in words why there is no Status.
	Error  string         `json:"error,omitempty"`
	Why    string         `json:"why,omitempty"`
	Status *upload.Status `json:"status,omitempty"`
	Now    pos.Millis     `json:"now_ms"`
}

// What UploadReport.Error says.
const (
	ReaderTimeout = "timeout"
	ReaderDown    = "reader_down"
)

// StoreStatus is the object store as this node finds it.
type StoreStatus struct {
	Where      string `json:"where"`
	Accessible string `json:"accessible"` // "yes", "no (REASON): WHY" or "unknown since ..."
}

// StoreClaim says that the prefix is this cluster's.
type StoreClaim struct {
	Store    string `json:"store"`    // where it is
	Marker   string `json:"marker"`   // key of the object that names the owner
	Cluster  string `json:"cluster"`  // its id
	Restored bool   `json:"restored"` // the marker was put; false: it was there
}

// CutStatus is a fragment that was cut.
type CutStatus struct {
	Stream string     `json:"stream"`
	First  pos.Offset `json:"first"`
	Next   pos.Offset `json:"next"` // exclusive
	Bytes  int64      `json:"bytes"`
	Chunks int        `json:"chunks"` // 0: everything below Next was cut already
}

// ResetStatus is what was given up of a stream. From is the earliest that it can be: where a
// manifest that is lost began is not known.
type ResetStatus struct {
	Stream string     `json:"stream"`
	From   pos.Offset `json:"given_up_from"`
	Next   pos.Offset `json:"given_up_next"` // exclusive
	// Hole is what is given up behind what the store keeps: it becomes a gap.
	Hole *Gap `json:"hole,omitempty"`
}

// DurableStatus says whether everything up to an offset is durable in the object store.
type DurableStatus struct {
	Stream  string `json:"stream"`
	Durable bool   `json:"durable"`
	// Held: the record before Asked is in the store. Durable without Held, retention took
	// it, or it lies in a declared gap.
	Held  bool       `json:"held"`
	Asked pos.Offset `json:"asked_next"`   // exclusive
	Next  pos.Offset `json:"durable_next"` // everything below is settled; -1: not known
	// Why is what keeps the rest from the store, as far as is known; "" if nothing does.
	Why string `json:"why,omitempty"`
}
