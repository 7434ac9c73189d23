package pools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/test/fake/fakepool"
)

type metrics struct {
	mu     sync.Mutex
	values map[string]float64
}

func (m *metrics) Count(name string, delta int64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[fmt.Sprint(name, labels)] += float64(delta)
}

func (m *metrics) Gauge(name string, value float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[fmt.Sprint(name, labels)] = value
}

func (m *metrics) Forget(...string) {}

// shows demands all values, in the order max, open, in use, waiting, waits.
func (m *metrics) shows(t *testing.T, figures ...float64) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[string]float64{"pool_waits_total[pool upload]": figures[4]}
	for i, state := range []string{"max", "open", "in_use", "waiting"} {
		want[fmt.Sprintf("pool_connections[pool upload state %s]", state)] = figures[i]
	}
	if !maps.Equal(m.values, want) {
		t.Errorf("metrics are %v, want %v", m.values, want)
	}
}

func inBubble(t *testing.T, f func(start func(p port.Pool) *actors.Handle, m *metrics)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sys, m := actors.NewSystem(7), &metrics{values: map[string]float64{}}
		defer sys.Close()
		f(func(p port.Pool) *actors.Handle {
			h, err := sys.Start(context.Background(), actors.Spec{Path: "pool", New: func() actors.Process {
				return New(Config{Name: "upload", Pool: p, Metrics: m})
			}})
			if err != nil {
				t.Fatal(err)
			}
			return h
		}, m)
	})
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// hold carries out an operation of that length.
func hold(p *fakepool.Pool, d time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- p.Do(context.Background(), "put", "a", func(ctx context.Context) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	synctest.Wait() // it has its connection, or its place in the queue
	return done
}

func TestThePoolIsOpenWhileItRuns(t *testing.T) {
	inBubble(t, func(start func(port.Pool) *actors.Handle, m *metrics) {
		p := fakepool.New(2)
		if err := <-hold(p, 0); port.ClassOf(err) != port.Unavailable {
			t.Fatal(err)
		}
		h := start(p)
		m.shows(t, 2, 0, 0, 0, 0) // the counter is there before its first count
		first, second, third := hold(p, time.Minute), hold(p, 12*time.Second), hold(p, time.Minute)
		pass(5 * time.Second)
		m.shows(t, 2, 2, 2, 1, 0)
		if s := h.Status().(port.PoolStats); s != p.Stats() || s.Waiting != 1 {
			t.Errorf("status %+v", s)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
		pass(5 * time.Second)
		m.shows(t, 2, 2, 2, 0, 1)
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		<-h.Done()
		for _, cut := range []<-chan error{first, third} {
			if err := <-cut; port.ClassOf(err) != port.Unavailable {
				t.Errorf("cut off: %v", err)
			}
		}
		m.shows(t, 0, 0, 0, 0, 1)
	})
}

// One that is killed closes the pool too, before its successor opens it; what was counted
// is not counted again.
func TestKilledAndSucceeded(t *testing.T) {
	inBubble(t, func(start func(port.Pool) *actors.Handle, m *metrics) {
		p := fakepool.New(1)
		h := start(p)
		first, second := hold(p, time.Second), hold(p, time.Hour)
		pass(10 * time.Second)
		if err := <-first; err != nil {
			t.Error(err)
		}
		h.Kill()
		<-h.Done()
		if err := <-second; port.ClassOf(err) != port.Unavailable {
			t.Errorf("cut off: %v", err)
		}
		if err := <-hold(p, 0); port.ClassOf(err) != port.Unavailable {
			t.Errorf("in between: %v", err)
		}
		start(p)
		if err := <-hold(p, 0); err != nil {
			t.Error(err)
		}
		pass(10 * time.Second)
		m.shows(t, 1, 1, 0, 0, 1)
	})
}

func TestWithoutAPoolItIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, m := actors.NewSystem(7), &metrics{values: map[string]float64{}}
		defer sys.Close()
		_, err := sys.Start(context.Background(), actors.Spec{Path: "pool", New: func() actors.Process {
			return New(Config{Name: "upload", Metrics: m})
		}})
		if !errors.Is(err, actors.ErrIgnore) || len(m.values) != 0 {
			t.Fatalf("%v, metrics %v", err, m.values)
		}
	})
}
