package supervision

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/supervision/decide"
)

// ends notes which children were ended in good order, in which order.
type ends struct {
	mu  sync.Mutex
	ids []string
}

func (e *ends) taken() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.ids, " ")
}

// member is a child of a supervisor that fails.
type member struct {
	id   string
	ends *ends
	init func() error
	hang <-chan struct{} // its end waits for that
}

func (m member) Init(*actors.Context) error {
	if m.init == nil {
		return nil
	}
	return m.init()
}

func (m member) Handle(_ *actors.Context, msg any) *actors.Reason { panic(msg) }

func (m member) Terminate(_ *actors.Context, why actors.Reason) {
	if m.hang != nil {
		<-m.hang
	}
	m.ends.mu.Lock()
	defer m.ends.mu.Unlock()
	if !why.Abnormal() {
		m.ends.ids = append(m.ends.ids, m.id)
	}
}

func (m member) child() Child {
	return Child{ID: m.id, Shutdown: After(time.Second), New: func(any) actors.Process { return m }}
}

func terminateHangs(t *testing.T, h *actors.Handle) {
	if err := TerminateChild(context.Background(), h, "hangs"); err == nil {
		t.Error("a call was answered by a supervisor that failed while it carried it out")
	}
}

// A supervisor that fails in its own code, whatever it is doing, first stops its children,
// in order: those that run, and those that it was just stopping.
func TestOwnCrashStopsTheChildren(t *testing.T) {
	no := func() error { return fmt.Errorf("no") }
	cases := map[string]struct {
		at   string // the report it fails at: the next action is begun and not carried out
		act  func(t *testing.T, h *actors.Handle)
		c    func() error
		want string
	}{
		"booting, before a start":   {at: "started b", want: "b a"},
		"booting, before a stop":    {at: "start_error c", c: no, want: "b a"},
		"restarting":                {at: "child_terminated b", act: func(_ *testing.T, h *actors.Handle) { Find(h, "b").Send("boom") }, want: "hangs c a"},
		"restarting again":          {at: "restarted b", act: func(_ *testing.T, h *actors.Handle) { Find(h, "b").Send("boom") }, want: "hangs c b a"},
		"stopping one that hangs":   {at: "zombie hangs", act: terminateHangs, want: "c b a"},
		"stopping one that is late": {at: "shutdown_error hangs", act: func(_ *testing.T, h *actors.Handle) { h.Stop(actors.Reason{Kind: actors.Shutdown}) }, want: "c b a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actors.NewSystem(1)
				defer sys.Close()
				var top *actors.Handle
				all, free := &ends{}, make(chan struct{})
				last := member{id: "hangs", ends: all}
				if strings.Contains(tc.at, "hangs") {
					last.hang = free
				}
				children := []Child{member{id: "a", ends: all}.child(), member{id: "b", ends: all}.child(), member{id: "c", ends: all, init: tc.c}.child(), last.child()}
				failing := New(Flags{Intensity: 1, Period: time.Minute}, children, nil).(*supervisor)
				failing.observe = func(ev Event) { // in place of what guards against an observer
					if ev.Kind.String()+" "+ev.ID == tc.at {
						tc.at = ""
						runtime.Goexit()
					}
				}
				_, err := sys.Start(context.Background(), actors.Spec{Path: "node", Spawned: func(h *actors.Handle) { top = h }, New: func() actors.Process {
					return failing
				}})
				if booting := tc.act == nil; booting != (err != nil) {
					t.Fatalf("start gave %v", err)
				} else if !booting {
					tc.act(t, top)
				}
				<-top.Done()
				if got := all.taken(); got != tc.want || top.Reason().Kind != actors.Crash {
					t.Errorf("ended in good order are %q, want %q; the supervisor ended with %v", got, tc.want, top.Reason())
				}
				close(free)
			})
		})
	}
}

// failing is a supervisor that fails when it has started a child and before it has said so.
type failing struct{ *supervisor }

func (f failing) Handle(_ *actors.Context, _ any) *actors.Reason {
	late := f.children[0]
	late.ID = "late"
	f.kids[late.ID] = &kid{child: late}
	due := f.machine.Step(decide.StartChild{Spec: late.spec()}, f.now(), nil)
	f.start(due[len(due)-1].(decide.Start))
	panic("in its own code")
}

func TestOwnCrashStopsTheChildBeingStarted(t *testing.T) {
	for _, flags := range []Flags{{}, {Strategy: SimpleOneForOne}} {
		synctest.Test(t, func(t *testing.T) {
			sys := actors.NewSystem(1)
			defer sys.Close()
			var mu sync.Mutex
			var ended []string
			template := Child{ID: "first", Shutdown: Infinity, New: func(any) actors.Process { return &named{mu: &mu, ended: &ended} }}
			h, err := sys.Start(context.Background(), actors.Spec{Path: "node", New: func() actors.Process {
				return failing{New(flags, []Child{template}, nil).(*supervisor)}
			}})
			if err != nil {
				t.Fatal(err)
			}
			h.Send("go")
			<-h.Done()
			want := []string{"node/late", "node/first"}
			if flags.Strategy == SimpleOneForOne {
				want = want[:1]
			}
			if !slices.Equal(ended, want) || h.Reason().Detail != "in its own code" {
				t.Errorf("ended in good order are %q, the supervisor ended with %v", ended, h.Reason())
			}
		})
	}
}

// named notes the path of each that is ended in good order.
type named struct {
	mu    *sync.Mutex
	ended *[]string
}

func (n *named) Init(*actors.Context) error                 { return nil }
func (n *named) Handle(*actors.Context, any) *actors.Reason { return nil }
func (n *named) Terminate(c *actors.Context, _ actors.Reason) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.ended = append(*n.ended, c.Self().Path())
}
