package supervision_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/supervision"
)

// world is one bubble: a system, and the events its supervisors report.
type world struct {
	sys *actors.System

	mu     sync.Mutex
	events []supervision.Event
}

func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{sys: actors.NewSystem(1)}
		defer w.sys.Close()
		f(t, w)
	})
}

func (w *world) observe(ev supervision.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, ev)
}

// take returns the events since the last take, as "kind id".
func (w *world) take() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for _, ev := range w.events {
		lines = append(lines, ev.Kind.String()+" "+ev.ID)
	}
	w.events = nil
	return lines
}

// last returns the latest event.
func (w *world) last() supervision.Event {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[len(w.events)-1]
}

// run starts a process without a parent.
func (w *world) run(path string, p actors.Process) (*actors.Handle, error) {
	return w.sys.Start(context.Background(), actors.Spec{Path: path, New: func() actors.Process { return p }})
}

// realBench drives real processes.
type realBench struct {
	t   *testing.T
	w   *world
	mu  sync.Mutex
	rec record
	top *actors.Handle
}

func newRealBench(t *testing.T, w *world) bench { return &realBench{t: t, w: w} }

func (b *realBench) start(flags supervision.Flags, parts ...part) string {
	h, err := b.w.run("top", supervision.New(flags, b.children(parts), b.w.observe))
	if err != nil {
		return err.Error()
	}
	b.top = h
	return "ok"
}

func (b *realBench) children(parts []part) []supervision.Child {
	var children []supervision.Child
	for _, p := range parts {
		children = append(children, b.child(p))
	}
	return children
}

func (b *realBench) child(p part) supervision.Child {
	c := supervision.Child{
		ID: p.id, Restart: p.restart, Significant: p.signif, Shutdown: p.limit(),
		New: func(arg any) actors.Process {
			p := p
			if given, ok := arg.(part); ok {
				p = given
			}
			if p.flags != nil {
				return supervision.New(*p.flags, b.children(p.parts), b.w.observe)
			}
			return &worker{b: b, part: p}
		},
	}
	if p.flags != nil {
		c.Kind = supervision.Supervisor
	}
	return c
}

// worker is a part as a process.
type worker struct {
	b    *realBench
	part part
	own  bool // it ends by itself
}

func (w *worker) Init(*actors.Context) error {
	w.b.mu.Lock()
	n := w.b.rec.bump(w.part.id)
	w.b.mu.Unlock()
	if w.part.init == nil {
		return nil
	}
	switch outcome := w.part.init(n); outcome {
	case "":
		return nil
	case "ignore":
		return actors.ErrIgnore
	default:
		return errors.New(outcome)
	}
}

func (w *worker) Handle(_ *actors.Context, msg any) *actors.Reason {
	w.own = true
	switch msg {
	case "normal":
		return actors.Exit(actors.Normal, "")
	case "shutdown":
		return actors.Exit(actors.Shutdown, "")
	case "{shutdown,x}":
		return actors.Exit(actors.Shutdown, "x")
	}
	panic(msg)
}

func (w *worker) Terminate(c *actors.Context, why actors.Reason) {
	if w.own || !w.part.trap {
		return
	}
	w.note(c, "{stopping,%s,%v}", w.part.id, why)
	pass(w.part.linger)
	w.note(c, "{stopped,%s}", w.part.id)
}

// note records, unless the worker is a zombie: in Erlang it would be dead.
func (w *worker) note(c *actors.Context, format string, args ...any) {
	if !c.Self().Alive() {
		return
	}
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.rec.note(format, args...)
}

// pass lets the bubble's time go by.
func pass(d time.Duration) { <-time.After(d) }

func (b *realBench) settle(d time.Duration) {
	pass(d)
	synctest.Wait()
}

// node finds a child in the tree.
func (b *realBench) node(path string) (supervision.Node, bool) {
	n := supervision.Tree(b.top)
next:
	for id := range strings.SplitSeq(path, "/") {
		for _, c := range n.Children {
			if c.ID == id && c.State != "zombie" {
				n = c
				continue next
			}
		}
		return n, false
	}
	return n, true
}

func (b *realBench) exit(path, reason string) {
	if n, ok := b.node(path); ok {
		if reason == "kill" {
			n.Handle.Kill()
		} else {
			n.Handle.Send(reason)
		}
	}
	synctest.Wait()
}

func (b *realBench) down() string {
	synctest.Wait()
	if b.top.Alive() {
		return "alive"
	}
	return "{down," + b.top.Reason().Kind.String() + "}"
}

func (b *realBench) kid(path string) string {
	synctest.Wait()
	n, ok := b.node(path)
	if !ok {
		return "gone"
	}
	return asErlang(n.State)
}

func asErlang(state string) string {
	if state == "running" {
		return "pid"
	}
	return state
}

func (b *realBench) starts(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec.begun[id]
}

func (b *realBench) events() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec.events()
}

func (b *realBench) which() string {
	infos, err := supervision.WhichChildren(context.Background(), b.top)
	if err != nil {
		b.t.Errorf("which_children: %v", err)
	}
	var items []string
	for _, i := range infos {
		items = append(items, pair(i.ID, asErlang(i.State)))
	}
	return list(items)
}

func (b *realBench) count() string {
	n, err := supervision.CountChildren(context.Background(), b.top)
	if err != nil {
		b.t.Errorf("count_children: %v", err)
	}
	return counted(n)
}

// answer writes an error as Erlang prints it.
func answer(err error) string {
	var started *supervision.AlreadyStarted
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, actors.ErrIgnore):
		return "{ok,undefined}"
	case errors.As(err, &started):
		return "already_started"
	case errors.Is(err, supervision.ErrAlreadyPresent):
		return "{error,already_present}"
	case errors.Is(err, supervision.ErrNotFound):
		return "{error,not_found}"
	case errors.Is(err, supervision.ErrRunning):
		return "{error,running}"
	case errors.Is(err, supervision.ErrRestarting):
		return "{error,restarting}"
	}
	return fmt.Sprintf("{error,%q}", err)
}

func (b *realBench) add(p part) string {
	ctx := context.Background()
	if n := supervision.Tree(b.top); n.Budget.Strategy == "simple_one_for_one" {
		_, err := supervision.StartChild(ctx, b.top, p.id, p)
		return answer(err)
	}
	_, err := supervision.AddChild(ctx, b.top, b.child(p))
	return answer(err)
}

func (b *realBench) terminate(id string) string {
	return answer(supervision.TerminateChild(context.Background(), b.top, id))
}

// restart tells an ignored restart from one that came up by what became of the child.
func (b *realBench) restart(id string) string {
	s := answer(supervision.RestartChild(context.Background(), b.top, id))
	if s == "ok" && b.kid(id) == "undefined" {
		return "{ok,undefined}"
	}
	return s
}

func (b *realBench) remove(id string) string {
	return answer(supervision.DeleteChild(context.Background(), b.top, id))
}

func (b *realBench) stop() time.Duration {
	began := time.Now()
	b.top.Stop(actors.Reason{Kind: actors.Shutdown})
	<-b.top.Done()
	return time.Since(began)
}
