package segment

import (
	"fmt"
	"time"

	"millrace/core/pos"
)

// Record is what a producer hands over: a body of at most chunk.MaxRecord bytes,
// and a filter value, empty for none. Neither may change until the answer is there.
type Record struct {
	Body, Filter []byte
}

// Append asks a writer to append records, in order and without others between
// them, over as many chunks as it takes. It is sent as a request and answered by
// Appended or Refused, or fails when the writer ends; then the records may or may
// not be in the log.
type Append struct {
	ExpectNext pos.Offset // the log's next offset must be this; NoOffset = don't care
	Records    []Record   // none: the answer comes when all that was appended before is committed
}

// Appended answers an Append once all its records, [First, Next), are committed.
type Appended struct {
	First, Next pos.Offset
}

// Refused answers an Append of which nothing was written.
type Refused struct {
	Next pos.Offset // the log's next offset, NoOffset if it is not known yet
	Why  string
}

// Seam tells a writer that everything below Next is durable in the object store.
type Seam struct {
	Next pos.Offset
}

// Captured tells a writer that the capture of its stream needs no record below Next to know where
// it goes on: its own row says so. It is what it resumes by where the log holds no record beyond.
type Captured struct {
	Next pos.Offset
}

// SetRetention changes a running log's retention.
type SetRetention struct {
	Retention
}

// SyncNow tells a writer that somebody waits for the synced offset. Under "always"
// it changes nothing. Under "interval" and "never" the log is synced as soon as the
// last sync is one sync interval ago. hooks.Log sends it for everyone who waits for
// the synced offset with Notify.
type SyncNow struct{}

// Retention bounds a log. A bound that is 0 does not bind. Whole closed segments
// are deleted, oldest first, never the active one.
type Retention struct {
	MaxBytes      int64         `json:"max_bytes"`       // of the whole stream, so of its local part as well
	MaxAge        time.Duration `json:"max_age"`         // of a segment's last chunk
	LocalMaxBytes int64         `json:"local_max_bytes"` // of the local part, uploaded or not
	LocalMinBytes int64         `json:"local_min_bytes"` // what is uploaded stays up to this size
}

// SyncMode says what a commit of this log promises.
type SyncMode uint8

// The sync modes.
const (
	Always   SyncMode = iota // committed = fsynced
	Interval                 // committed = written; synced every interval
	Never                    // committed = written; synced when somebody waits for it, at rolls, when idle and at a stop
)

var modeNames = [...]string{"always", "interval", "never"}

// String is the mode as the configuration spells it.
func (m SyncMode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("sync mode %d", uint8(m))
}

// ParseSyncMode reads what String prints.
func ParseSyncMode(s string) (SyncMode, error) {
	for i, name := range modeNames {
		if s == name {
			return SyncMode(i), nil
		}
	}
	return 0, fmt.Errorf("sync mode %q: want \"always\", \"interval\" or \"never\"", s)
}

// Status is what a local log shows of itself.
type Status struct {
	State     string     `json:"state"`           // opening, recovering, waiting, running, stuck or ended
	Why       string     `json:"why,omitempty"`   // waiting, stuck, ended
	Until     pos.Millis `json:"until,omitempty"` // waiting: when it tries again
	First     pos.Offset `json:"first"`
	Committed pos.Offset `json:"committed"`
	Synced    pos.Offset `json:"synced"`
	Last      pos.Offset `json:"last"`
	Epoch     pos.Epoch  `json:"epoch"`
	Bytes     int64      `json:"bytes"`
	Segments  int        `json:"segments"`
	Held      int        `json:"held"`             // appends that wait to be written
	Damage    string     `json:"damage,omitempty"` // what recovery had to leave out
	Sync      string     `json:"sync"`
	Retention Retention  `json:"retention"`
}
