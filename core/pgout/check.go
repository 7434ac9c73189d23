package pgout

import "fmt"

// Check reports a broken invariant. Tests call it after every Step.
func (m *Machine) Check() error {
	o, c, s := &m.log, &m.confirm, &m.stream
	switch {
	case o.held != nil && o.held.source.at != o.last.Position:
		return fmt.Errorf("I1: the event held back is %s, the newest %s", o.held.source.at, o.last.Position)
	case o.held != nil && o.last.Offset != o.next:
		return fmt.Errorf("I1: the event held back is to have offset %s, next is %s", o.last.Offset, o.next)
	case c.ready.next > o.durable() && c.ready.lsn > c.confirmed:
		return fmt.Errorf("I2: ready to confirm %s behind offset %s, fsynced is %s", c.ready.lsn, c.ready.next, o.durable())
	case o.committed > o.next:
		return fmt.Errorf("I2: committed %s is beyond next %s", o.committed, o.next)
	case s.open && len(c.marks) > 0 && c.marks[len(c.marks)-1].lsn > s.tx.Final:
		return fmt.Errorf("I4: a mark at %s inside the transaction at %s", c.marks[len(c.marks)-1].lsn, s.tx.Final)
	case !o.flying && len(o.batch) > 0:
		return fmt.Errorf("I5: %d records wait with nothing in flight", len(o.batch))
	case m.saveWhy == saveStage && !m.stage.saving():
		return fmt.Errorf("I6: a row is being saved for a stage that is over (%s)", m.stage)
	}
	for i := range c.marks {
		if i > 0 && (c.marks[i].lsn < c.marks[i-1].lsn || c.marks[i].next <= c.marks[i-1].next) {
			return fmt.Errorf("marks %d and %d are not in order", i-1, i)
		}
	}
	return nil
}
