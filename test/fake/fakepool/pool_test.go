package fakepool

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/test/fake/fakekeyring"
	"millrace/test/fake/fakestore"
	"millrace/test/porttest/pooltest"
	"millrace/test/porttest/storetest"
)

const connections = 3

func TestContract(t *testing.T) {
	pooltest.Run(t, connections, func(*testing.T) pooltest.Rig {
		p := New(connections)
		return pooltest.Rig{
			Pool: p,
			Operate: func(ctx context.Context) error {
				return p.Do(ctx, "get", "a", func(context.Context) error { return nil })
			},
			Held: func(ctx context.Context, begun chan<- struct{}, release <-chan struct{}) error {
				return p.Do(ctx, "get", "a", func(ctx context.Context) error {
					begun <- struct{}{}
					select {
					case <-release:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			},
		}
	})
}

// The store behind a pool is the store.
func TestTheStoreBehindItKeepsItsContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) port.ObjectStore {
		keys, pool := fakekeyring.New(0), New(connections)
		c, err := keys.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		keys.Use(c)
		pool.Open()
		return Behind(fakestore.New(), pool, keys)
	})
}

func TestWithoutKeysOrPoolNothingReachesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, pool, inner := fakekeyring.New(0), New(1), fakestore.New()
		asked := 0
		inner.Fault = func(string, string) error { asked++; return nil }
		store := Behind(inner, pool, keys)
		check := func(says string) {
			t.Helper()
			if _, err := store.Get(t.Context(), "a"); port.ClassOf(err) != port.Unavailable || !strings.Contains(err.Error(), says) || asked != 0 {
				t.Errorf("%v, the store was asked %d times", err, asked)
			}
		}
		check("not open")
		pool.Open()
		check("no credentials")
		c, err := keys.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		keys.Use(c)
		keys.Revoke()
		check("refuses key-1")
	})
}

// A pool that closes cuts off what waits in the store.
func TestClosingCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, pool, inner := fakekeyring.New(0), New(1), fakestore.New()
		inner.Latency = func(string, string) time.Duration { return time.Hour }
		c, err := keys.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		keys.Use(c)
		pool.Open()
		time.AfterFunc(time.Minute, pool.Close)
		began := time.Now()
		_, err = Behind(inner, pool, keys).Get(t.Context(), "a")
		if port.ClassOf(err) != port.Unavailable || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
