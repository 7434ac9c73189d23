package actors_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

// script is a process made of functions; nil ones do nothing.
type script struct {
	init      func(*actors.Context) error
	handle    func(*actors.Context, any) *actors.Reason
	terminate func(*actors.Context, actors.Reason)
}

func (s *script) Init(c *actors.Context) error {
	if s.init == nil {
		return nil
	}
	return s.init(c)
}

func (s *script) Handle(c *actors.Context, msg any) *actors.Reason {
	if s.handle == nil {
		return nil
	}
	return s.handle(c, msg)
}

func (s *script) Terminate(c *actors.Context, why actors.Reason) {
	if s.terminate != nil {
		s.terminate(c, why)
	}
}

// inBubble runs f in a bubble with a system that is closed afterwards; the bubble itself
// fails when a goroutine is left.
func inBubble(t *testing.T, f func(t *testing.T, sys *actors.System)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(7)
		defer sys.Close()
		f(t, sys)
	})
}

func start(t *testing.T, sys *actors.System, path string, p *script) *actors.Handle {
	t.Helper()
	h, err := sys.Start(context.Background(), actors.Spec{Path: path, New: func() actors.Process { return p }})
	if err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return h
}

// countDropped counts the messages that are dropped. Nothing may have been started yet.
func countDropped(sys *actors.System) *atomic.Int64 {
	var all atomic.Int64
	sys.OnDropped(func(n int64) { all.Add(n) })
	return &all
}

// log is a list that any goroutine may append to.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *log) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := l.take(); fmt.Sprint(got) != fmt.Sprint(lines) {
		t.Errorf("log is %q, want %q", got, lines)
	}
}

func deadKind(t *testing.T, err error) actors.Kind {
	t.Helper()
	var dead *actors.DeadError
	if !errors.As(err, &dead) {
		t.Fatalf("error is %v, want a DeadError", err)
	}
	return dead.Reason.Kind
}

// isDone reports whether the channel is closed once everything that can happen has.
func isDone(ch <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// pass lets the bubble's time go by.
func pass(d time.Duration) { <-time.After(d) }
