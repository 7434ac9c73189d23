package pgout

import "millrace/core/pos"

// Input is what may happen to a capture.
//
//sumtype:decl
type Input interface {
	at() At
	answers() bool // an effect; an answer to one of an earlier attempt is dropped
}

// At stands in every input: when it is, and the Gen of the effect it answers.
type At struct {
	Gen uint64
	Now pos.Millis
}

func (a At) at() At { return a }

// Up says that the stream's writer runs. Gen is ignored.
type Up struct{ At }

// Down says that the stream's writer ended. Gen is ignored.
type Down struct{ At }

// Tick says that the time set by Timer has come. Gen is ignored.
type Tick struct{ At }

// Surveyed answers Look.
type Surveyed struct {
	At
	Survey Survey
}

// RowSaved answers SaveRow: the row as it is stored now.
type RowSaved struct {
	At
	Row Row
}

// SlotDropped answers DropSlots; a slot that was not there counts.
type SlotDropped struct{ At }

// Freed answers EndBackend.
type Freed struct{ At }

// SlotCreated answers CreateSlot: the snapshot is open and read by Load until
// CloseSnapshot. Tables are the publication's as the snapshot has them.
type SlotCreated struct {
	At
	Consistent pos.LSN
	Tables     []Table
}

// Rows answers Load: lines of COPY's text format. Done: the table has no more.
type Rows struct {
	At
	Lines [][]byte
	Done  bool
}

// TablesSaved answers SaveTables.
type TablesSaved struct{ At }

// Started answers StartStream: the slot is ours.
type Started struct {
	At
	Held Held
}

// Received answers Receive, with at least one message.
type Received struct {
	At
	Messages []Wal
}

// Wal is one message of the replication connection. Data is nil for a keepalive.
type Wal struct {
	Data []byte // one pgoutput message
	End  pos.LSN
	// Asked: the server waits for an answer to this keepalive, as one does that is being
	// stopped.
	Asked bool
}

// Appended answers Append: the records are committed.
type Appended struct {
	At
	Next pos.Offset
}

// Refused answers Append: the log does not end where it was thought to.
type Refused struct {
	At
	Next pos.Offset
}

// Synced answers WatchSync, and may come by itself: records below Next are fsynced.
type Synced struct {
	At
	Next pos.Offset
}

// Inspected answers Inspect.
type Inspected struct {
	At
	Server Server
}

// Failed answers any effect that could not be done.
type Failed struct {
	At
	Of   Effect
	Fail Failure
}

// Failure says what went wrong in the world.
type Failure struct {
	Class Class
	Why   string // what failed, on what; no secrets
	Hint  string // what to run, "" when waiting helps
	PID   int    // SlotInUse: who holds the slot, 0 if not known
}

// Class says what to do about a failure.
type Class uint8

// The classes of failures.
const (
	Unavailable   Class = iota // the server or the store can't be reached, or is busy: waiting helps
	Denied                     // password, pg_hba, permissions
	Misconfigured              // Hint says what to run
	SlotInUse                  // another backend holds our slot
	SlotLost                   // the slot can't be read any more
	NotFound                   // slot, publication or table is gone
	Conflict                   // the metadata row is not what it was, or may not be
	Broken                     // bytes that make no sense: a bug here or there
	// Unreadable: decoding came to a change made while the publication did not exist. The
	// server looks it up in the catalog as it was at that change, so it fails for ever.
	Unreadable
)

var classNames = [...]string{"unavailable", "denied", "misconfigured", "slot in use", "slot lost", "not found", "conflict", "broken", "unreadable"}

// String is the class in lower case words.
func (c Class) String() string { return classNames[c] }

func (*Up) answers() bool          { return false }
func (*Down) answers() bool        { return false }
func (*Tick) answers() bool        { return false }
func (*Surveyed) answers() bool    { return true }
func (*RowSaved) answers() bool    { return true }
func (*SlotDropped) answers() bool { return true }
func (*Freed) answers() bool       { return true }
func (*SlotCreated) answers() bool { return true }
func (*Rows) answers() bool        { return true }
func (*TablesSaved) answers() bool { return true }
func (*Started) answers() bool     { return true }
func (*Received) answers() bool    { return true }
func (*Appended) answers() bool    { return true }
func (*Refused) answers() bool     { return true }
func (*Synced) answers() bool      { return true }
func (*Inspected) answers() bool   { return true }
func (*Failed) answers() bool      { return true }
