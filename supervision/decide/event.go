package decide

// Event is what happened: to a child, or that somebody asks.
//
//sumtype:decl
type Event interface{ event() }

// Boot is the first event: start the children of the list.
type Boot struct{}

// Started answers Start: the child runs as this incarnation, which is never 0 and never
// one that was given before.
type Started struct {
	ID          string
	Incarnation uint64
}

// Ignored answers Start: the child's init wants no process.
type Ignored struct{ ID string }

// Failed answers Start: the child's init failed.
type Failed struct{ ID, Why string }

// Cancelled answers Start: the supervisor was told to stop before the child was up, and no
// process of it is left. From then on nothing is started; ShutdownAll follows.
type Cancelled struct{ ID string }

// Stopped answers Stop, and StopAll once for each child: no process of it is left. Fault
// is empty when it stopped as it was told to.
type Stopped struct{ ID, Fault string }

// Exited says that a process ended that was not told to by Stop. One that is not known,
// because Stop has answered for it, is passed over.
type Exited struct {
	Incarnation uint64
	Abnormal    bool
	GaveUp      bool // it is a supervisor whose Exit said so
	Why         string
}

// Retry is the time RetryLater spoke of.
type Retry struct {
	ID      string
	Attempt uint64
}

// StartChild asks to add a child and start it. Under SimpleOneForOne the specification
// is the template's with the child's own ID.
type StartChild struct{ Spec Spec }

// TerminateChild asks to stop a child. Its specification stays unless it is temporary.
type TerminateChild struct{ ID string }

// RestartChild asks to start a child that has no process.
type RestartChild struct{ ID string }

// DeleteChild asks to drop the specification of a child that has no process.
type DeleteChild struct{ ID string }

// ShutdownAll is the last event: stop every child. It may come in any state, and gives up
// an action that awaits its answer: so a shell that failed while it carried one out can
// still stop its children.
type ShutdownAll struct {
	// Started is what Start has come to if that was carried out and not answered: the process
	// lives. Otherwise, or when there is no such process, it says nothing.
	Started Started
}

func (Boot) event()           {}
func (Started) event()        {}
func (Ignored) event()        {}
func (Failed) event()         {}
func (Cancelled) event()      {}
func (Stopped) event()        {}
func (Exited) event()         {}
func (Retry) event()          {}
func (StartChild) event()     {}
func (TerminateChild) event() {}
func (RestartChild) event()   {}
func (DeleteChild) event()    {}
func (ShutdownAll) event()    {}
