package admin

import (
	"time"

	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/supervision"
)

// TreeQuery says which part of the tree to show.
type TreeQuery struct {
	Path string // of the process to begin at; empty: the whole node
	// Of a factory, Limit children from Offset on are shown: those in trouble first, then
	// in the order of their start. When Factory is a path, Offset counts in that factory
	// alone. Limit 0 or less: DefaultPage.
	Factory string
	Offset  int
	Limit   int
	Search  string // of a factory's children, only those whose id or label contains it
}

// DefaultPage is how many children of a factory one answer shows, MaxPage the most it does.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// TreeNode is one process, or the place of one that does not run, with what the node
// knows of it besides.
type TreeNode struct {
	supervision.Node
	Label    string     `json:"label,omitempty"` // the name of the stream behind the id
	Note     string     `json:"note,omitempty"`  // why it does not run, and what will start it
	Trouble  bool       `json:"trouble,omitempty"`
	Page     *TreePage  `json:"page,omitempty"` // of a factory
	Children []TreeNode `json:"children,omitempty"`
}

// StateParked is the state of a factory's child that spent its restarts: it has no process, and whoever
// started it does so again later.
const StateParked = "parked"

// StateStopped is that of one that an operator stopped; the same who starts it again.
const StateStopped = "stopped"

// TreePage says which of a factory's children are shown.
type TreePage struct {
	Total    int            `json:"total"`   // children, parked ones included
	Matched  int            `json:"matched"` // of these, what the search left
	Offset   int            `json:"offset"`
	Limit    int            `json:"limit"`
	States   map[string]int `json:"states"` // how many are in which state
	Troubled int            `json:"troubled"`
}

// RegistryEntry is one name of the registry. Without a process State is "absent".
type RegistryEntry struct {
	Kind        string `json:"kind"`
	ID          string `json:"id,omitempty"`
	Label       string `json:"label,omitempty"` // the name of the stream behind the id
	Node        string `json:"node"`
	State       string `json:"state"` // registered or absent
	Path        string `json:"path,omitempty"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	MailboxLen  int    `json:"mailbox_len"`
}

// The states of a name.
const (
	Registered = "registered"
	Absent     = "absent"
)

// Event is one thing that a supervisor did or saw.
type Event struct {
	Seq         uint64    `json:"seq"` // 1 for the first of this boot
	Time        time.Time `json:"time"`
	Kind        string    `json:"kind"`
	Path        string    `json:"path"` // of the child
	Label       string    `json:"label,omitempty"`
	Incarnation uint64    `json:"incarnation,omitempty"`
	Trouble     bool      `json:"trouble,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Stack       string    `json:"stack,omitempty"`
	Restarts    int       `json:"restarts"` // of the supervisor, within its period
	Intensity   int       `json:"intensity"`
}

// Events is what happened after a sequence number.
type Events struct {
	Boot   string  `json:"boot"` // nonce of this run: with another one, sequence numbers begin anew
	Events []Event `json:"events"`
	Next   uint64  `json:"next"` // what to give as "since" next time
	// Missing is how many of those after "since" are not listed: the node has forgotten them.
	// Whoever asks since 0 misses none, it takes what there is.
	Missing uint64 `json:"missing,omitempty"`
	// More closes when there is more. It is for one wait.
	More <-chan struct{} `json:"-"`
}

// Tiering says whether tiering is wanted, and who said so.
type Tiering struct {
	Enabled bool   `json:"enabled"`
	By      string `json:"by"`    // operator or configuration
	State   string `json:"state"` // enabled, disabled, or why it is not running
}

// Retention changes a stream's own bounds. A nil field leaves that bound as it is; Unset
// takes it away, so that the node's own holds.
type Retention struct {
	MaxBytes      *int64
	MaxAge        *time.Duration
	LocalMaxBytes *int64
	LocalMinBytes *int64
}

// Unset as a bound of Retention takes the stream's own bound away.
const Unset = -1

// RetentionStatus is what bounds a stream.
type RetentionStatus struct {
	Stream string `json:"stream"`
	// Own are the bounds that the stream itself carries, by the name of the argument.
	Own map[string]string `json:"own"`
	// Effective is what holds, together with the node's configuration.
	Effective segment.Retention `json:"effective"`
	Applied   bool              `json:"applied"` // the running log knows; otherwise it will when it runs
	// Notes say which of the bounds have no effect, and why.
	Notes []string `json:"notes,omitempty"`
}

// Gap is a run of records that the stream had and no tier has: [From, To).
type Gap struct {
	From pos.Offset `json:"from"`
	To   pos.Offset `json:"to"`
}
