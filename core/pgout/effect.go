package pgout

import "millrace/core/pos"

// Effect is what must be done, in the order given. Every effect with a Gen is
// answered, with that Gen, by the input it names or by Failed.
//
//sumtype:decl
type Effect interface{ effect() }

// Look reads the metadata row, the rows of the published tables, the log's tail and
// the server. Answered by Surveyed.
type Look struct{ Gen uint64 }

// SaveRow stores the metadata row, guarded by its revision. Nothing that the row
// announces is done before RowSaved.
type SaveRow struct {
	Gen uint64
	Row Row
}

// DropSlots drops the named slots, those that exist. After RowSaved(creating).
type DropSlots struct {
	Gen   uint64
	Names []string
}

// EndBackend ends the backend that holds our slot. Answered by Freed.
type EndBackend struct {
	Gen uint64
	PID int
}

// CreateSlot creates the permanent slot, or a temporary one that goes with its
// snapshot, and opens its snapshot. Answered by SlotCreated.
type CreateSlot struct {
	Gen       uint64
	Temporary bool
}

// Load reads the next rows of a table in the open snapshot. One is outstanding, and
// a table is read to its end before the next. Answered by Rows.
type Load struct {
	Gen   uint64
	Table *Table
}

// CloseSnapshot ends the snapshot, and with it a temporary slot.
type CloseSnapshot struct{}

// SaveTables stores the rows of loaded tables. After E covers their load.
type SaveTables struct {
	Gen  uint64
	Rows []TableRow
}

// StartStream begins replication, and looks where the slot is then. Answered by Started.
type StartStream struct {
	Gen uint64
	At  pos.LSN
}

// Receive waits for messages of the stream. One is outstanding. Answered by Received.
type Receive struct{ Gen uint64 }

// Append appends records to the stream. One is outstanding. Answered by Appended or
// Refused.
type Append struct {
	Gen        uint64
	ExpectNext pos.Offset
	Records    []Record
}

// WatchSync waits until the log's fsynced offset is above From. One is outstanding.
// Answered by Synced.
type WatchSync struct {
	Gen  uint64
	From pos.Offset
}

// Confirm tells the server that everything below LSN may be forgotten. After the
// RowSaved whose E it passes. Not answered.
type Confirm struct{ LSN pos.LSN }

// Inspect reads the server and the publication while streaming. Answered by Inspected.
type Inspect struct{ Gen uint64 }

// Timer asks for a Tick at a time; it replaces the former. Not answered.
type Timer struct{ At pos.Millis }

// CloseAll ends replication and snapshot; answers still to come are not wanted.
type CloseAll struct{}

// Warn is for the log. Not answered.
type Warn struct {
	Error bool // events were lost: an error, not a warning
	Text  string
}

func (*Look) effect()          {}
func (*SaveRow) effect()       {}
func (*DropSlots) effect()     {}
func (*EndBackend) effect()    {}
func (*CreateSlot) effect()    {}
func (*Load) effect()          {}
func (*CloseSnapshot) effect() {}
func (*SaveTables) effect()    {}
func (*StartStream) effect()   {}
func (*Receive) effect()       {}
func (*Append) effect()        {}
func (*WatchSync) effect()     {}
func (*Confirm) effect()       {}
func (*Inspect) effect()       {}
func (*Timer) effect()         {}
func (*CloseAll) effect()      {}
func (*Warn) effect()          {}
