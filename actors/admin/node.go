package admin

import (
	"context"
	"fmt"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/renew"
)

// Node is what the HTTP surface asks of a node. All methods are safe from any
// goroutine. An error that is for the operator is an *Error.
type Node interface {
	// Ready reports whether the node does what it is configured to, and if not, why not.
	Ready() (ok bool, reasons []string)
	Status(ctx context.Context) NodeStatus
	// Streams lists the streams by name.
	Streams(ctx context.Context) ([]StreamStatus, error)
	Stream(ctx context.Context, name string) (StreamStatus, error)
	CreateStream(ctx context.Context, name string, args map[string]string) (StreamStatus, error)
	// Open begins to read. ctx bounds the opening only; the reader lives until Close.
	Open(ctx context.Context, name string, spec ReadSpec) (Reader, error)
	// Tree shows the processes; it waits for none of them. The error says that there is no
	// such path.
	Tree(q TreeQuery) (TreeNode, error)
	// Terminate stops a process, or a supervisor and all below it, for as long as nobody
	// starts it again. Restart stops it if it runs, and starts it.
	Terminate(ctx context.Context, path string) error
	Restart(ctx context.Context, path string) error
	// Registry lists the names that processes hold.
	Registry() []RegistryEntry
	// Names lists the names of one stream's processes, held or not.
	Names(ctx context.Context, stream string) ([]RegistryEntry, error)
	// Events returns what supervisors did after the event of that number, the oldest first,
	// as far as it is remembered.
	Events(since uint64) Events
	// Tiering tells whether tiering is wanted. SetTiering stores the wish of the operator and
	// carries it out.
	Tiering() Tiering
	SetTiering(ctx context.Context, enabled bool) (Tiering, error)
	// ClaimStore puts the marker that names this cluster as the owner of its prefix where
	// that is gone or damaged, because an operator says that it is.
	ClaimStore(ctx context.Context) (StoreClaim, error)
	// SetRetention changes a stream's bounds, for good and in the running log.
	SetRetention(ctx context.Context, stream string, change Retention) (RetentionStatus, error)
	Uploads
	// Gaps lists the declared gaps of a stream's stored part, the oldest first.
	Gaps(id pos.StreamID) []Gap
}

// Reader yields a stream's records in order, each once.
type Reader interface {
	// Pull returns what comes next: whole chunks' records, so a first batch may begin below
	// an offset that was asked for. It waits for more when the spec says Follow; otherwise
	// it returns io.EOF once everything that was committed at Open has been returned. The
	// batch is valid until the next call. An error ends the reading; where the answer was
	// only not known, the same read may be tried again.
	Pull(ctx context.Context) (Batch, error)
	// Close frees everything the reader holds. It may be called during a Pull.
	Close()
}

// Batch is what one Pull returns. Moved, if set, comes before the records.
type Batch struct {
	Moved   *Moved
	Records []Record
}

// Record is one record of a stream.
type Record struct {
	Offset    pos.Offset
	Timestamp pos.Millis // of its chunk
	Epoch     pos.Epoch  // of its chunk
	Body      []byte
}

// Moved says that records a reader would have had next are gone: it goes on at To.
type Moved struct {
	From pos.Offset `json:"from"` // first offset that is gone
	To   pos.Offset `json:"to"`   // first offset that follows
	Why  string     `json:"why"`
}

// NodeStatus is a node at one moment.
type NodeStatus struct {
	Node     string    `json:"node"`
	Version  string    `json:"version"`
	Cluster  string    `json:"cluster"` // cluster id
	Boot     string    `json:"boot"`    // nonce of this run
	Started  time.Time `json:"started"`
	DataDir  string    `json:"data_dir"`
	DiskFree int64     `json:"disk_free"` // bytes; -1: not known
	Store    string    `json:"store"`     // where the object store is
	// Access says whether the object store can be used: "yes", "no (access denied): WHY",
	// "unknown since ...", and the like.
	Access string `json:"store_access"`
	// Credentials is what requests to the object store are signed with; nil: it takes none.
	Credentials *renew.Status `json:"credentials,omitempty"`
	// Pools are the connections to the object store; none for a directory.
	Pools    []Pool `json:"pools,omitempty"`
	Tiering  string `json:"tiering"` // "enabled", "disabled by the operator", or why it is not running
	Streams  int    `json:"streams"`
	Captures int    `json:"captures"`
	// FragmentBytes is the size at which an object is cut.
	FragmentBytes int64    `json:"fragment_bytes"`
	Zombies       int      `json:"zombies"` // processes abandoned by a stop that still run code
	Ready         bool     `json:"ready"`
	Reasons       []string `json:"reasons,omitempty"` // why it is not ready
	// Parts is what the node's own processes publish, by name: governor, reaper, admin, ...
	Parts map[string]any `json:"parts,omitempty"`
}

// Pool is one pool of connections to the object store.
type Pool struct {
	Name   string `json:"name"`             // upload or general
	Closed string `json:"closed,omitempty"` // why nothing passes; empty: it is open
	port.PoolStats
}

// String says in words how the pool is used.
func (p Pool) String() string {
	if p.Closed != "" {
		return "closed: " + p.Closed
	}
	return fmt.Sprintf("%d of %d connections in use, %d open, %d waiting", p.InUse, p.Max, p.Open, p.Waiting)
}

// StreamStatus is one stream at one moment. Offsets named Next are exclusive; -1 stands
// for none.
type StreamStatus struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	Epoch pos.Epoch `json:"epoch"`
	// State is that of the local log: running, recovering, waiting, stuck, stopped.
	State string `json:"state"`
	Why   string `json:"why,omitempty"` // why it is not running
	// Trouble says in one sentence what an operator should look at first; empty: all is well.
	Trouble string `json:"trouble,omitempty"`

	First pos.Offset `json:"first"` // oldest offset that can be read, over both tiers; -1 also while that is not known
	Next  pos.Offset `json:"next"`  // next offset to be committed

	LocalFirst pos.Offset `json:"local_first"`
	LocalBytes int64      `json:"local_bytes"`

	// RemoteState says whether the three below tell what the object store holds. RemoteWhy
	// says why not, otherwise it is empty.
	RemoteState RemoteState `json:"remote_state"`
	RemoteWhy   string      `json:"remote_why,omitempty"`

	RemoteFirst pos.Offset `json:"remote_first"`
	SeamNext    pos.Offset `json:"seam_next"` // everything from RemoteFirst up to here is durable in the store, but for gaps
	Gaps        int        `json:"gaps"`      // declared gaps between RemoteFirst and SeamNext
	RemoteBytes int64      `json:"remote_bytes"`
	// Undeclared is what is lost and not among the Gaps yet: local disk was trimmed before it
	// was stored, and nothing was stored since. It is of the gaps above SeamNext.
	Undeclared []Gap `json:"undeclared_gaps,omitempty"`

	// What the stream's own processes publish, whole; nil for one that does not run.
	Local   any `json:"local,omitempty"`
	Tiering any `json:"tiering,omitempty"`
	Capture any `json:"capture,omitempty"`
	// Upload is what the replica reader answers; only Stream asks it.
	Upload *UploadReport `json:"upload,omitempty"`
	// Feed is the name of the capture that writes this stream; empty: none is configured.
	Feed string `json:"feed,omitempty"`
}

// RemoteState says what is known of a stream in the object store.
type RemoteState string

// The states.
const (
	RemoteKnown    RemoteState = "known"
	RemoteUnknown  RemoteState = "unknown"  // it may hold more than is shown
	RemoteDisabled RemoteState = "disabled" // tiering is off on this node
)

// Class says what kind of refusal an Error is.
type Class uint8

// The classes.
const (
	Internal    Class = iota // a fault of the node
	NotFound                 // there is no such thing
	Exists                   // there is one already
	Invalid                  // what was asked makes no sense
	Unavailable              // not known or not possible now; asking again may help
	Forbidden                // never possible for this one
)

// String names the class.
func (c Class) String() string {
	if names := [...]string{"internal", "not found", "exists", "invalid", "unavailable", "forbidden"}; int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("class %d", c)
}

// Error is a refusal in words for an operator.
type Error struct {
	Class Class
	What  string // what failed, on what
	Hint  string // what to do next; may be empty
	Err   error  // cause; may be nil
}

// Error prints what failed and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
