package segment

import (
	"errors"
	"fmt"

	"millrace/core/pos"
)

// Check reports the first invariant of the type that does not hold. Tests call it
// after every Step.
func (m *Machine) Check() error {
	if !m.found || m.state == Ended {
		return nil
	}
	for _, check := range []func() error{
		m.checkSegments, m.checkOffsets, m.checkMarks, m.checkSynced, m.checkEpochs, m.checkPublished,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) checkSegments() error {
	if len(m.log.segments) == 0 {
		return errors.New("S1: no segment")
	}
	for i, s := range m.log.segments {
		last := i == len(m.log.segments)-1
		switch {
		case s.Bytes < FileHeaderSize || s.Next < s.First || s.Chunks < 0:
			return fmt.Errorf("S1: segment %+v", s)
		case (s.Chunks == 0) != (s.Next == s.First) || (s.Chunks == 0) != (s.Bytes == FileHeaderSize):
			return fmt.Errorf("S1: segment %+v is empty and is not", s)
		case !last && (s.Chunks == 0 || s.Next != m.log.segments[i+1].First):
			return fmt.Errorf("S1: segment %s does not end where the next begins", s.First)
		}
	}
	return nil
}

func (m *Machine) checkOffsets() error {
	first, a := m.log.segments[0].First, m.active()
	if first > m.head.committed || m.head.committed > m.log.last || m.log.synced > m.log.last {
		return fmt.Errorf("S2: first %s, committed %s, synced %s, last %s", first, m.head.committed, m.log.synced, m.log.last)
	}
	if a.Next != m.log.last {
		return fmt.Errorf("S3: last %s, the active segment ends at %s", m.log.last, a.Next)
	}
	if m.head.lastChunk != pos.NoOffset && m.head.lastChunk >= m.head.committed {
		return fmt.Errorf("S7: last chunk %s, committed %s", m.head.lastChunk, m.head.committed)
	}
	return nil
}

func (m *Machine) checkMarks() error {
	at := m.head.committed
	for _, c := range m.log.marks[m.head.gone:] {
		if c.ID != at || c.Next <= c.ID {
			return fmt.Errorf("S4: mark %+v, want one from %s", c, at)
		}
		at = c.Next
	}
	if at != m.log.last {
		return fmt.Errorf("S4: marks end at %s, the log at %s", at, m.log.last)
	}
	return nil
}

func (m *Machine) checkSynced() error {
	a, l := m.active(), &m.log
	if l.synced < a.First || l.syncedBytes < FileHeaderSize || l.syncedBytes > a.Bytes || l.syncedChunks > a.Chunks {
		return fmt.Errorf("S5: synced %s, %d bytes, %d chunks of %+v", l.synced, l.syncedBytes, l.syncedChunks, *a)
	}
	if (l.synced == l.last) != (l.syncedBytes == a.Bytes) || (l.synced == l.last) != (l.syncedChunks == a.Chunks) {
		return fmt.Errorf("S5: synced %s of %s, but %d of %d bytes and %d of %d chunks",
			l.synced, l.last, l.syncedBytes, a.Bytes, l.syncedChunks, a.Chunks)
	}
	if m.cfg.Mode == Always && l.synced < l.last && !l.syncing {
		return fmt.Errorf("S9: %s is synced, %s is written, and no sync is under way", l.synced, l.last)
	}
	return nil
}

func (m *Machine) checkEpochs() error {
	first := m.log.segments[0].First
	was := EpochEnd{End: first}
	for i, e := range m.log.epochs {
		if e.End <= was.End || i > 0 && e.Epoch <= was.Epoch {
			return fmt.Errorf("S6: %+v after %+v", e, was)
		}
		was = e
	}
	if was.End != m.log.last {
		return fmt.Errorf("S6: epochs end at %s, the log at %s", was.End, m.log.last)
	}
	return nil
}

func (m *Machine) checkPublished() error {
	p, v := m.head.published, m.view()
	if m.head.shown && (p.First > v.First || p.Committed > v.Committed || p.Synced > v.Synced) {
		return fmt.Errorf("S8: published %+v, now %+v", p, v)
	}
	return nil
}
