package metadb

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Pointer implements port.Metadata.
func (s *Store) Pointer(ctx context.Context, id pos.StreamID) (port.Pointer, error) {
	var found port.Pointer
	err := s.view(ctx, "pointer", id.String(), func(tx *bbolt.Tx) error {
		return mustLoad(tx, bPointers, id.String(), &found)
	})
	return found, err
}

// SwapPointer implements port.Metadata.
func (s *Store) SwapPointer(ctx context.Context, id pos.StreamID, expected pos.Revision, next port.Pointer) error {
	return s.update(ctx, "swap pointer", id.String(), func(tx *bbolt.Tx) error {
		if tx.Bucket(bStreams).Get([]byte(id)) == nil {
			return port.NotFound
		}
		var old port.Pointer
		if _, err := load(tx, bPointers, id.String(), &old); err != nil {
			return err
		}
		used := pos.Revision(loadNumber(tx, bUsed, id.String()))
		switch {
		case old.Revision != expected:
			return fmt.Errorf("revision %s is stored, not %s: %w", old.Revision, expected, port.Conflict)
		case next.Revision <= max(expected, used):
			return fmt.Errorf("revision %s was used before, %s is the highest: %w", next.Revision, max(expected, used), port.Conflict)
		case next.Epoch < old.Epoch:
			return fmt.Errorf("epoch %s is stored, %s is less: %w", old.Epoch, next.Epoch, port.Conflict)
		}
		if err := tx.Bucket(bUsed).Put([]byte(id), number(uint64(next.Revision))); err != nil {
			return err
		}
		return store(tx, bPointers, id.String(), next)
	})
}

// Anchored implements port.Metadata.
func (s *Store) Anchored(ctx context.Context, id pos.StreamID) (bool, error) {
	anchored := false
	err := s.view(ctx, "anchored", id.String(), func(tx *bbolt.Tx) error {
		anchored = tx.Bucket(bAnchors).Get([]byte(id)) != nil
		return nil
	})
	return anchored, err
}

// PutAnchor implements port.Metadata.
func (s *Store) PutAnchor(ctx context.Context, id pos.StreamID) error {
	return s.update(ctx, "put anchor", id.String(), func(tx *bbolt.Tx) error {
		if tx.Bucket(bStreams).Get([]byte(id)) == nil {
			return port.NotFound
		}
		return tx.Bucket(bAnchors).Put([]byte(id), []byte{})
	})
}

// Capture implements port.Metadata.
func (s *Store) Capture(ctx context.Context, name string) (port.Capture, error) {
	var found port.Capture
	err := s.view(ctx, "capture", name, func(tx *bbolt.Tx) error {
		return mustLoad(tx, bCaptures, name, &found)
	})
	return found, err
}

// SwapCapture implements port.Metadata.
func (s *Store) SwapCapture(ctx context.Context, c port.Capture) error {
	return s.update(ctx, "swap capture", c.Name, func(tx *bbolt.Tx) error {
		var old port.Capture
		if _, err := load(tx, bCaptures, c.Name, &old); err != nil {
			return err
		}
		if old.Revision != c.Revision {
			return fmt.Errorf("revision %s is stored, not %s: %w", old.Revision, c.Revision, port.Conflict)
		}
		next := c
		next.Revision++
		return store(tx, bCaptures, c.Name, next)
	})
}

// DeleteCapture implements port.Metadata.
func (s *Store) DeleteCapture(ctx context.Context, name string) error {
	return s.update(ctx, "delete capture", name, func(tx *bbolt.Tx) error {
		return tx.Bucket(bCaptures).Delete([]byte(name))
	})
}

// Setting implements port.Metadata.
func (s *Store) Setting(ctx context.Context, key string) (string, error) {
	var value string
	err := s.view(ctx, "setting", key, func(tx *bbolt.Tx) error {
		b := tx.Bucket(bSettings).Get([]byte(key))
		if b == nil {
			return port.NotFound
		}
		value = string(b)
		return nil
	})
	return value, err
}

// PutSetting implements port.Metadata.
func (s *Store) PutSetting(ctx context.Context, key, value string) error {
	return s.update(ctx, "put setting", key, func(tx *bbolt.Tx) error {
		return tx.Bucket(bSettings).Put([]byte(key), []byte(value))
	})
}
