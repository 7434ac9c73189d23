package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

// A crash of any sort, anywhere, ends the process with its stack and nothing else.
func TestCrashes(t *testing.T) {
	sorts := map[string]func(){
		"panic":  func() { panic("boom") },
		"nil":    func() { panic(nil) },
		"goexit": runtime.Goexit,
	}
	for sort, crash := range sorts {
		places := map[string]*script{
			"handle": {handle: func(*actors.Context, any) *actors.Reason { crash(); return nil }},
			"terminate": {
				handle:    func(*actors.Context, any) *actors.Reason { return actors.Exit(actors.Normal, "") },
				terminate: func(*actors.Context, actors.Reason) { crash() },
			},
			"both": {
				handle:    func(*actors.Context, any) *actors.Reason { crash(); return nil },
				terminate: func(*actors.Context, actors.Reason) { crash() },
			},
			"task": {handle: func(c *actors.Context, _ any) *actors.Reason {
				c.Task("t", func(context.Context) any { crash(); return nil })
				return nil
			}},
		}
		for place, p := range places {
			t.Run(sort+" in "+place, func(t *testing.T) {
				inBubble(t, func(t *testing.T, sys *actors.System) {
					var terminated actors.Reason
					inner := p.terminate
					p := *p
					p.terminate = func(c *actors.Context, why actors.Reason) {
						terminated = why
						if inner != nil {
							inner(c, why)
						}
					}
					gone := false
					p.init = func(c *actors.Context) error { c.OnGone(func() { gone = true }); return nil }
					h := start(t, sys, "a", &p)
					h.Send("go")
					if !isDone(h.Done()) {
						t.Fatal("the process did not end")
					}
					why := h.Reason()
					if why.Kind != actors.Crash || !strings.Contains(why.Stack, "actors_test") {
						t.Errorf("ended with %v and stack %.80q", why, why.Stack)
					}
					if wantTerminate := place == "terminate"; (terminated.Kind == actors.Normal) != wantTerminate {
						t.Errorf("Terminate got %v", terminated)
					}
					if !gone || sys.Zombies() != 0 {
						t.Errorf("gone %v, %d zombies", gone, sys.Zombies())
					}
				})
			})
		}
	}
}

func TestFinishOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l := &log{}
		parent := start(t, sys, "parent", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
			e := msg.(actors.Exited)
			l.add("parent %v", e.Reason)
			if !isClosed(e.Handle.Done()) {
				l.add("too early")
			}
			return nil
		}})
		watcher := start(t, sys, "watcher", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			switch m := msg.(type) {
			case *actors.Handle:
				c.Monitor(m)
			case actors.Down:
				l.add("down %v", m.Reason)
			}
			return nil
		}})
		ending := make(chan struct{})
		h, err := sys.Start(context.Background(), actors.Spec{Path: "a", Parent: parent, New: func() actors.Process {
			return &script{
				init: func(c *actors.Context) error {
					h := c.Self()
					c.OnExit(func() { l.add("exit 1 %v done %v", h.Reason(), isClosed(h.Done())) })
					c.OnExit(func() { panic("an OnExit function that fails") })
					c.OnExit(func() { l.add("exit 2 alive %v", h.Alive()); <-ending })
					c.OnGone(func() { l.add("gone, done %v", isClosed(h.Done())) })
					return nil
				},
				handle:    func(*actors.Context, any) *actors.Reason { return actors.Exit(actors.Shutdown, "enough") },
				terminate: func(c *actors.Context, why actors.Reason) { l.add("terminate %v alive %v", why, c.Self().Alive()) },
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		watcher.Send(h)
		synctest.Wait()
		h.Send("go")
		synctest.Wait()
		close(ending)
		synctest.Wait()
		got := l.take()
		// Down and Exited are messages to two processes: their handling is not ordered.
		if len(got) == 6 && strings.HasPrefix(got[5], "down") {
			got[4], got[5] = got[5], got[4]
		}
		if len(got) == 6 && strings.HasPrefix(got[3], "gone") && strings.HasPrefix(got[4], "down") {
			got[3], got[4] = got[4], got[3]
		}
		want := []string{
			"terminate shutdown: enough alive true", "exit 2 alive false", "exit 1 shutdown: enough done false",
			"down shutdown: enough", "gone, done false", "parent shutdown: enough",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("order\n%q, want\n%q", got, want)
		}
	})
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestDrainAndDrop(t *testing.T) {
	for _, drain := range []bool{true, false} {
		t.Run(fmt.Sprint(drain), func(t *testing.T) {
			inBubble(t, func(t *testing.T, sys *actors.System) {
				const backlog = 10_000
				lost := countDropped(sys)
				free := make(chan struct{})
				handled, terminated := 0, 0
				h, err := sys.Start(context.Background(), actors.Spec{Path: "a", Drain: drain, New: func() actors.Process {
					return &script{
						handle: func(_ *actors.Context, msg any) *actors.Reason {
							if msg == "wait" {
								<-free
							}
							handled++
							return nil
						},
						terminate: func(*actors.Context, actors.Reason) { terminated = handled },
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				h.Send("wait")
				synctest.Wait()
				for i := range backlog {
					h.Send(i)
				}
				if h.MailboxLen() != backlog {
					t.Errorf("mailbox holds %d, want %d", h.MailboxLen(), backlog)
				}
				h.Stop(actors.Reason{Kind: actors.Shutdown})
				if h.Send("late") {
					t.Error("a stopping process took a message")
				}
				close(free)
				synctest.Wait()
				want, dropped := backlog+1, int64(0)
				if !drain {
					want, dropped = 1, backlog
				}
				if handled != want || terminated != want || lost.Load() != dropped {
					t.Errorf("handled %d, %d of them before terminate, dropped %d; want %d and %d", handled, terminated, lost.Load(), want, dropped)
				}
				if h.MailboxLen() != 0 || h.Reason().Kind != actors.Shutdown {
					t.Errorf("mailbox holds %d, reason %v", h.MailboxLen(), h.Reason())
				}
			})
		})
	}
}

// A drained message may end the process itself, and a crashed task does not wait for it.
func TestDrainIsCutShort(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		free, crash := make(chan struct{}), make(chan struct{})
		handled := 0
		h, err := sys.Start(context.Background(), actors.Spec{Path: "a", Drain: true, New: func() actors.Process {
			return &script{
				init: func(c *actors.Context) error {
					c.Task("t", func(context.Context) any { <-crash; panic("boom") })
					return nil
				},
				handle: func(*actors.Context, any) *actors.Reason { <-free; handled++; return nil },
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			h.Send("x")
		}
		synctest.Wait()
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		close(crash)
		synctest.Wait()
		close(free)
		synctest.Wait()
		if handled != 1 || h.Reason().Kind != actors.Crash {
			t.Errorf("handled %d, ended with %v; want 1 and a crash", handled, h.Reason())
		}
	})
}

func TestStopCancelsTheContextAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		h := start(t, sys, "a", &script{handle: func(c *actors.Context, _ any) *actors.Reason { <-c.Done().Done(); return nil }})
		h.Send("block")
		synctest.Wait()
		h.Stop(actors.Reason{Kind: actors.Shutdown, Detail: "first"})
		h.Stop(actors.Reason{Kind: actors.Shutdown, Detail: "second"})
		if !isDone(h.Done()) || h.Reason().Detail != "first" {
			t.Errorf("ended with %v", h.Reason())
		}
	})
}

func TestKillAbandonsABlockedProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l, dropped := &log{}, countDropped(sys)
		free := make(chan struct{})
		other := start(t, sys, "other", &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
			l.add("other got %v", msg)
			return nil
		}})
		var ctx *actors.Context
		h := start(t, sys, "a", &script{
			init: func(c *actors.Context) error {
				ctx = c
				c.OnExit(func() { l.add("exit") })
				c.OnGone(func() { l.add("gone") })
				return nil
			},
			handle: func(c *actors.Context, msg any) *actors.Reason {
				<-free
				c.After(time.Second, "timer")
				c.Task("t", func(context.Context) any { l.add("a zombie's task ran"); return nil })
				c.Request(other, "question")
				c.Monitor(other)
				c.OnExit(func() { l.add("late exit") })
				c.OnGone(func() { l.add("late gone") })
				l.add("returns")
				return actors.Exit(actors.Normal, "") // which must not bring Terminate about
			},
			terminate: func(*actors.Context, actors.Reason) { l.add("terminate") },
		})
		h.Send("block")
		h.Send("queued")
		synctest.Wait()
		h.Kill()
		l.want(t, "exit")
		if !isClosed(h.Done()) || h.Reason().Kind != actors.Killed || h.Send("x") || sys.Zombies() != 1 || !h.Zombie() {
			t.Errorf("reason %v, zombies %d", h.Reason(), sys.Zombies())
		}
		if ctx.Done().Err() == nil {
			t.Error("the context is not cancelled")
		}
		close(free)
		synctest.Wait()
		l.want(t, "late exit", "returns", "late gone", "gone")
		if sys.Zombies() != 0 || h.Zombie() || !isClosed(h.Gone()) || dropped.Load() != 1 {
			t.Errorf("zombies %d, dropped %d", sys.Zombies(), dropped.Load())
		}
	})
}

// runtime.Goexit takes the mailbox along: what is in it is counted all the same.
func TestBacklogOfALostMailbox(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		free, dropped := make(chan struct{}), countDropped(sys)
		h := start(t, sys, "a", &script{handle: func(*actors.Context, any) *actors.Reason { <-free; runtime.Goexit(); return nil }})
		for range 100 {
			h.Send("x")
		}
		synctest.Wait()
		close(free)
		synctest.Wait()
		if dropped.Load() != 99 || h.MailboxLen() != 0 {
			t.Errorf("dropped %d, mailbox %d", dropped.Load(), h.MailboxLen())
		}
	})
}

// An idle process that is killed was never a zombie.
func TestKillOfAnIdleProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		h := start(t, sys, "a", &script{})
		synctest.Wait()
		h.Kill()
		if !isClosed(h.Gone()) || sys.Zombies() != 0 {
			t.Errorf("gone %v, zombies %d", isClosed(h.Gone()), sys.Zombies())
		}
	})
}

func TestGoneWaitsForTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		free := make(chan struct{})
		gone := false
		h := start(t, sys, "a", &script{init: func(c *actors.Context) error {
			c.Task("t", func(context.Context) any { <-free; return nil })
			c.OnGone(func() { gone = true })
			return nil
		}})
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		if !isDone(h.Done()) || gone || sys.Zombies() != 1 {
			t.Errorf("gone %v, zombies %d", gone, sys.Zombies())
		}
		close(free)
		if !isDone(h.Gone()) || !gone || sys.Zombies() != 0 {
			t.Errorf("gone %v, zombies %d", gone, sys.Zombies())
		}
	})
}

func TestKillTakesChildrenAlong(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		parent := start(t, sys, "p", &script{})
		child, err := sys.Start(context.Background(), actors.Spec{Path: "p/c", Parent: parent, New: func() actors.Process { return &script{} }})
		if err != nil {
			t.Fatal(err)
		}
		parent.Kill()
		if child.Alive() || child.Reason().Kind != actors.Killed {
			t.Errorf("the child ended with %v", child.Reason())
		}
		_, err = sys.Start(context.Background(), actors.Spec{Path: "p/d", Parent: parent, New: func() actors.Process { return &script{} }})
		if err == nil || !strings.Contains(err.Error(), "ended") {
			t.Errorf("start under a dead parent gave %v", err)
		}
	})
}

func TestCloseStopsKillsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		terminated := false
		start(t, sys, "good", &script{terminate: func(*actors.Context, actors.Reason) { terminated = true }})
		free := make(chan struct{})
		bad := start(t, sys, "bad", &script{terminate: func(*actors.Context, actors.Reason) { <-free }})
		began := time.Now()
		sys.Close()
		if !terminated || bad.Reason().Kind != actors.Killed || time.Since(began) != 10*time.Second {
			t.Errorf("terminated %v, bad ended with %v, after %v", terminated, bad.Reason(), time.Since(began))
		}
		if _, err := sys.Start(context.Background(), actors.Spec{Path: "x", New: func() actors.Process { return &script{} }}); err == nil {
			t.Error("a closed system started a process")
		}
		close(free)
		sys.Close()
	})
}
