package fakepool

import (
	"context"

	"millrace/actors/port"
)

// Signer says what requests are signed with; fakekeyring.Keyring is one.
type Signer interface {
	// Sign returns the credentials in use, or the error of a request without any.
	Sign(op, key string) (port.Credentials, error)
	// Check is the far side's view of them, asked when the request ends: nil if it takes them.
	Check(op, key string, c port.Credentials) error
}

// Behind returns store as it is reached through a pool, by requests that are signed.
func Behind(store port.ObjectStore, pool *Pool, keys Signer) port.ObjectStore {
	return &reached{store, pool, keys}
}

type reached struct {
	store port.ObjectStore
	pool  *Pool
	keys  Signer
}

// do signs, takes a connection and runs one operation.
func (r *reached) do(ctx context.Context, op, key string, f func(ctx context.Context) error) error {
	return r.pool.Do(ctx, op, key, func(ctx context.Context) error {
		signed, err := r.keys.Sign(op, key)
		if err != nil {
			return err
		}
		if err := r.keys.Check(op, key, signed); err != nil {
			return err
		}
		return f(ctx)
	})
}

// Put implements port.ObjectStore.
func (r *reached) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	return r.do(ctx, "put", key, func(ctx context.Context) error {
		return r.store.Put(ctx, key, body, size, ifAbsent)
	})
}

// Get implements port.ObjectStore.
func (r *reached) Get(ctx context.Context, key string) ([]byte, error) {
	return read(ctx, r, "get", key, func(ctx context.Context) ([]byte, error) { return r.store.Get(ctx, key) })
}

// GetRange implements port.ObjectStore.
func (r *reached) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return read(ctx, r, "getrange", key, func(ctx context.Context) ([]byte, error) { return r.store.GetRange(ctx, key, off, n) })
}

// Delete implements port.ObjectStore.
func (r *reached) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	return read(ctx, r, "delete", first, func(ctx context.Context) ([]port.DeleteError, error) { return r.store.Delete(ctx, keys) })
}

// List implements port.ObjectStore.
func (r *reached) List(ctx context.Context, prefix, after string, max int) ([]port.ObjectInfo, bool, error) {
	type page struct {
		keys []port.ObjectInfo
		more bool
	}
	p, err := read(ctx, r, "list", prefix, func(ctx context.Context) (p page, err error) {
		p.keys, p.more, err = r.store.List(ctx, prefix, after, max)
		return p, err
	})
	return p.keys, p.more, err
}

// Probe implements port.ObjectStore.
func (r *reached) Probe(ctx context.Context) error {
	return r.do(ctx, "probe", "", r.store.Probe)
}

// read is do for an operation with a result.
func read[T any](ctx context.Context, r *reached, op, key string, f func(ctx context.Context) (T, error)) (got T, err error) {
	err = r.do(ctx, op, key, func(ctx context.Context) (err error) {
		got, err = f(ctx)
		return err
	})
	return got, err
}
