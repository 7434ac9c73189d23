package node

import (
	"context"
	"errors"
	"strings"
	"time"

	"millrace/actors/port"
)

// metered counts what goes through an object store, whichever backend it is.
type metered struct {
	port.ObjectStore
	metrics   port.Metrics
	durations port.Durations
}

// The kinds of requests whose durations are told apart.
const (
	kindRead  = "read"
	kindWrite = "write"
)

// meter wraps a store. durations may be nil.
func meter(store port.ObjectStore, metrics port.Metrics, durations port.Durations) port.ObjectStore {
	if durations == nil {
		durations = noDurations{}
	}
	return &metered{ObjectStore: store, metrics: metrics, durations: durations}
}

type noDurations struct{}

func (noDurations) Observe(string, float64, ...string) {}

// done accounts for a request that has ended.
func (m *metered) done(ctx context.Context, op, kind string, began time.Time, err error) {
	m.metrics.Count("store_requests_total", 1, "op", op)
	m.durations.Observe("store_request_duration_seconds", time.Since(began).Seconds(), "kind", kind)
	if err != nil {
		m.metrics.Count("store_errors_total", 1, "op", op, "class", errorClass(ctx, err))
	}
}

// errorClass names what failed. What its asker gave up is no failure of the store.
func errorClass(ctx context.Context, err error) string {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return "cancelled"
	}
	return strings.ReplaceAll(port.ClassOf(err).String(), " ", "_")
}

func (m *metered) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	began := time.Now()
	err := m.ObjectStore.Put(ctx, key, body, size, ifAbsent)
	m.done(ctx, "put", kindWrite, began, err)
	if err == nil {
		m.metrics.Count("store_sent_bytes_total", size)
	}
	return err
}

func (m *metered) Get(ctx context.Context, key string) ([]byte, error) {
	began := time.Now()
	body, err := m.ObjectStore.Get(ctx, key)
	m.done(ctx, "get", kindRead, began, err)
	m.metrics.Count("store_received_bytes_total", int64(len(body)))
	return body, err
}

func (m *metered) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	began := time.Now()
	body, err := m.ObjectStore.GetRange(ctx, key, off, n)
	m.done(ctx, "get_range", kindRead, began, err)
	m.metrics.Count("store_received_bytes_total", int64(len(body)))
	return body, err
}

func (m *metered) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	began := time.Now()
	failed, err := m.ObjectStore.Delete(ctx, keys)
	m.done(ctx, "delete", kindWrite, began, err)
	return failed, err
}

func (m *metered) List(ctx context.Context, prefix, after string, limit int) ([]port.ObjectInfo, bool, error) {
	began := time.Now()
	keys, more, err := m.ObjectStore.List(ctx, prefix, after, limit)
	m.done(ctx, "list", kindRead, began, err)
	return keys, more, err
}

func (m *metered) Probe(ctx context.Context) error {
	began := time.Now()
	err := m.ObjectStore.Probe(ctx)
	m.done(ctx, "probe", kindRead, began, err)
	return err
}
