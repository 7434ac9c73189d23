package actors_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

func TestCallIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		var kept *actors.Request
		h := start(t, sys, "a", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			r := msg.(*actors.Request)
			switch r.Body {
			case "now":
				r.Reply("answer")
				r.Reply("another answer")
			case "fail":
				r.Fail(errors.New("no"))
			case "later":
				kept = r
				c.Task("t", func(context.Context) any { pass(time.Second); kept.Reply("late"); return nil })
			}
			return nil
		}})
		for body, want := range map[string]string{"now": "answer <nil>", "fail": "<nil> no", "later": "late <nil>"} {
			answer, err := h.Call(context.Background(), body)
			if got := fmt.Sprint(answer, " ", err); got != want {
				t.Errorf("%s gave %q, want %q", body, got, want)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := h.Call(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without an answer gave %v", err)
		}
	})
}

// However a process ends, whoever asked it gets an answer.
func TestAskingTheDeadNeverHangs(t *testing.T) {
	ways := map[string]struct {
		end  func(*actors.Handle)
		kind actors.Kind
	}{
		"stop":  {func(h *actors.Handle) { h.Stop(actors.Reason{Kind: actors.Shutdown}) }, actors.Shutdown},
		"kill":  {(*actors.Handle).Kill, actors.Killed},
		"crash": {func(h *actors.Handle) { h.Send("crash") }, actors.Crash},
		"quit":  {func(h *actors.Handle) { h.Send("quit") }, actors.Normal},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, sys *actors.System) {
				l := &log{}
				refs := map[actors.Ref]string{}
				h := start(t, sys, "a", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
					switch msg {
					case "crash":
						panic("boom")
					case "quit":
						return actors.Exit(actors.Normal, "")
					}
					return nil // keeps every request
				}})
				asker := start(t, sys, "asker", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
					if r, ok := msg.(actors.Reply); ok {
						l.add("%s %v", refs[r.Ref], deadKind(t, r.Err))
						return nil
					}
					refs[c.Request(h, msg)] = msg.(string)
					return nil
				}})
				asker.Send("one")
				asker.Send("two")
				answers := make(chan error)
				start(t, sys, "caller", &script{init: func(c *actors.Context) error {
					c.Task("call", func(ctx context.Context) any {
						_, err := h.Call(context.Background(), "x")
						answers <- err
						return nil
					})
					return nil
				}})
				synctest.Wait()
				way.end(h)
				if got := deadKind(t, <-answers); got != way.kind {
					t.Errorf("the call gave %v, want %v", got, way.kind)
				}
				synctest.Wait()
				l.want(t, "one "+way.kind.String(), "two "+way.kind.String())
				asker.Send("three")
				synctest.Wait()
				l.want(t, "three "+way.kind.String())
				if _, err := h.Call(context.Background(), "x"); deadKind(t, err) != way.kind {
					t.Errorf("a call to the dead gave %v", err)
				}
			})
		})
	}
	t.Run("nil", func(t *testing.T) {
		var h *actors.Handle
		if _, err := h.Call(context.Background(), "x"); deadKind(t, err) != actors.NoProc {
			t.Errorf("a call to no process gave %v", err)
		}
		if h.Send("x") || h.Alive() {
			t.Error("no process took a message")
		}
	})
}

// A stopping process refuses a question at once; one it did not get to is answered when
// it has ended.
func TestQuestionsAtAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l := &log{}
		free := make(chan struct{})
		h := start(t, sys, "a", &script{handle: func(*actors.Context, any) *actors.Reason { <-free; return nil }})
		asker := start(t, sys, "asker", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			if r, ok := msg.(actors.Reply); ok {
				l.add("%v", deadKind(t, r.Err))
			} else {
				c.Request(h, msg)
			}
			return nil
		}})
		h.Send("block")
		synctest.Wait()
		asker.Send("queued")
		synctest.Wait()
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		asker.Send("refused")
		synctest.Wait()
		l.want(t, "noproc")
		close(free)
		synctest.Wait()
		l.want(t, "shutdown")
	})
}

// A zombie's answer comes too late: the kill has answered.
func TestAZombieDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l := &log{}
		free := make(chan struct{})
		h := start(t, sys, "a", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
			<-free
			msg.(*actors.Request).Reply("from beyond")
			return nil
		}})
		asker := start(t, sys, "asker", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			if r, ok := msg.(actors.Reply); ok {
				l.add("%v", r.Err != nil)
			} else {
				c.Request(h, msg)
			}
			return nil
		}})
		asker.Send("x")
		synctest.Wait()
		h.Kill()
		close(free)
		synctest.Wait()
		l.want(t, "true")
	})
}

func TestDownFollowsTheLastMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		const n = 1000
		var got []any
		watcher := start(t, sys, "watcher", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			if h, ok := msg.(*actors.Handle); ok {
				c.Monitor(h)
			} else {
				got = append(got, msg)
			}
			return nil
		}})
		h := start(t, sys, "a", &script{handle: func(*actors.Context, any) *actors.Reason {
			for i := range n {
				watcher.Send(i)
			}
			return actors.Exit(actors.Normal, "")
		}, terminate: func(*actors.Context, actors.Reason) { watcher.Send(n) }})
		watcher.Send(h)
		synctest.Wait()
		h.Send("go")
		synctest.Wait()
		if len(got) != n+2 {
			t.Fatalf("got %d messages, want %d", len(got), n+2)
		}
		for i := range n + 1 {
			if got[i] != i {
				t.Fatalf("message %d is %v", i, got[i])
			}
		}
		if d, ok := got[n+1].(actors.Down); !ok || d.Path != "a" || d.Reason.Kind != actors.Normal {
			t.Errorf("the last message is %v", got[n+1])
		}
	})
}

func TestMonitorsOfTheDead(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l := &log{}
		dead := start(t, sys, "dead", &script{})
		dead.Kill()
		watcher := start(t, sys, "watcher", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			switch m := msg.(type) {
			case actors.Down:
				l.add("%s %v", m.Path, m.Reason.Kind)
			case string:
				c.Monitor(dead)
				c.Monitor(nil)
			}
			return nil
		}})
		watcher.Send("go")
		synctest.Wait()
		l.want(t, "dead noproc", "(no process) noproc")
	})
}

// The monitors of a process that ended are taken off those it monitored.
func TestMonitorsEndWithTheirHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		target := start(t, sys, "target", &script{})
		for i := range 100 {
			h := start(t, sys, fmt.Sprint(i), &script{init: func(c *actors.Context) error { c.Monitor(target); return nil }})
			h.Stop(actors.Reason{Kind: actors.Shutdown})
			<-h.Done()
		}
		if n := actors.Watchers(target); n != 0 {
			t.Errorf("%d monitors are left", n)
		}
	})
}

func TestRequestsAreTakenOffWhenAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		h := start(t, sys, "a", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
			if r := msg.(*actors.Request); r.Body != "keep" {
				r.Reply(r.Body)
			}
			return nil
		}})
		asker := start(t, sys, "asker", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			if _, ok := msg.(actors.Reply); !ok {
				c.Request(h, msg)
			}
			return nil
		}})
		for i := range 100 {
			asker.Send(i)
			asker.Send("keep")
		}
		synctest.Wait()
		if n := actors.Open(h); n != 100 {
			t.Errorf("%d requests are open, want 100", n)
		}
	})
}

func TestNilIsNoMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		h := start(t, sys, "a", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
			t.Errorf("got %v", msg)
			return nil
		}})
		if h.Send(nil) {
			t.Error("nil was sent")
		}
		synctest.Wait()
	})
}
