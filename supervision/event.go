package supervision

import (
	"fmt"
	"time"

	"millrace/actors"
	"millrace/supervision/decide"
)

// EventKind is what an event is about.
type EventKind uint8

// The kinds of events.
const (
	EventStarted         EventKind = iota // a child came up
	EventIgnored                          // a child's init wanted no process
	EventStartError                       // a child's init failed
	EventChildTerminated                  // a child ended by itself
	EventRestarted                        // a child came up again
	EventShutdownError                    // a child did not stop as it was told to, or was killed for taking too long
	EventMaxIntensity                     // the restart budget is spent; the supervisor exits
	EventAutoShutdown                     // a significant child ended; the supervisor exits
	EventZombie                           // an ended child's code still runs
	EventParked                           // a child supervisor's budget is spent, and it is not restarted
	EventStuck                            // a child is starting while code of an earlier incarnation still runs
)

var eventNames = [...]string{"started", "ignored", "start_error", "child_terminated", "restarted",
	"shutdown_error", "max_intensity", "auto_shutdown", "zombie", "parked", "stuck"}

// String returns the kind's name as it stands in logs and metrics.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event %d", k)
}

// eventKinds maps what the core reports.
var eventKinds = map[decide.ReportKind]EventKind{
	decide.ChildStarted: EventStarted, decide.ChildIgnored: EventIgnored, decide.ChildFailed: EventStartError,
	decide.ChildTerminated: EventChildTerminated, decide.ChildRestarted: EventRestarted, decide.StopFault: EventShutdownError,
	decide.IntensityReached: EventMaxIntensity, decide.SignificantEnded: EventAutoShutdown, decide.ChildParked: EventParked,
}

// Event is one thing a supervisor did or saw.
type Event struct {
	Time        time.Time
	Kind        EventKind
	Path        string // the supervisor's
	ID          string // the child's
	Incarnation uint64 // the child's; 0 when it has none
	// Reason is why the child ended, or its start failed. Of stuck it is why the
	// incarnation before ended; started, restarted and ignored have none.
	Reason    actors.Reason
	Restarts  int // of the supervisor, within its period
	Intensity int // how many it allows
}

// Trouble reports whether an operator should look at it: everything but starts, ends in
// good order and what follows from them.
func (e Event) Trouble() bool {
	switch e.Kind {
	case EventStarted, EventIgnored, EventRestarted, EventAutoShutdown:
		return false
	case EventChildTerminated:
		return e.Reason.Abnormal()
	case EventStartError, EventShutdownError, EventMaxIntensity, EventZombie, EventParked, EventStuck:
	}
	return true
}
