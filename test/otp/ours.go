package otp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/core/pos"
	"millrace/supervision"
)

// instant lets everything happen that can happen now.
const instant = time.Microsecond

// ours runs one program on package supervision, in a bubble.
type ours struct {
	program  Program
	sys      *actors.System
	top      *actors.Handle // nil: not booted
	released chan struct{}  // closed at the end: what lingers goes

	heldAt  chan string // where a child is held now
	opened  chan string // the verdict for it
	held    string
	where   string        // init or stop, of the latest hold
	pending []chan string // answers to come, the earliest first

	mu     sync.Mutex
	starts map[string]int
	specs  map[string]Spec // by path, of the latest process
	events []string
	armed  [2]string // path and where
}

// Run runs a program on package supervision and returns its answers. It must be called
// in a synctest bubble.
func Run(p Program) []string {
	o := &ours{
		program: p, sys: actors.NewSystem(pos.UID(1)), released: make(chan struct{}),
		heldAt: make(chan string, 1), opened: make(chan string, 1), starts: map[string]int{}, specs: map[string]Spec{},
	}
	var answers []string
	commands := p.commands
	for _, line := range p.Lines() {
		if strings.HasPrefix(line, "sup ") || strings.HasPrefix(line, "child ") {
			answers = append(answers, "ok")
			continue
		}
		answers = append(answers, p.normal(line, o.command(commands[0])))
		commands = commands[1:]
	}
	close(o.released)
	close(o.opened)
	if o.top != nil {
		o.top.Kill()
	}
	o.sys.Close()
	return answers
}

func (o *ours) command(c command) string {
	switch {
	case c.verb == "open":
		return o.open(c.path)
	case c.verb == "hold" && o.held == "":
		o.where = c.arg
		o.arm(c.path, c.arg)
		return "ok"
	case c.verb == "boot" && o.held == "":
		return o.boot()
	case o.top == nil:
		return "noproc" + o.seen("")
	case o.held != "":
		return o.whileHeld(c)
	case c.verb == "pass":
		<-time.After(time.Duration(c.wait) * time.Millisecond)
		return o.settled("ok")
	case c.verb == "stop":
		if !o.top.Alive() {
			return o.settled("noproc")
		}
		o.top.Stop(actors.Reason{Kind: actors.Shutdown})
		return o.settled("ok")
	case c.verb == "exit":
		return o.settled(o.exit(c))
	}
	answer := o.ask(c)
	select {
	case a := <-answer:
		return o.settled(a)
	case o.held = <-o.heldAt:
		o.pending = []chan string{answer}
		return "held"
	}
}

// whileHeld takes the commands that concern the supervisor that waits for a held child.
func (o *ours) whileHeld(c command) string {
	synctest.Wait()
	call := slices.Contains([]string{"add", "terminate", "restart", "delete"}, c.verb)
	sup := o.supAt(parent(c.path))
	switch {
	case !call && c.verb != "exit", c.verb == "exit" && c.path == o.held, parent(c.path) != parent(o.held):
		return "busy"
	case sup.Flags.Strategy == supervision.SimpleOneForOne && (call && c.verb != "add" || !call && o.where == "stop"):
		return "busy" // by name or by pid; and stops are parallel there
	case c.verb == "exit":
		answer := o.exit(c)
		synctest.Wait()
		return answer
	}
	o.pending = append(o.pending, o.ask(c))
	synctest.Wait()
	return "posted"
}

func (o *ours) boot() string {
	top := supervision.New(o.program.top.Flags, o.children("", &o.program.top), o.observe)
	h, err := o.sys.Start(context.Background(), actors.Spec{Path: "top", New: func() actors.Process { return top }})
	if err == nil {
		o.top = h
		return o.settled("ok")
	}
	_, words, failed := strings.Cut(err.Error(), "child ")
	id, _, failedToStart := strings.Cut(words, " failed to start")
	if failed && failedToStart {
		return "failed " + id + o.seen("")
	}
	return "bad_spec" + o.seen("")
}

// supAt returns what the latest supervisor at a path was made of.
func (o *ours) supAt(path string) *Sup {
	if path == "" {
		return &o.program.top
	}
	return o.specOf(path).Sup
}

// specOf returns what the latest process at a path was made of.
func (o *ours) specOf(path string) Spec {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.specs[path]
}

// open lets the held child go on, and everything that waits behind it.
func (o *ours) open(verdict string) string {
	if o.held == "" {
		o.arm("", "")
		return o.settled("none")
	}
	o.held = ""
	o.opened <- verdict
	var answers []string
	for _, answer := range o.pending {
		answers = append(answers, <-answer)
	}
	o.pending = nil
	return o.settled(strings.Join(answers, ","))
}

// settled answers once nothing is left to be handled, or a child is held.
func (o *ours) settled(answer string) string {
	tree := make(chan string, 1)
	go func() { tree <- o.settle() }()
	select {
	case text := <-tree:
		return answer + o.seen(text)
	case o.held = <-o.heldAt:
		done := make(chan string, 1)
		done <- answer
		o.pending = []chan string{done}
		return "held"
	}
}

func (o *ours) settle() string {
	for o.top != nil && o.top.Alive() {
		select {
		case <-time.After(instant):
		case <-o.released:
			return ""
		}
		if text, ok := tree(o.top); ok {
			return text
		}
	}
	return ""
}

// seen is what follows an answer.
func (o *ours) seen(tree string) string {
	state := "none"
	switch {
	case o.top != nil && o.top.Alive():
		state = "alive " + tree
	case o.top != nil:
		state = "down " + o.top.Reason().Kind.String()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	events := strings.Join(o.events, ", ")
	o.events = nil
	return " | " + state + " | " + events
}

// tree prints what the calls tell; false while something is under way.
func tree(sup *actors.Handle) (text string, settled bool) {
	infos, err := supervision.WhichChildren(context.Background(), sup)
	if err != nil {
		return "", false
	}
	n, err := supervision.CountChildren(context.Background(), sup)
	if err != nil {
		return "", false
	}
	var names []string
	for _, i := range infos {
		name := i.ID
		switch {
		case i.State == "undefined":
			name += ":undefined"
		case i.State != "running" || !i.Handle.Alive():
			return "", false
		case i.Kind == supervision.Supervisor:
			below, ok := tree(i.Handle)
			if !ok {
				return "", false
			}
			name += below
		}
		names = append(names, name)
	}
	if supervision.Tree(sup).Budget.Strategy == supervision.SimpleOneForOne.String() {
		slices.Sort(names)
	}
	return fmt.Sprintf("(%s)%d/%d/%d/%d", strings.Join(names, " "), n.Specs, n.Active, n.Supervisors, n.Workers), true
}

// handle returns the latest process at a path.
func (o *ours) handle(path string) *actors.Handle {
	n := supervision.Tree(o.top)
	if path == "" {
		return o.top
	}
	for id := range strings.SplitSeq(path, "/") {
		i := slices.IndexFunc(n.Children, func(c supervision.Node) bool { return c.ID == id && c.State != "zombie" })
		if i < 0 {
			return nil
		}
		n = n.Children[i]
	}
	return n.Handle
}

func (o *ours) exit(c command) string {
	h := o.handle(c.path)
	_, isSup := supervisorOf(h)
	switch {
	case !h.Alive() || isSup && c.arg != "kill":
		return "noproc"
	case c.arg == "kill":
		h.Kill()
	default:
		h.Send(c.arg)
	}
	return "ok"
}

func supervisorOf(h *actors.Handle) (supervision.Node, bool) {
	n := supervision.Tree(h)
	return n, n.Kind == supervision.Supervisor.String()
}

// ask makes a call and returns where its answer will be.
func (o *ours) ask(c command) chan string {
	answer := make(chan string, 1)
	sup, h := o.supAt(parent(c.path)), o.handle(parent(c.path))
	if sup == nil {
		answer <- "noproc"
	} else {
		go func() { answer <- o.call(c, sup, h) }()
	}
	return answer
}

func (o *ours) call(c command, sup *Sup, h *actors.Handle) string {
	ctx, id := context.Background(), last(c.path)
	var err error
	switch {
	case c.verb == "add" && sup.Flags.Strategy == supervision.SimpleOneForOne:
		_, err = supervision.StartChild(ctx, h, id, c.spec)
	case c.verb == "add":
		_, err = supervision.AddChild(ctx, h, o.child(parent(c.path), c.spec))
	case c.verb == "terminate":
		err = supervision.TerminateChild(ctx, h, id)
	case c.verb == "restart":
		err = supervision.RestartChild(ctx, h, id)
	case c.verb == "delete":
		err = supervision.DeleteChild(ctx, h, id)
	}
	return inWords(err)
}

// inWords writes an answer as the driver does.
func inWords(err error) string {
	var started *supervision.AlreadyStarted
	var dead *actors.DeadError
	var failed *actors.StartError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, actors.ErrIgnore):
		return "ignored"
	case errors.As(err, &started):
		return "already_started"
	case errors.As(err, &dead):
		return "noproc"
	case errors.As(err, &failed):
		return "failed"
	case strings.Contains(err.Error(), "bad combination"):
		return "bad_spec"
	}
	for known, word := range map[error]string{
		supervision.ErrAlreadyPresent: "already_present", supervision.ErrNotFound: "not_found", supervision.ErrRunning: "running",
		supervision.ErrRestarting: "restarting", supervision.ErrStrategy: "not_simple",
	} {
		if errors.Is(err, known) {
			return word
		}
	}
	return "failed"
}
