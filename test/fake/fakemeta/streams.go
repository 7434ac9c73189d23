package fakemeta

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"millrace/actors/port"
	"millrace/core/pos"
)

// copied returns the row without anything shared.
func copied(s port.Stream) port.Stream {
	s.Arguments = maps.Clone(s.Arguments)
	s.Members = slices.Clone(s.Members)
	return s
}

// StreamByName implements port.Metadata.
func (m *Meta) StreamByName(ctx context.Context, name string) (port.Stream, error) {
	var found port.Stream
	err := m.do(ctx, "streambyname", name, func() error {
		for _, s := range m.streams {
			if s.Name == name {
				found = copied(s)
				return nil
			}
		}
		return port.NotFound
	})
	return found, err
}

// Stream implements port.Metadata.
func (m *Meta) Stream(ctx context.Context, id pos.StreamID) (port.Stream, error) {
	var found port.Stream
	err := m.do(ctx, "stream", id.String(), func() error {
		s, ok := m.streams[id]
		if !ok {
			return port.NotFound
		}
		found = copied(s)
		return nil
	})
	return found, err
}

// Streams implements port.Metadata.
func (m *Meta) Streams(ctx context.Context) ([]port.Stream, error) {
	var all []port.Stream
	err := m.do(ctx, "streams", "", func() error {
		for _, id := range slices.Sorted(maps.Keys(m.streams)) {
			all = append(all, copied(m.streams[id]))
		}
		return nil
	})
	return all, err
}

// ChangedSince implements port.Metadata.
func (m *Meta) ChangedSince(ctx context.Context, seq uint64) ([]port.Stream, uint64, error) {
	var changed []port.Stream
	err := m.do(ctx, "changedsince", "", func() error {
		for _, set := range []map[pos.StreamID]port.Stream{m.streams, m.gone} {
			for _, s := range set {
				if s.Seq > seq {
					changed = append(changed, copied(s))
				}
			}
		}
		slices.SortFunc(changed, func(a, b port.Stream) int { return cmp.Compare(a.Seq, b.Seq) })
		seq = max(seq, m.seq)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return changed, seq, nil
}

// CreateStream implements port.Metadata.
func (m *Meta) CreateStream(ctx context.Context, s port.Stream) (port.Stream, error) {
	err := m.do(ctx, "createstream", s.ID.String(), func() error {
		if err := port.CheckStream(s); err != nil {
			return err
		}
		_, exists := m.streams[s.ID]
		_, existed := m.gone[s.ID]
		if exists || existed {
			return fmt.Errorf("the id was used before: %w", port.Conflict)
		}
		for _, other := range m.streams {
			if other.Name == s.Name {
				return fmt.Errorf("the name %q is taken by %s: %w", s.Name, other.ID, port.Conflict)
			}
		}
		m.seq++
		s.Revision, s.Seq = 1, m.seq
		m.streams[s.ID] = copied(s)
		return nil
	})
	if err != nil {
		return port.Stream{}, err
	}
	return copied(s), nil
}

// SwapStreams implements port.Metadata.
func (m *Meta) SwapStreams(ctx context.Context, next []port.Stream) error {
	what := ""
	if len(next) > 0 {
		what = next[0].ID.String()
	}
	return m.do(ctx, "swapstreams", what, func() error {
		after := maps.Clone(m.streams)
		seq := m.seq
		for _, s := range next {
			old, ok := after[s.ID]
			switch {
			case !ok:
				return fmt.Errorf("stream %s: %w", s.ID, port.NotFound)
			case old.Revision != s.Revision:
				return fmt.Errorf("stream %s has revision %s, not %s: %w", s.ID, old.Revision, s.Revision, port.Conflict)
			case s.Epoch < old.Epoch:
				return fmt.Errorf("stream %s has epoch %s, %s is less: %w", s.ID, old.Epoch, s.Epoch, port.Conflict)
			}
			seq++
			s = copied(s)
			s.Name, s.Created, s.Revision, s.Seq = old.Name, old.Created, old.Revision+1, seq
			after[s.ID] = s
		}
		m.streams, m.seq = after, seq
		return nil
	})
}

// Pointer implements port.Metadata.
func (m *Meta) Pointer(ctx context.Context, id pos.StreamID) (port.Pointer, error) {
	var found port.Pointer
	err := m.do(ctx, "pointer", id.String(), func() error {
		p, ok := m.pointers[id]
		if !ok {
			return port.NotFound
		}
		found = p
		return nil
	})
	return found, err
}

// SwapPointer implements port.Metadata.
func (m *Meta) SwapPointer(ctx context.Context, id pos.StreamID, expected pos.Revision, next port.Pointer) error {
	return m.do(ctx, "swappointer", id.String(), func() error {
		old := m.pointers[id]
		switch {
		case m.streams[id].ID.IsZero():
			return port.NotFound
		case old.Revision != expected:
			return fmt.Errorf("revision %s is stored, not %s: %w", old.Revision, expected, port.Conflict)
		case next.Revision <= max(expected, m.used[id]):
			return fmt.Errorf("revision %s was used before: %w", next.Revision, port.Conflict)
		case next.Epoch < old.Epoch:
			return fmt.Errorf("epoch %s is stored, %s is less: %w", old.Epoch, next.Epoch, port.Conflict)
		}
		m.pointers[id], m.used[id] = next, next.Revision
		return nil
	})
}

// Stored tells how far the pointer of a stream says that it is stored, without a hook: 0 if
// there is none.
func (m *Meta) Stored(id pos.StreamID) pos.Offset {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pointers[id].Next
}

// RollBackPointer puts an older pointer back as a restored store would. The revisions
// used since stay used.
func (m *Meta) RollBackPointer(id pos.StreamID, p port.Pointer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pointers[id] = p
}

// Anchored implements port.Metadata.
func (m *Meta) Anchored(ctx context.Context, id pos.StreamID) (bool, error) {
	anchored := false
	err := m.do(ctx, "anchored", id.String(), func() error {
		anchored = m.anchors[id]
		return nil
	})
	return anchored, err
}

// PutAnchor implements port.Metadata.
func (m *Meta) PutAnchor(ctx context.Context, id pos.StreamID) error {
	return m.do(ctx, "putanchor", id.String(), func() error {
		if _, ok := m.streams[id]; !ok {
			return port.NotFound
		}
		m.anchors[id] = true
		return nil
	})
}

// DeleteStream implements port.Metadata.
func (m *Meta) DeleteStream(ctx context.Context, id pos.StreamID, revision pos.Revision) error {
	return m.do(ctx, "deletestream", id.String(), func() error {
		s, ok := m.streams[id]
		if !ok {
			return port.NotFound
		}
		if s.Revision != revision {
			return fmt.Errorf("revision %s is stored, not %s: %w", s.Revision, revision, port.Conflict)
		}
		m.seq++
		delete(m.streams, id)
		delete(m.pointers, id)
		delete(m.anchors, id)
		m.gone[id] = port.Stream{ID: id, Name: s.Name, Phase: port.PhaseDeleted, Seq: m.seq}
		m.deletions[id] = port.Deletion{Stream: id, Name: s.Name, Seq: m.seq}
		return nil
	})
}

// Deletions implements port.Metadata.
func (m *Meta) Deletions(ctx context.Context) ([]port.Deletion, error) {
	var queue []port.Deletion
	err := m.do(ctx, "deletions", "", func() error {
		queue = slices.SortedFunc(maps.Values(m.deletions), func(a, b port.Deletion) int { return cmp.Compare(a.Seq, b.Seq) })
		return nil
	})
	return queue, err
}

// FinishDeletion implements port.Metadata.
func (m *Meta) FinishDeletion(ctx context.Context, id pos.StreamID) error {
	return m.do(ctx, "finishdeletion", id.String(), func() error {
		delete(m.deletions, id)
		return nil
	})
}
