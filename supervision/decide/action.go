package decide

// Action is what is now to be done.
//
//sumtype:decl
type Action interface{ action() }

// Start asks to start the child and await its init. Answer Started, Ignored, Failed or
// Cancelled.
type Start struct{ ID string }

// Stop asks to stop this process as its specification says and to wait until it has
// ended. Answer Stopped.
type Stop struct {
	ID          string
	Incarnation uint64
	Shutdown    Shutdown
}

// StopAll asks to stop all of these at the same time. Answer Stopped for each, in any
// order.
type StopAll struct{ Children []Stop }

// RetryLater asks for Retry, with the same values, behind every event that waits already.
type RetryLater struct {
	ID      string
	Attempt uint64
}

// Ready says that Boot is done: the supervisor is up.
type Ready struct{}

// BootFailed says that Boot failed on this child. No child runs.
type BootFailed struct{ ID, Why string }

// Exit says that the supervisor exits with shutdown, for this reason. ShutdownAll is the
// only event to follow.
type Exit struct {
	Why    string
	GaveUp bool // its budget is spent
}

// Forget says that the child's specification is gone.
type Forget struct{ ID string }

// Reply answers the call that began the operation. Incarnation is that of the running child after OK to a start
// and with AlreadyStarted; Why goes with StartFailed and BadSpec.
type Reply struct {
	ID          string
	Answer      Answer
	Incarnation uint64
	Why         string
}

// Answer is the outcome of a call.
type Answer uint8

const (
	// OK means that it was done.
	OK Answer = iota
	// OKIgnored means that it was started, and its init wanted no process.
	OKIgnored
	// AlreadyStarted means that a child of that id has a process; under SimpleOneForOne it
	// may also be about to get one.
	AlreadyStarted
	// AlreadyPresent means that a child of that id exists and has no process, also if its
	// restart failed and will be tried again.
	AlreadyPresent
	// NotFound means that there is no such child.
	NotFound
	// StillRunning means that the child has a process; terminate it first.
	StillRunning
	// StillRestarting means that the child is about to be started again; terminate it first.
	StillRestarting
	// NotSimple means that a simple_one_for_one supervisor does not do this.
	NotSimple
	// StartFailed means that its init failed.
	StartFailed
	// BadSpec means that the specification is not valid.
	BadSpec
	// Leaving means that the supervisor is about to end and starts nothing any more.
	Leaving
)

// Report is something an operator may want to know.
type Report struct {
	Kind        ReportKind
	ID          string
	Incarnation uint64
	Why         string
	Restarts    int // of the supervisor, within its period
}

// ReportKind is what a report is about.
type ReportKind uint8

const (
	// ChildStarted means that a child came up.
	ChildStarted ReportKind = iota
	// ChildIgnored means that a child's init wanted no process.
	ChildIgnored
	// ChildFailed means that a child's init failed.
	ChildFailed
	// ChildTerminated means that a child ended by itself.
	ChildTerminated
	// ChildRestarted means that a child came up again.
	ChildRestarted
	// StopFault means that a child did not stop as it was told to.
	StopFault
	// IntensityReached means that the budget is spent.
	IntensityReached
	// SignificantEnded means that auto_shutdown ends the supervisor.
	SignificantEnded
	// ChildParked means that a child supervisor gave up and is not restarted.
	ChildParked
)

// String returns the kind's name.
func (k ReportKind) String() string {
	return nameOf(k, "started", "ignored", "start_error", "child_terminated", "restarted",
		"shutdown_error", "max_intensity", "auto_shutdown", "parked")
}

func (Start) action()      {}
func (Stop) action()       {}
func (StopAll) action()    {}
func (RetryLater) action() {}
func (Ready) action()      {}
func (BootFailed) action() {}
func (Exit) action()       {}
func (Forget) action()     {}
func (Reply) action()      {}
func (Report) action()     {}
