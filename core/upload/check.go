package upload

import (
	"fmt"
	"slices"

	"millrace/core/manifest"
	"millrace/core/pos"
)

// check reports which invariant of Machine does not hold.
func (m *Machine) check() error {
	if m.live == nil || m.phase != phaseOpen {
		return m.checkIdle()
	}
	for _, c := range []func() error{m.checkOrder, m.checkManifests, m.checkAnchor, m.checkBounds, m.checkNames, m.checkEdits} {
		if err := c(); err != nil {
			return err
		}
	}
	return m.checkShown()
}

func (m *Machine) checkIdle() error {
	if len(m.cuts) > 0 || len(m.flights) > 0 || m.persist.stage != persistIdle || !m.assembly.Empty() || m.drain.reading {
		return fmt.Errorf("U9: %d fragments, persist stage %d, in phase %d", len(m.flights), m.persist.stage, m.phase)
	}
	return m.checkShown()
}

func (m *Machine) checkOrder() error {
	after := m.now.Next
	for _, f := range m.flights {
		if f.after != after || f.frag.First < after || f.frag.Next <= f.frag.First {
			return fmt.Errorf("U1: fragment [%s, %s) comes after %s, want %s", f.frag.First, f.frag.Next, f.after, after)
		}
		after = f.frag.Next
	}
	if len(m.flights) > 0 && m.flights[0].stage == stageUploaded {
		return fmt.Errorf("U1: fragment [%s, %s) is uploaded, its turn has come, and it is not applied",
			m.flights[0].frag.First, m.flights[0].frag.Next)
	}
	if !m.assembly.Empty() {
		if m.assembly.First() < after || m.assembly.Next() != m.drain.want {
			return fmt.Errorf("U5: [%s, %s) is assembled after %s, next to come is %s", m.assembly.First(), m.assembly.Next(), after, m.drain.want)
		}
	}
	if m.drain.want < after {
		return fmt.Errorf("U5: next to come is %s, after %s", m.drain.want, after)
	}
	return nil
}

func (m *Machine) checkManifests() error {
	want, err := m.stored.Apply(m.edits...)
	if err != nil {
		return fmt.Errorf("U2: %w", err)
	}
	if !sameManifest(want, m.now) {
		return fmt.Errorf("U2: live is %+v, want %+v", m.now, want)
	}
	for _, c := range []error{m.stored.Check(), m.now.Check()} {
		if c != nil {
			return fmt.Errorf("U2: %w", c)
		}
	}
	return nil
}

func sameManifest(a, b *manifest.Manifest) bool {
	return a.First == b.First && a.Next == b.Next && a.FirstTime == b.FirstTime && a.FirstLastTime == b.FirstLastTime &&
		a.Size == b.Size && a.Revision == b.Revision && a.Epoch == b.Epoch && slices.Equal(a.Entries, b.Entries)
}

func (m *Machine) checkAnchor() error {
	if m.anchors == anchorDone {
		return nil
	}
	if m.persist.stage != persistIdle {
		return fmt.Errorf("U3: a persist before the anchor")
	}
	for _, f := range m.flights {
		if f.stage > stageCut {
			return fmt.Errorf("U3: fragment [%s, %s) is at stage %d before the anchor", f.frag.First, f.frag.Next, f.stage)
		}
	}
	return nil
}

func (m *Machine) checkBounds() error {
	l := m.applied
	for _, f := range m.flights {
		if l.count >= m.cfg.MaxAhead || l.bytes >= m.cfg.MaxAheadBytes {
			return fmt.Errorf("U4: fragment [%s, %s) is cut with %d fragments and %d bytes before it that the pointer does not name",
				f.frag.First, f.frag.Next, l.count, l.bytes)
		}
		l.count++
		l.bytes += f.frag.Size
	}
	return nil
}

func (m *Machine) checkNames() error {
	seen := map[any]bool{}
	for _, f := range m.flights {
		out := f.stage == stageSubmitted || f.stage == stageUploading
		if seen[f.id] || out != (f.ref != 0) || out && seen[f.ref] {
			return fmt.Errorf("U6: fragment %d has ref %d at stage %d", f.id, f.ref, f.stage)
		}
		seen[f.id] = true
		seen[f.ref] = true
	}
	return nil
}

func (m *Machine) checkEdits() error {
	if m.persist.edits > len(m.edits) || m.persist.drops > len(m.drops) || m.persist.applied.count > m.applied.count {
		return fmt.Errorf("U7: the persist carries more than there is: %+v", m.persist)
	}
	if len(m.edits) > 0 && m.persist.stage == persistIdle && m.wake == 0 {
		return fmt.Errorf("U7: %d edits are stranded", len(m.edits))
	}
	return nil
}

func (m *Machine) checkShown() error {
	if !m.shown {
		return nil
	}
	if m.stored == nil || m.contradicted || m.stored.Revision != m.pointer.Revision || m.stored.Next < pos.Offset(0) {
		return fmt.Errorf("U8: shown is revision %v, the pointer has %s", m.stored, m.pointer.Revision)
	}
	for _, w := range m.waiters {
		if w.next <= m.stored.Next {
			return fmt.Errorf("U10: %d waits for %s, stored is everything below %s", w.id, w.next, m.stored.Next)
		}
	}
	return nil
}
