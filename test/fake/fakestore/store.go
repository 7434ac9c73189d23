package fakestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Store is a port.ObjectStore in memory. The zero value is not usable: New makes one.
//
// The hooks are set before the store is used. op is the method's name in lower case
// ("put", "getrange"), what is the key, the prefix of a listing, or "". A deletion asks
// Fault("deletebatch", first key) for the whole request and Fault("delete", key) for
// each key; an error there is reported for that key alone. Fault is asked before an
// operation and, if it answers an error, instead of it. After is asked when the
// operation has taken effect; its error is returned all the same. A bare port.Class
// sets the class of the error; what has no class becomes Unavailable.
type Store struct {
	Latency func(op, what string) time.Duration // how long the operation takes before Fault; nil = none
	Fault   func(op, what string) error
	After   func(op, what string) error

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	body     []byte
	modified pos.Millis
}

// New returns an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

// Keys returns all keys in lexical order, without asking any hook.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Object returns a copy of the bytes of an object, without asking any hook.
func (s *Store) Object(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[key]
	return bytes.Clone(o.body), ok
}

// Replace sets the bytes of an object, without asking any hook or verifying anything:
// it is how a test damages one.
func (s *Store) Replace(key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = object{bytes.Clone(body), pos.MillisOf(time.Now())}
}

// Drop removes an object, without asking any hook.
func (s *Store) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// do runs one operation between its hooks; f holds the lock.
func (s *Store) do(ctx context.Context, op, what string, f func() error) error {
	if err := s.before(ctx, op, what); err != nil {
		return err
	}
	if err := s.locked(f); err != nil {
		return storeError(op, what, err, port.Unclassified)
	}
	return s.after(op, what)
}

func (s *Store) before(ctx context.Context, op, what string) error {
	if s.Latency != nil {
		timer := time.NewTimer(s.Latency(op, what))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return storeError(op, what, context.Cause(ctx), port.Timeout) // as net/http does
	}
	if s.Fault != nil {
		if err := s.Fault(op, what); err != nil {
			return storeError(op, what, err, port.Unavailable)
		}
	}
	return nil
}

func (s *Store) after(op, what string) error {
	if s.After == nil {
		return nil
	}
	if err := s.After(op, what); err != nil {
		return storeError(op, what, err, port.Unavailable)
	}
	return nil
}

func (s *Store) locked(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// storeError gives err the shape the port demands; other is the class of what has none.
func storeError(op, key string, err error, other port.Class) error {
	if _, ok := errors.AsType[*port.StoreError](err); ok {
		return err
	}
	class := port.ClassOf(err)
	if class == port.Unclassified {
		class = other
	}
	return &port.StoreError{Op: op, Key: key, Class: class, Err: err}
}

func checkKey(op, key string) error {
	if err := port.CheckKey(key); err != nil {
		return &port.StoreError{Op: op, Key: key, Class: port.Denied, Err: err}
	}
	return nil
}

// Put implements port.ObjectStore.
func (s *Store) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	if err := checkKey("put", key); err != nil {
		return err
	}
	if err := s.before(ctx, "put", key); err != nil {
		return err
	}
	if err := body.Rewind(); err != nil {
		return storeError("put", key, err, port.Unclassified)
	}
	b, err := io.ReadAll(io.LimitReader(body, size+1))
	if err != nil {
		return storeError("put", key, err, port.Unclassified)
	}
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	if want, known := body.Sum(); int64(len(b)) != size || !known || sum != want {
		err := fmt.Errorf("announced %d bytes with CRC-32C %08x (known: %v), got %d (or more) with %08x", size, want, known, len(b), sum)
		return storeError("put", key, err, port.Checksum)
	}
	err = s.locked(func() error {
		if _, ok := s.objects[key]; ok && ifAbsent {
			return port.Exists
		}
		s.objects[key] = object{b, pos.MillisOf(time.Now())}
		return nil
	})
	if err != nil {
		return storeError("put", key, err, port.Unclassified)
	}
	return s.after("put", key)
}

// Get implements port.ObjectStore.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.read(ctx, "get", key, func(b []byte) ([]byte, error) {
		if len(b) > port.MaxGet {
			return nil, fmt.Errorf("object has %d bytes, at most %d are handed out: read ranges", len(b), port.MaxGet)
		}
		return b, nil
	})
}

// GetRange implements port.ObjectStore.
func (s *Store) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return s.read(ctx, "getrange", key, func(b []byte) ([]byte, error) {
		if off < 0 || n < 0 || n > port.MaxGet {
			return nil, fmt.Errorf("range of %d bytes at %d: want at most %d bytes, nothing negative", n, off, port.MaxGet)
		}
		off = min(off, int64(len(b)))
		return b[off:min(off+n, int64(len(b)))], nil
	})
}

func (s *Store) read(ctx context.Context, op, key string, part func([]byte) ([]byte, error)) ([]byte, error) {
	if err := checkKey(op, key); err != nil {
		return nil, err
	}
	var b []byte
	err := s.do(ctx, op, key, func() error {
		o, ok := s.objects[key]
		if !ok {
			return port.NotFound
		}
		found, err := part(o.body)
		b = append([]byte{}, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Delete implements port.ObjectStore.
func (s *Store) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	if len(keys) > port.MaxDelete {
		err := fmt.Errorf("%d keys, at most %d are taken at once", len(keys), port.MaxDelete)
		return nil, &port.StoreError{Op: "delete", Key: first, Class: port.Denied, Err: err}
	}
	if err := s.before(ctx, "deletebatch", first); err != nil {
		return nil, err
	}
	var failed []port.DeleteError
	for _, key := range keys {
		if err := s.deleteOne(key); err != nil {
			failed = append(failed, port.DeleteError{Key: key, Err: err})
		}
	}
	return failed, s.after("deletebatch", first)
}

func (s *Store) deleteOne(key string) error {
	if err := checkKey("delete", key); err != nil {
		return err
	}
	if s.Fault != nil {
		if err := s.Fault("delete", key); err != nil {
			return storeError("delete", key, err, port.Unavailable)
		}
	}
	s.Drop(key)
	return s.after("delete", key)
}

// List implements port.ObjectStore.
func (s *Store) List(ctx context.Context, prefix, after string, max int) ([]port.ObjectInfo, bool, error) {
	if max < 1 || max > port.MaxList {
		max = port.MaxList
	}
	var page []port.ObjectInfo
	more := false
	err := s.do(ctx, "list", prefix, func() error {
		for _, key := range slices.Sorted(maps.Keys(s.objects)) {
			if !strings.HasPrefix(key, prefix) || key <= after {
				continue
			}
			if len(page) == max {
				more = true
				return nil
			}
			o := s.objects[key]
			page = append(page, port.ObjectInfo{Key: key, Size: int64(len(o.body)), Modified: o.modified})
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return page, more, nil
}

// Probe implements port.ObjectStore.
func (s *Store) Probe(ctx context.Context) error {
	return s.do(ctx, "probe", "", func() error { return nil })
}

var _ port.ObjectStore = (*Store)(nil)
