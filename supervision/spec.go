package supervision

import (
	"time"

	"millrace/actors"
	"millrace/supervision/decide"
)

// The words of a specification; see package decide for what they mean.
type (
	// Restart says when a child that ended is started again.
	Restart = decide.Restart
	// Kind tells workers from supervisors.
	Kind = decide.Kind
	// Strategy says who is restarted along with a child that ended.
	Strategy = decide.Strategy
	// AutoShutdown says whether the end of significant children ends the supervisor.
	AutoShutdown = decide.AutoShutdown
	// Shutdown says how long a child may take to stop before it is killed.
	Shutdown = decide.Shutdown
	// Flags describe a supervisor.
	Flags = decide.Flags
	// Counts are the numbers of OTP's count_children.
	Counts = decide.Counts
)

// The values of these words.
const (
	Permanent = decide.Permanent
	Transient = decide.Transient
	Temporary = decide.Temporary

	Worker     = decide.Worker
	Supervisor = decide.Supervisor

	OneForOne       = decide.OneForOne
	SimpleOneForOne = decide.SimpleOneForOne
	RestForOne      = decide.RestForOne
	OneForAll       = decide.OneForAll

	NeverShutdown  = decide.NeverShutdown
	AnySignificant = decide.AnySignificant
	AllSignificant = decide.AllSignificant
)

// Brutal and Infinity are the shutdown times that are none.
var (
	Brutal   = decide.Brutal
	Infinity = decide.Infinity
)

// After is a shutdown time: ask, and kill when d has passed.
func After(d time.Duration) Shutdown { return decide.After(d) }

// Child specifies one child. A child that is a supervisor has a New that returns what
// New of this package returns, Kind Supervisor and, as a rule, Shutdown Infinity.
type Child struct {
	// ID names the child under its supervisor and is the last part of its path.
	ID string
	// New makes the process of one incarnation. It gets what StartChild was given, also at
	// a restart, and nil in any other case.
	New         func(arg any) actors.Process
	Restart     Restart
	Significant bool
	// Shutdown also bounds how long an init may go on once its start was cancelled.
	Shutdown Shutdown
	Kind     Kind
	// Drain: at a stop the child still handles what was queued before.
	Drain bool
}

func (c Child) spec() decide.Spec {
	return decide.Spec{ID: c.ID, Restart: c.Restart, Significant: c.Significant, Shutdown: c.Shutdown, Kind: c.Kind}
}
