package decide

import (
	"fmt"
	"strings"
	"time"
)

// Restart says when a child that ended is started again.
type Restart uint8

const (
	// Permanent children are always restarted.
	Permanent Restart = iota
	// Transient children are restarted when they ended abnormally.
	Transient
	// Temporary children are never restarted.
	Temporary
)

// String returns the name as it stands in status pages.
func (r Restart) String() string { return nameOf(r, "permanent", "transient", "temporary") }

// Kind tells workers from supervisors; it only serves counting and showing.
type Kind uint8

const (
	// Worker is any process that is not a supervisor.
	Worker Kind = iota
	// Supervisor is a process made by supervision.New.
	Supervisor
)

// String returns the name as it stands in status pages.
func (k Kind) String() string { return nameOf(k, "worker", "supervisor") }

// Strategy says who is restarted along with a child that ended.
type Strategy uint8

const (
	// OneForOne restarts the child alone.
	OneForOne Strategy = iota
	// SimpleOneForOne is OneForOne for any number of children made from one template.
	SimpleOneForOne
	// RestForOne restarts it and the children after it in the list.
	RestForOne
	// OneForAll restarts all.
	OneForAll
)

// String returns the name as it stands in status pages.
func (s Strategy) String() string {
	return nameOf(s, "one_for_one", "simple_one_for_one", "rest_for_one", "one_for_all")
}

// AutoShutdown says whether the end of significant children ends the supervisor.
type AutoShutdown uint8

const (
	// NeverShutdown means that it does not.
	NeverShutdown AutoShutdown = iota
	// AnySignificant means that the end of one of them does.
	AnySignificant
	// AllSignificant means that the end of the last of them does.
	AllSignificant
)

// String returns the name as it stands in status pages.
func (a AutoShutdown) String() string {
	return nameOf(a, "never", "any_significant", "all_significant")
}

func nameOf[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown (%d)", uint8(v))
}

// Shutdown says how long a child may take to stop before it is killed. The zero value
// is Brutal.
type Shutdown struct {
	limit    time.Duration
	infinite bool
}

// Brutal kills without asking.
var Brutal = Shutdown{}

// Infinity waits as long as it takes: for child supervisors, and for children that own
// something which must not be taken from under them.
var Infinity = Shutdown{infinite: true}

// After asks, and kills when d has passed. A d of 0 or less is Brutal.
func After(d time.Duration) Shutdown { return Shutdown{limit: max(0, d)} }

// Limit returns the time to wait and whether there is a limit at all.
func (s Shutdown) Limit() (d time.Duration, limited bool) { return s.limit, !s.infinite }

// IsBrutal reports whether the child is killed without being asked.
func (s Shutdown) IsBrutal() bool { return !s.infinite && s.limit == 0 }

// String returns "brutal", "infinity" or the limit.
func (s Shutdown) String() string {
	switch {
	case s.infinite:
		return "infinity"
	case s.limit == 0:
		return "brutal"
	}
	return s.limit.String()
}

// Spec describes one child.
type Spec struct {
	ID          string // unique under its supervisor; no slash: it is a part of a path
	Restart     Restart
	Significant bool
	Shutdown    Shutdown
	Kind        Kind
}

// Flags describe a supervisor.
type Flags struct {
	Strategy     Strategy
	Intensity    int           // restarts allowed within Period, 0 or more
	Period       time.Duration // at least a millisecond, unless Intensity is 0
	AutoShutdown AutoShutdown
}

func (f Flags) validate() error {
	switch {
	case f.Strategy > OneForAll:
		return fmt.Errorf("supervisor flags: strategy %v", f.Strategy)
	case f.AutoShutdown > AllSignificant:
		return fmt.Errorf("supervisor flags: auto_shutdown %v", f.AutoShutdown)
	case f.Intensity < 0:
		return fmt.Errorf("supervisor flags: intensity %d: want 0 or more", f.Intensity)
	case f.Period < time.Millisecond && f.Intensity > 0:
		return fmt.Errorf("supervisor flags: period %v: want at least 1ms for an intensity of %d", f.Period, f.Intensity)
	}
	return nil
}

func (f Flags) validateChild(s Spec) error {
	switch {
	case s.ID == "":
		return fmt.Errorf("child specification without an id")
	case strings.Contains(s.ID, "/"):
		return fmt.Errorf("child %s: an id is one part of a path and holds no slash", s.ID)
	case s.Restart > Temporary:
		return fmt.Errorf("child %s: restart %v", s.ID, s.Restart)
	case s.Kind > Supervisor:
		return fmt.Errorf("child %s: kind %v", s.ID, s.Kind)
	case s.Significant && f.AutoShutdown == NeverShutdown:
		return fmt.Errorf("child %s: bad combination: significant with auto_shutdown %v", s.ID, f.AutoShutdown)
	case s.Significant && s.Restart == Permanent:
		return fmt.Errorf("child %s: bad combination: significant with restart %v", s.ID, s.Restart)
	}
	return nil
}
