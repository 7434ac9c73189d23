package actors_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

// A day of a timer per second: a bubble ends only when no goroutine is left in it.
func TestTimersForADay(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		ticks := 0
		h := start(t, sys, "a", &script{
			init: func(c *actors.Context) error { c.After(time.Second, "tick"); return nil },
			handle: func(c *actors.Context, _ any) *actors.Reason {
				ticks++
				c.After(time.Second, "tick")
				return nil
			},
		})
		pass(24*time.Hour + time.Millisecond)
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		<-h.Done()
		if ticks != 86400 {
			t.Errorf("%d ticks in a day", ticks)
		}
	})
}

func TestTimerStops(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l := &log{}
		var last *actors.Timer
		h := start(t, sys, "a", &script{
			handle: func(c *actors.Context, msg any) *actors.Reason {
				l.add("%v", msg)
				switch msg {
				case "queued":
					timer := c.After(time.Second, "stopped after it fired")
					pass(2 * time.Second)
					timer.Stop()
					timer.Stop()
				case "early":
					c.After(time.Second, "stopped before it fired").Stop()
				case "die":
					last = c.After(time.Second, "dies with the process")
					return actors.Exit(actors.Normal, "")
				}
				return nil
			},
		})
		h.Send("queued")
		h.Send("early")
		pass(time.Minute)
		h.Send("die")
		<-h.Done()
		if actors.Pending(last) {
			t.Error("a timer outlives its process")
		}
		l.want(t, "queued", "early", "die")
		var none *actors.Timer
		none.Stop()
	})
}

func TestTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		l := &log{}
		var task *actors.Task
		h := start(t, sys, "a", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			switch msg {
			case "plain":
				c.Task("t", func(context.Context) any { return "result" })
			case "silent":
				c.Task("t", func(context.Context) any { return nil })
			case "long":
				task = c.Task("t", func(ctx context.Context) any { <-ctx.Done(); return context.Cause(ctx).Error() })
			case "cancel":
				task.Cancel(nil)
			case "time over":
				task.Cancel(errors.New("its time was over"))
			default:
				l.add("%v", msg)
			}
			return nil
		}})
		for _, msg := range []string{"plain", "silent", "long", "cancel", "long", "time over"} {
			h.Send(msg)
			synctest.Wait()
		}
		l.want(t, "result", "context canceled", "its time was over")
		if !isClosed(task.Done()) {
			t.Error("the task is not done")
		}
	})
}

func TestStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		h := start(t, sys, "a", &script{handle: func(c *actors.Context, msg any) *actors.Reason { c.SetStatus(msg); return nil }})
		if h.Status() != nil {
			t.Errorf("status is %v before any was set", h.Status())
		}
		h.Send("fine")
		synctest.Wait()
		if h.Status() != "fine" {
			t.Errorf("status is %v", h.Status())
		}
	})
}

func TestGoroutinesComeBackToBase(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		base := runtime.NumGoroutine() + 10 // other tests may be on their way out
		var all []*actors.Handle
		for i := range 1000 {
			all = append(all, start(t, sys, fmt.Sprint(i), &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
				if msg == "panic" {
					panic("boom")
				}
				runtime.Goexit()
				return nil
			}}))
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > base {
			t.Errorf("1000 idle processes hold %d goroutines", n)
		}
		for i, h := range all {
			switch i % 4 {
			case 0:
				h.Send("panic")
			case 1:
				h.Send("goexit")
			case 2:
				h.Stop(actors.Reason{Kind: actors.Shutdown})
			default:
				h.Kill()
			}
		}
		for _, h := range all {
			<-h.Gone()
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > base {
			t.Errorf("%d goroutines are left", n)
		}
	})
}
