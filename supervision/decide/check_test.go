package decide

import (
	"fmt"
	"time"
)

// check reports the first broken invariant of Machine, by its number.
func (m *Machine) check() error {
	s := &m.state
	idle := s.awaiting.do == nothing
	if s.byID != nil && len(s.byID) != len(s.children) {
		return fmt.Errorf("1: %d ids for %d children", len(s.byID), len(s.children))
	}
	live := 0
	for i, c := range s.children {
		switch {
		case m.find(c.spec.ID) != c || i > 0 && s.children[i-1].seq >= c.seq:
			return fmt.Errorf("1: child %s at %d", c.spec.ID, i)
		case (c.incarnation != 0) != (c.state == Running || c.state == Stopping):
			return fmt.Errorf("2: child %s is %v with incarnation %d", c.spec.ID, c.state, c.incarnation)
		case c.incarnation != 0 && m.findProcess(c.incarnation) != c:
			return fmt.Errorf("2: incarnation %d of %s is not found", c.incarnation, c.spec.ID)
		case idle && c.state == Undefined && (c.spec.Restart == Temporary || m.flags.Strategy == SimpleOneForOne):
			return fmt.Errorf("4: child %s is there without a process", c.spec.ID)
		case idle && s.phase == leaving && (c.state == Starting || c.state == Restarting):
			return fmt.Errorf("6: child %s is %v", c.spec.ID, c.state)
		}
		if c.incarnation != 0 {
			live++
		}
	}
	switch {
	case s.byID != nil && live != len(s.byIncarnation):
		return fmt.Errorf("2: %d incarnations for %d live children", len(s.byIncarnation), live)
	case idle && len(s.plan) > 0:
		return fmt.Errorf("3: %d steps are planned and nothing is awaited", len(s.plan))
	case idle && s.phase == up && m.Restarts(time.Duration(s.now)*time.Millisecond) > m.flags.Intensity:
		return fmt.Errorf("5: %d restarts", m.Restarts(time.Duration(s.now)*time.Millisecond))
	}
	return nil
}
