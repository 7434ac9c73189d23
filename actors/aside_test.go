package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

// stubborn is an error whose text is got in a way of its own.
type stubborn func() string

func (s stubborn) Error() string { return s() }

// told is a value with a text that is no error.
type told struct{ text string }

func (t told) String() string { return t.text }

// level is a number with a text, and plain one without.
type level int

func (l level) String() string { return fmt.Sprint("level ", int(l)) }

type plain float64

// ledger has no text, and a map that somebody else may be writing.
type ledger map[string][]int

// blocked answers when free closes.
func blocked(free <-chan struct{}) stubborn {
	return func() string { <-free; return "late" }
}

// A crash tells what was panicked with, at once, and where, whatever that value does when
// it is asked.
func TestTheTextOfAPanic(t *testing.T) {
	var free chan struct{}
	var none map[string]int
	for want, crash := range map[string]func(){
		"boom":                             func() { panic("boom") },
		"an error":                         func() { panic(errors.New("an error")) },
		"its text":                         func() { panic(told{"its text"}) },
		"level 3":                          func() { panic(level(3)) },
		"2.5":                              func() { panic(plain(2.5)) },
		"true":                             func() { panic(true) },
		"assignment to entry in nil map":   func() { none["x"] = 1 },
		"start a: ":                        func() { panic(&actors.StartError{Path: "a"}) },
		"a value of type actors_test.ledg": func() { panic(ledger{}) },
		"a value of type *actors_test.led": func() { panic(&ledger{}) },
		"actors_test.stubborn, whose text can't be had: asking for it panics":               func() { panic(stubborn(func() string { panic("again") })) },
		"*actors_test.told, whose text can't be had: asking for it panics":                  func() { panic((*told)(nil)) },
		"actors_test.stubborn, whose text can't be had: asking for it calls runtime.Goexit": func() { panic(stubborn(func() string { runtime.Goexit(); return "" })) },
		"actors_test.stubborn, whose text can't be had: it does not come within 100ms":      func() { panic(blocked(free)) },
		"panic called with nil argument":                                                    func() { panic(nil) },
		"runtime error: invalid memory address or nil pointer dereference":                  func() { panic((*told)(nil).text) },
		"runtime error: index out of range [7] with length 0":                               func() { panic([]int{}[len(none)+7]) },
		"interface conversion: interface {} is string, not int":                             func() { panic(any("x").(int)) },
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(t *testing.T, sys *actors.System) {
				free = make(chan struct{})
				defer close(free)
				h := start(t, sys, "a", &script{handle: func(*actors.Context, any) *actors.Reason { crash(); return nil }})
				began := time.Now()
				h.Send("go")
				<-h.Done()
				why, took := h.Reason(), time.Since(began)
				if why.Kind != actors.Crash || !strings.HasPrefix(why.Detail, want) || !strings.Contains(why.Stack, "aside_test.go") {
					t.Errorf("it ended with %v and the stack %.80q", why, why.Stack)
				}
				if atOnce := !strings.Contains(want, "100ms"); atOnce != (took == 0) || took > 100*time.Millisecond {
					t.Errorf("that took %v", took)
				}
			})
		})
	}
}

// reluctant is an error that does as its function says when it is compared.
type reluctant func(error) bool

func (r reluctant) Error() string { return "reluctant" }

func (r reluctant) Is(target error) bool { return r(target) }

// An error that Init returns is asked once, and not by who waits for the start: what comes
// of it can neither hang nor end the parent.
func TestTheErrorOfAnInit(t *testing.T) {
	for want, fails := range map[string]func(free <-chan struct{}) error{
		"once": func(<-chan struct{}) error {
			asked := false
			return stubborn(func() string {
				if asked {
					runtime.Goexit()
				}
				asked = true
				return "once"
			})
		},
		"actors_test.stubborn, whose text can't be had: asking for it panics": func(<-chan struct{}) error { return stubborn(nil) },
		"actors_test.stubborn, whose text can't be had: asking for it calls runtime.Goexit": func(<-chan struct{}) error {
			return stubborn(func() string { runtime.Goexit(); return "" })
		},
		"actors_test.stubborn, whose text can't be had: it does not come within 100ms": func(free <-chan struct{}) error { return blocked(free) },
		"actors_test.reluctant, whose text can't be had: it does not come within 100ms": func(free <-chan struct{}) error {
			return reluctant(func(error) bool { <-free; return false })
		},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(t *testing.T, sys *actors.System) {
				free := make(chan struct{})
				defer close(free)
				asker := start(t, sys, "asker", &script{handle: func(c *actors.Context, _ any) *actors.Reason {
					_, err := sys.Start(c.Done(), actors.Spec{Path: "a", Parent: c.Self(), New: func() actors.Process {
						return &script{init: func(*actors.Context) error { return fails(free) }}
					}})
					var failed *actors.StartError
					if !errors.As(err, &failed) || err.Error() != "start a: "+want || failed.Err == nil || failed.Reason.String() != "crash: "+want {
						t.Errorf("the start gave %v", err)
					}
					return actors.Exit(actors.Normal, "")
				}})
				began := time.Now()
				asker.Send("go")
				<-asker.Done()
				if took := time.Since(began); asker.Reason().Kind != actors.Normal || took > 100*time.Millisecond {
					t.Errorf("the parent ended with %v after %v", asker.Reason(), took)
				}
			})
		})
	}
}

// What is done aside harms nobody, and is waited for as long as it may be.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, done := make(chan struct{}), false
		for name, tc := range map[string]struct {
			f    func()
			took time.Duration
		}{
			"returns": {func() { <-time.After(99 * time.Millisecond); done = true }, 99 * time.Millisecond},
			"panics":  {func() { panic("boom") }, 0},
			"goexits": {runtime.Goexit, 0},
			"blocks":  {func() { <-free }, 100 * time.Millisecond},
		} {
			began := time.Now()
			actors.Aside(tc.f)
			if took := time.Since(began); took != tc.took {
				t.Errorf("what %s took %v, want %v", name, took, tc.took)
			}
		}
		if !done {
			t.Error("what returns was not waited for")
		}
		close(free)
	})
}

// A process that is killed while its panic is being asked for a text has ended.
func TestKillWhileATextBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		free := make(chan struct{})
		h := start(t, sys, "a", &script{init: func(c *actors.Context) error {
			c.Task("t", func(context.Context) any { panic(blocked(free)) })
			return nil
		}})
		synctest.Wait()
		h.Kill()
		if !isClosed(h.Done()) || isClosed(h.Gone()) || h.Reason().Kind != actors.Killed {
			t.Errorf("ended %v, gone %v, with %v", isClosed(h.Done()), isClosed(h.Gone()), h.Reason())
		}
		pass(100 * time.Millisecond)
		if !isDone(h.Gone()) {
			t.Error("a text that does not come keeps the process from being gone")
		}
		close(free)
	})
}
