package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
)

// Processes end in every way at once while others ask, watch and signal them. Whatever
// the interleaving: each ends once, is gone once, every monitor gets one Down, every
// request one answer, every accepted message is handled or counted as dropped.
func TestStorm(t *testing.T) {
	inBubble(t, func(t *testing.T, sys *actors.System) {
		const victims, rounds = 300, 4
		var sent, handled, exits, gones, downs, answers atomic.Int64
		dropped := countDropped(sys)
		watcher := start(t, sys, "watcher", &script{handle: func(c *actors.Context, msg any) *actors.Reason {
			switch m := msg.(type) {
			case *actors.Handle:
				c.Monitor(m)
				c.Request(m, "question")
			case actors.Down:
				downs.Add(1)
			case actors.Reply:
				answers.Add(1)
			}
			return nil
		}})
		victim := func() *script {
			return &script{
				init: func(c *actors.Context) error {
					c.OnExit(func() { exits.Add(1) })
					c.OnGone(func() { gones.Add(1) })
					return nil
				},
				handle: func(c *actors.Context, msg any) *actors.Reason {
					switch m := msg.(type) {
					case *actors.Request:
						m.Reply("answer")
					case string:
						handled.Add(1)
						switch m {
						case "panic":
							panic(m)
						case "goexit":
							runtime.Goexit()
						case "quit":
							return actors.Exit(actors.Normal, "")
						case "task":
							c.Task("t", func(context.Context) any { panic("in a task") })
						case "block":
							<-c.Done().Done()
							pass(time.Second)
						}
					}
					return nil
				},
			}
		}
		for range rounds {
			var all []*actors.Handle
			for i := range victims {
				h, err := sys.Start(context.Background(), actors.Spec{Path: fmt.Sprint(i), Drain: i%2 == 0, New: func() actors.Process { return victim() }})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, h)
			}
			start(t, sys, "storm", &script{init: func(c *actors.Context) error {
				for lane := range 8 {
					c.Task("lane", func(context.Context) any { lash(lane, all, watcher, &sent); return nil })
				}
				return nil
			}})
			pass(time.Minute)
		}
		synctest.Wait()
		const n = victims * rounds
		if exits.Load() != n || gones.Load() != n || sys.Zombies() != 0 {
			t.Errorf("%d exits, %d gone, %d zombies; want %d", exits.Load(), gones.Load(), sys.Zombies(), n)
		}
		if downs.Load() != n || answers.Load() != n {
			t.Errorf("%d Downs and %d answers, want %d", downs.Load(), answers.Load(), n)
		}
		// Requests that were dropped are counted as well, and are not in sent.
		if lost := sent.Load() - handled.Load(); lost > dropped.Load() || dropped.Load() > lost+n {
			t.Errorf("sent %d, handled %d, dropped %d", sent.Load(), handled.Load(), dropped.Load())
		}
	})
}

// lash does to every process what its lane is for.
func lash(lane int, all []*actors.Handle, watcher *actors.Handle, sent *atomic.Int64) {
	words := []string{"panic", "goexit", "quit", "task", "block"}
	for i, h := range all {
		switch lane {
		case 0:
			watcher.Send(h)
		case 1:
			h.Kill()
		case 2:
			h.Stop(actors.Reason{Kind: actors.Shutdown})
		default:
			if h.Send(words[(i+lane)%len(words)]) {
				sent.Add(1)
			}
		}
		if i%7 == lane {
			runtime.Gosched()
		}
	}
}

func BenchmarkSend(b *testing.B) {
	sys := actors.NewSystem(1)
	defer sys.Close()
	done := make(chan struct{})
	n := 0
	h, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process {
		return &script{handle: func(*actors.Context, any) *actors.Reason {
			if n++; n == b.N {
				close(done)
			}
			return nil
		}}
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	msg := &struct{ n int }{}
	for range b.N {
		h.Send(msg)
	}
	<-done
}

func BenchmarkCall(b *testing.B) {
	sys := actors.NewSystem(1)
	defer sys.Close()
	h, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process {
		return &script{handle: func(_ *actors.Context, msg any) *actors.Reason {
			msg.(*actors.Request).Reply(nil)
			return nil
		}}
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for range b.N {
		if _, err := h.Call(context.Background(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStartStop(b *testing.B) {
	sys := actors.NewSystem(1)
	defer sys.Close()
	b.ReportAllocs()
	for range b.N {
		h, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process { return &script{} }})
		if err != nil {
			b.Fatal(err)
		}
		h.Stop(actors.Reason{Kind: actors.Shutdown})
		<-h.Done()
	}
}
