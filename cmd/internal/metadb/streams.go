package metadb

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"millrace/actors/port"
	"millrace/core/pos"
)

// StreamByName implements port.Metadata.
func (s *Store) StreamByName(ctx context.Context, name string) (port.Stream, error) {
	var found port.Stream
	err := s.view(ctx, "stream by name", name, func(tx *bbolt.Tx) error {
		id := tx.Bucket(bNames).Get([]byte(name))
		if id == nil {
			return port.NotFound
		}
		return mustLoad(tx, bStreams, string(id), &found)
	})
	return found, err
}

// Stream implements port.Metadata.
func (s *Store) Stream(ctx context.Context, id pos.StreamID) (port.Stream, error) {
	var found port.Stream
	err := s.view(ctx, "stream", id.String(), func(tx *bbolt.Tx) error {
		return mustLoad(tx, bStreams, id.String(), &found)
	})
	return found, err
}

// mustLoad is load where a missing key is NotFound.
func mustLoad(tx *bbolt.Tx, bucket []byte, key string, v any) error {
	ok, err := load(tx, bucket, key, v)
	if err == nil && !ok {
		return port.NotFound
	}
	return err
}

// Streams implements port.Metadata.
func (s *Store) Streams(ctx context.Context) ([]port.Stream, error) {
	var all []port.Stream
	err := s.view(ctx, "streams", "", func(tx *bbolt.Tx) (err error) {
		all, err = loadAll[port.Stream](tx, bStreams)
		return err
	})
	return all, err
}

// ChangedSince implements port.Metadata.
func (s *Store) ChangedSince(ctx context.Context, seq uint64) ([]port.Stream, uint64, error) {
	var changed []port.Stream
	last := seq
	err := s.view(ctx, "changed since", "", func(tx *bbolt.Tx) error {
		last = max(seq, tx.Bucket(bChanges).Sequence())
		if seq == last {
			return nil
		}
		c := tx.Bucket(bChanges).Cursor()
		for key, id := c.Seek(number(seq + 1)); key != nil; key, id = c.Next() {
			var row port.Stream
			ok, err := load(tx, bStreams, string(id), &row)
			if err == nil && !ok {
				err = mustLoad(tx, bGone, string(id), &row)
			}
			if err != nil {
				return fmt.Errorf("change %d of stream %s: %w", binary.BigEndian.Uint64(key), id, err)
			}
			changed = append(changed, row)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return changed, last, nil
}

// change gives a stream the next number of all changes, instead of old (0 = none).
func change(tx *bbolt.Tx, id pos.StreamID, old uint64) (uint64, error) {
	b := tx.Bucket(bChanges)
	seq, err := b.NextSequence()
	if err != nil {
		return 0, err
	}
	if err := b.Delete(number(old)); err != nil {
		return 0, err
	}
	return seq, b.Put(number(seq), []byte(id))
}

// CreateStream implements port.Metadata.
func (s *Store) CreateStream(ctx context.Context, row port.Stream) (port.Stream, error) {
	err := s.update(ctx, "create stream", row.ID.String(), func(tx *bbolt.Tx) (err error) {
		if err := port.CheckStream(row); err != nil {
			return err
		}
		key := []byte(row.ID)
		if tx.Bucket(bStreams).Get(key) != nil || tx.Bucket(bGone).Get(key) != nil {
			return fmt.Errorf("the id was used before: %w", port.Conflict)
		}
		names := tx.Bucket(bNames)
		if other := names.Get([]byte(row.Name)); other != nil {
			return fmt.Errorf("the name %q is taken by %s: %w", row.Name, other, port.Conflict)
		}
		row.Revision = 1
		if row.Seq, err = change(tx, row.ID, 0); err != nil {
			return err
		}
		if err := names.Put([]byte(row.Name), key); err != nil {
			return err
		}
		return store(tx, bStreams, row.ID.String(), row)
	})
	if err != nil {
		return port.Stream{}, err
	}
	return row, nil
}

// SwapStreams implements port.Metadata.
func (s *Store) SwapStreams(ctx context.Context, rows []port.Stream) error {
	what := ""
	if len(rows) > 0 {
		what = rows[0].ID.String()
	}
	return s.update(ctx, "swap streams", what, func(tx *bbolt.Tx) error {
		for _, row := range rows {
			if err := swapStream(tx, row); err != nil {
				return fmt.Errorf("stream %s: %w", row.ID, err)
			}
		}
		return nil
	})
}

func swapStream(tx *bbolt.Tx, row port.Stream) error {
	var old port.Stream
	err := mustLoad(tx, bStreams, row.ID.String(), &old)
	switch {
	case err != nil:
		return err
	case old.Revision != row.Revision:
		return fmt.Errorf("revision %s is stored, not %s: %w", old.Revision, row.Revision, port.Conflict)
	case row.Epoch < old.Epoch:
		return fmt.Errorf("epoch %s is stored, %s is less: %w", old.Epoch, row.Epoch, port.Conflict)
	}
	row.Name, row.Created, row.Revision = old.Name, old.Created, old.Revision+1
	if row.Seq, err = change(tx, row.ID, old.Seq); err != nil {
		return err
	}
	return store(tx, bStreams, row.ID.String(), row)
}

// DeleteStream implements port.Metadata.
func (s *Store) DeleteStream(ctx context.Context, id pos.StreamID, revision pos.Revision) error {
	return s.update(ctx, "delete stream", id.String(), func(tx *bbolt.Tx) error {
		var row port.Stream
		if err := mustLoad(tx, bStreams, id.String(), &row); err != nil {
			return err
		}
		if row.Revision != revision {
			return fmt.Errorf("revision %s is stored, not %s: %w", row.Revision, revision, port.Conflict)
		}
		seq, err := change(tx, id, row.Seq)
		if err != nil {
			return err
		}
		for _, bucket := range [][]byte{bStreams, bPointers, bAnchors} {
			if err := tx.Bucket(bucket).Delete([]byte(id)); err != nil {
				return err
			}
		}
		if err := tx.Bucket(bNames).Delete([]byte(row.Name)); err != nil {
			return err
		}
		gone := port.Stream{ID: id, Name: row.Name, Phase: port.PhaseDeleted, Seq: seq}
		if err := store(tx, bGone, id.String(), gone); err != nil {
			return err
		}
		return store(tx, bDeletions, id.String(), port.Deletion{Stream: id, Name: row.Name, Seq: seq})
	})
}

// Deletions implements port.Metadata.
func (s *Store) Deletions(ctx context.Context) ([]port.Deletion, error) {
	var queue []port.Deletion
	err := s.view(ctx, "deletions", "", func(tx *bbolt.Tx) (err error) {
		queue, err = loadAll[port.Deletion](tx, bDeletions)
		return err
	})
	slices.SortFunc(queue, func(a, b port.Deletion) int { return cmp.Compare(a.Seq, b.Seq) })
	return queue, err
}

// FinishDeletion implements port.Metadata.
func (s *Store) FinishDeletion(ctx context.Context, id pos.StreamID) error {
	return s.update(ctx, "finish deletion", id.String(), func(tx *bbolt.Tx) error {
		return tx.Bucket(bDeletions).Delete([]byte(id))
	})
}
