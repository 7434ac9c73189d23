package otp

import (
	"errors"
	"strings"

	"millrace/actors"
	"millrace/supervision"
)

// children makes the children of the supervisor at path.
func (o *ours) children(path string, sup *Sup) []supervision.Child {
	var children []supervision.Child
	for _, s := range sup.Children {
		children = append(children, o.child(path, s))
	}
	return children
}

// child makes one child of the supervisor at path. As a template it makes the child that
// StartChild names, with the inits it was given.
func (o *ours) child(path string, s *Spec) supervision.Child {
	c := supervision.Child{
		ID: last(s.Path), Restart: s.Restart, Significant: s.Significant, Shutdown: s.Shutdown,
		New: func(arg any) actors.Process {
			id := last(s.Path)
			own := *s
			if instance, ok := arg.(*Spec); ok {
				id = last(instance.Path)
				if instance.Init != nil {
					own.Init = instance.Init
				}
			}
			at := join(path, id)
			o.mu.Lock()
			o.specs[at] = own
			o.mu.Unlock()
			if s.Sup != nil {
				return supervision.New(s.Sup.Flags, o.children(at, s.Sup), o.observe)
			}
			return &worker{o: o, spec: own, path: at}
		},
	}
	if s.Sup != nil {
		c.Kind = supervision.Supervisor
	}
	return c
}

// observe turns a supervisor's events into the reports OTP makes.
func (o *ours) observe(ev supervision.Event) {
	_, above, _ := strings.Cut(ev.Path, "/")
	path := join(above, ev.ID)
	switch ev.Kind {
	case supervision.EventChildTerminated:
		// Of an end that was none of its business OTP makes no report.
		if ev.Reason.Abnormal() || o.specOf(path).Restart == supervision.Permanent {
			o.note("terminated " + path)
		}
	case supervision.EventShutdownError:
		// Under simple_one_for_one OTP reports causes with their numbers, and no child.
		if o.supAt(above).Flags.Strategy != supervision.SimpleOneForOne {
			o.note("fault " + path)
		}
	case supervision.EventMaxIntensity:
		o.note("limit " + path)
	default: // nothing OTP reports
	}
}

func (o *ours) note(event string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
}

func (o *ours) arm(path, where string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = [2]string{path, where}
}

// hold waits to be opened, if that was asked for here.
func (o *ours) hold(path, where, otherwise string) string {
	o.mu.Lock()
	here := o.armed == [2]string{path, where}
	if here {
		o.armed = [2]string{}
	}
	o.mu.Unlock()
	if !here {
		return otherwise
	}
	o.heldAt <- path
	return <-o.opened
}

// worker is a child that is no supervisor.
type worker struct {
	o    *ours
	spec Spec
	path string
	own  bool // it ends by itself
}

func (w *worker) Init(*actors.Context) error {
	w.o.mu.Lock()
	w.o.starts[w.path]++
	n := w.o.starts[w.path]
	w.o.mu.Unlock()
	w.o.note("start " + w.path)
	switch w.o.hold(w.path, "init", w.spec.outcome(n)) {
	case "ignore":
		return actors.ErrIgnore
	case "error":
		return errors.New("no")
	case "crash":
		panic("crash")
	}
	return nil
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

func (w *worker) Terminate(*actors.Context, actors.Reason) {
	if w.own || !w.spec.Trap {
		return
	}
	if w.spec.Linger {
		<-w.o.released
		return
	}
	w.o.note("stopping " + w.path)
	w.o.hold(w.path, "stop", "")
	w.o.note("stopped " + w.path)
}
