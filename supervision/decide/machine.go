package decide

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// State is where a child stands.
type State uint8

const (
	// Undefined children have a specification and no process.
	Undefined State = iota
	// Starting children run their init.
	Starting
	// Running children have a process.
	Running
	// Stopping children are being stopped.
	Stopping
	// Restarting children could not be restarted, which will be tried again.
	Restarting
)

// String returns the name as it stands in status pages.
func (s State) String() string {
	return nameOf(s, "undefined", "starting", "running", "stopping", "restarting")
}

// phase is where the supervisor stands.
type phase uint8

const (
	booting phase = iota // until Ready or BootFailed
	up
	leaving // after Exit, Cancelled or ShutdownAll: nothing is started any more
)

type child struct {
	spec        Spec
	seq         uint64 // its place in the list
	state       State
	incarnation uint64 // 0 without a process
	attempt     uint64 // of its restarts, so that a Retry of an earlier one is told
}

// Machine is one supervisor. Its invariants, checked by check:
//
//  1. ids are unique, and the children stand in order of seq, which is never reused;
//  2. a child has an incarnation exactly in Running and Stopping, and is found by it then
//     and only then;
//  3. at most one action awaits an answer; the plan is empty when none does;
//  4. a temporary child, and any child under SimpleOneForOne, is never Undefined between
//     two operations;
//  5. when up and not planning, at most Intensity restarts lie within Period;
//  6. when leaving, no child is Starting or Restarting.
type Machine struct {
	flags Flags
	state state
}

type state struct {
	phase         phase
	children      []*child
	byID          map[string]*child // these two are nil while there are few
	byIncarnation map[uint64]*child
	lastSeq       uint64
	restarts      []int64 // milliseconds, ascending

	plan     []step // what follows once the present action is answered
	awaiting step   // whose action awaits an answer; its do is nothing otherwise
	open     int    // answers it still awaits
	now      int64
	out      []Action
}

// New returns the supervisor of these children. Under SimpleOneForOne there must be
// exactly one, the template; its ID only names the kind of child.
func New(flags Flags, children []Spec) (*Machine, error) {
	if err := flags.validate(); err != nil {
		return nil, err
	}
	m := &Machine{flags: flags}
	for _, spec := range children {
		if err := flags.validateChild(spec); err != nil {
			return nil, err
		}
		if m.Has(spec.ID) {
			return nil, fmt.Errorf("child %s: the id is given twice", spec.ID)
		}
		m.add(spec)
	}
	if flags.Strategy == SimpleOneForOne {
		if len(children) != 1 {
			return nil, fmt.Errorf("simple_one_for_one: %d children: want one, the template", len(children))
		}
		m.state.children = nil
	}
	return m, nil
}

// Has reports whether there is a child of this id, with or without a process.
func (m *Machine) Has(id string) bool { return m.find(id) != nil }

// few children are found by looking at each: most supervisors have one or two, and there
// may be thousands of these.
const few = 8

func (m *Machine) find(id string) *child {
	if m.state.byID != nil {
		return m.state.byID[id]
	}
	for _, c := range m.state.children {
		if c.spec.ID == id {
			return c
		}
	}
	return nil
}

// findProcess returns the child that has this process.
func (m *Machine) findProcess(incarnation uint64) *child {
	if m.state.byIncarnation != nil {
		return m.state.byIncarnation[incarnation]
	}
	for _, c := range m.state.children {
		if c.incarnation == incarnation && incarnation != 0 {
			return c
		}
	}
	return nil
}

// enter makes a child and its process, if it has one, findable.
func (m *Machine) enter(c *child) {
	if m.state.byID == nil {
		if len(m.state.children) <= few {
			return
		}
		m.state.byID, m.state.byIncarnation = map[string]*child{}, map[uint64]*child{}
		for _, other := range m.state.children {
			m.enter(other)
		}
	}
	m.state.byID[c.spec.ID] = c
	if c.incarnation != 0 {
		m.state.byIncarnation[c.incarnation] = c
	}
}

// Info is one line of Which.
type Info struct {
	Spec        Spec
	State       State
	Incarnation uint64 // 0 without a process
}

// Which lists the children, the latest first.
func (m *Machine) Which() []Info {
	infos := make([]Info, 0, len(m.state.children))
	for _, c := range slices.Backward(m.state.children) {
		infos = append(infos, Info{Spec: c.spec, State: c.state, Incarnation: c.incarnation})
	}
	return infos
}

// Counts are the numbers of OTP's count_children.
type Counts struct {
	Specs       int // specifications; 1 under SimpleOneForOne
	Active      int // children with a process
	Supervisors int // children that are supervisors, with or without a process
	Workers     int // the others
}

// Count counts the children.
func (m *Machine) Count() Counts {
	n := Counts{Specs: len(m.state.children)}
	if m.flags.Strategy == SimpleOneForOne {
		n.Specs = 1
	}
	for _, c := range m.state.children {
		if c.spec.Kind == Supervisor {
			n.Supervisors++
		} else {
			n.Workers++
		}
		if c.incarnation != 0 {
			n.Active++
		}
	}
	return n
}

// Restarts returns how many restarts lie within the period that ends now.
func (m *Machine) Restarts(now time.Duration) int {
	first := now.Milliseconds() - m.flags.Period.Milliseconds()
	i, _ := slices.BinarySearch(m.state.restarts, first)
	return len(m.state.restarts) - i
}

func (m *Machine) add(spec Spec) *child {
	m.state.lastSeq++
	c := &child{spec: spec, seq: m.state.lastSeq}
	m.state.children = append(m.state.children, c)
	m.enter(c)
	return c
}

// index returns where c stands in the list.
func (m *Machine) index(c *child) int {
	i, _ := slices.BinarySearchFunc(m.state.children, c.seq, func(o *child, seq uint64) int { return cmp.Compare(o.seq, seq) })
	return i
}

// drop removes a child's specification.
func (m *Machine) drop(c *child) {
	i := m.index(c)
	m.state.children = slices.Delete(m.state.children, i, i+1)
	delete(m.state.byID, c.spec.ID)
	m.emit(Forget{ID: c.spec.ID})
}

// vacate makes c a child without a process; one that is nothing without one is dropped.
func (m *Machine) vacate(c *child) {
	if c.incarnation != 0 {
		delete(m.state.byIncarnation, c.incarnation)
		c.incarnation = 0
	}
	c.state = Undefined
	if c.spec.Restart == Temporary || m.flags.Strategy == SimpleOneForOne {
		m.drop(c)
	}
}
