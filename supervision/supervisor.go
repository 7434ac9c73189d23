package supervision

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/actors"
	"millrace/supervision/decide"
)

// killGrace is how long an ended child's code may take to return before it counts as a
// zombie, and its successor's start as stuck: it has only just been told.
const killGrace = 10 * time.Millisecond

// kid is what the shell keeps of one child the core knows.
type kid struct {
	child     Child
	arg       any
	handle    *actors.Handle // of the latest incarnation, from the moment its init begins
	startedAt time.Time      // when the latest incarnation came up
	stopped   bool           // the latest incarnation was told to end, and has
	ended     bool           // an incarnation has ended, or a start failed:
	last      actors.Reason  // why the latest that did so did
}

// end notes why a child has no process now.
func (k *kid) end(why actors.Reason) { k.ended, k.last = true, why }

// retry is the supervisor's message to itself.
type retry struct{ decide.Retry }

// look reminds the supervisor to see whether an ended child has become a zombie.
type look struct{ at *kid }

// supervisor is the shell around one decide.Machine: receive, Step, execute in order.
type supervisor struct {
	flags    Flags
	children []Child
	observe  func(Event)

	c        *actors.Context
	began    time.Time
	machine  *decide.Machine
	kids     map[string]*kid
	board    *board
	asked    *actors.Request // the call being carried out
	spawned  *kid            // whose incarnation was made last
	startErr error           // of the latest start
	failed   error           // of the boot
	last     actors.Reason   // of the latest end of a child
	leaving  *actors.Reason
}

// New returns a supervisor of these children. Under SimpleOneForOne children holds the
// one template. observe may be nil. Flags and children are checked in its Init.
func New(flags Flags, children []Child, observe func(Event)) actors.Process {
	s := &supervisor{flags: flags, children: children, kids: map[string]*kid{}}
	if observe != nil {
		s.observe = func(ev Event) { actors.Aside(func() { observe(ev) }) }
	}
	return s
}

// Init starts the children, in order. Told to stop meanwhile it starts no more of them, and
// Terminate, which then follows at once, stops those that run.
func (s *supervisor) Init(c *actors.Context) error {
	s.c, s.began = c, time.Now()
	s.board = newBoard(s.flags)
	c.SetStatus(s.board)
	specs := make([]decide.Spec, 0, len(s.children))
	for _, child := range s.children {
		if child.New == nil {
			return fmt.Errorf("supervisor %s: child %s has no New", c.Self().Path(), child.ID)
		}
		specs = append(specs, child.spec())
		if s.flags.Strategy != SimpleOneForOne {
			s.kids[child.ID] = &kid{child: child}
		}
	}
	machine, err := decide.New(s.flags, specs)
	if err != nil {
		return fmt.Errorf("supervisor %s: %w", c.Self().Path(), err)
	}
	s.machine = machine
	for _, child := range s.children {
		if k := s.kids[child.ID]; k != nil {
			s.board.put(k, stateUndefined)
		}
	}
	s.guard(func() { s.step(decide.Boot{}) })
	return s.failed
}

// Handle takes ends of children, retries and calls.
func (s *supervisor) Handle(_ *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case actors.Exited:
		s.exited(msg)
	case retry:
		s.step(msg.Retry)
	case look:
		s.noteZombie(msg.at)
	case *actors.Request:
		s.call(msg)
	}
	return s.leaving
}

// Terminate stops the children that are left.
func (s *supervisor) Terminate(*actors.Context, actors.Reason) {
	if s.machine != nil {
		s.guard(s.shutdown)
	}
}

// guard runs f, and stops the children if it fails: Terminate does not follow a crash in
// Init or in Terminate itself, and what is left then is killed.
func (s *supervisor) guard(f func()) {
	returned := false
	defer func() {
		if !returned {
			s.shutdown()
		}
	}()
	f()
	returned = true
}

// shutdown stops the children that are left, also in the middle of whatever was done.
func (s *supervisor) shutdown() {
	s.board.setState(stateStopping)
	var last decide.ShutdownAll
	if k := s.spawned; k != nil && k.handle.Alive() {
		last.Started = decide.Started{ID: k.child.ID, Incarnation: k.handle.Incarnation()}
	}
	s.step(last)
}

// now is the core's clock: monotonic, from the supervisor's start.
func (s *supervisor) now() time.Duration { return time.Since(s.began) }

// step gives one event to the core and carries out what it says, with all that follows.
func (s *supervisor) step(ev decide.Event) {
	due := s.machine.Step(ev, s.now(), nil)
	for len(due) > 0 {
		a := due[0]
		due = due[1:]
		// An action that awaits an answer is the last of its Step.
		for _, answer := range s.execute(a) {
			due = append(due, s.machine.Step(answer, s.now(), nil)...)
		}
	}
	s.board.setRestarts(s.machine.Restarts(s.now()))
}

// execute carries one action out and returns its answers.
func (s *supervisor) execute(a decide.Action) []decide.Event {
	switch a := a.(type) {
	case decide.Start:
		return []decide.Event{s.start(a)}
	case decide.Stop:
		return s.stop(a)
	case decide.StopAll:
		return s.stopAll(a)
	case decide.RetryLater:
		s.board.put(s.kids[a.ID], stateRestarting)
		s.c.Self().Send(retry{decide.Retry(a)})
	case decide.Ready:
		s.board.setState(stateRunning)
	case decide.BootFailed:
		s.failed = fmt.Errorf("child %s failed to start: %w", a.ID, s.startErr)
	case decide.Exit:
		s.board.gaveUp.Store(a.GaveUp)
		s.leaving = actors.Exit(actors.Shutdown, a.Why)
	case decide.Forget:
		s.forget(a.ID)
	case decide.Reply:
		s.reply(a)
	case decide.Report:
		s.report(a)
	}
	return nil
}

// forget drops a child, but not the sight of code of it that still runs.
func (s *supervisor) forget(id string) {
	if k := s.kids[id]; k != nil {
		s.keepZombie(k)
	}
	delete(s.kids, id)
	s.board.forget(id)
}

// keepZombie keeps showing an incarnation that gives way to another one or to nothing.
func (s *supervisor) keepZombie(k *kid) {
	if k.handle != nil && k.handle.Zombie() {
		s.board.addZombie(k)
	}
}

// start starts a child and waits for its init. The supervisor's own stop cancels it.
func (s *supervisor) start(a decide.Start) decide.Event {
	k := s.kids[a.ID]
	grace, limited := k.child.Shutdown.Limit()
	if limited {
		grace = max(grace, 1) // 0 would mean no limit
	}
	spec := actors.Spec{
		Path:   s.c.Self().Path() + "/" + a.ID,
		New:    func() actors.Process { return k.child.New(k.arg) },
		Parent: s.c.Self(), Drain: k.child.Drain,
		InitGrace: grace,
	}
	begun := false
	stuck := func() bool { return true } // stops what tells of it
	spec.Spawned = func(h *actors.Handle) {
		s.keepZombie(k)
		k.handle, k.stopped = h, false
		begun, s.spawned = true, k
		s.board.put(k, stateStarting)
		if s.board.haunted(a.ID) {
			ev := Event{Kind: EventStuck, ID: a.ID, Incarnation: h.Incarnation(), Reason: k.last, Restarts: s.machine.Restarts(s.now())}
			stuck = time.AfterFunc(killGrace, func() { s.tellIfStuck(ev) }).Stop
		}
	}
	h, err := s.c.System().Start(s.c.Done(), spec)
	stuck()
	if err == nil {
		k.startedAt = time.Now()
		s.board.put(k, stateRunning)
		return decide.Started{ID: a.ID, Incarnation: h.Incarnation()}
	}
	if !begun { // nothing starts below a supervisor that is told to stop, or in a closed system
		s.board.put(k, stateUndefined)
		return decide.Cancelled(a)
	}
	return s.startFailed(a, k, err)
}

// startFailed takes the end of an incarnation that has not come up.
func (s *supervisor) startFailed(a decide.Start, k *kid, err error) decide.Event {
	// A StartError is looked no further into: below it are errors of the child's own making.
	var failed *actors.StartError
	if !errors.As(err, &failed) {
		k.end(actors.Reason{Kind: actors.Normal, Detail: "ignored"})
		s.board.put(k, stateUndefined)
		s.lookLater(k)
		return decide.Ignored(a)
	}
	k.end(failed.Reason)
	s.board.put(k, stateUndefined)
	if s.c.Done().Err() != nil && !k.last.Abnormal() {
		s.lookLater(k)
		return decide.Cancelled(a)
	}
	s.startErr = err
	if k.last.Kind == actors.Killed {
		s.noteZombies([]*kid{k})
	} else {
		s.lookLater(k)
	}
	return decide.Failed{ID: a.ID, Why: err.Error()}
}

// tellIfStuck runs beside the supervisor, which waits for the child.
func (s *supervisor) tellIfStuck(ev Event) {
	if s.board.haunted(ev.ID) {
		s.tell(ev)
	}
}

// exited takes the end of a child that was not told to by stop.
func (s *supervisor) exited(msg actors.Exited) {
	id := strings.TrimPrefix(msg.Handle.Path(), s.c.Self().Path()+"/")
	if k := s.kids[id]; k != nil && k.handle == msg.Handle && !k.stopped {
		k.end(msg.Reason)
		s.board.put(k, stateUndefined)
		s.lookLater(k)
	}
	s.last = msg.Reason
	b, isSup := msg.Handle.Status().(*board)
	s.step(decide.Exited{
		Incarnation: msg.Handle.Incarnation(), Abnormal: msg.Reason.Abnormal(), Why: msg.Reason.String(),
		GaveUp: isSup && b.gaveUp.Load(),
	})
}

// lookLater sees to it that a child which ended by itself, and left a task behind, is
// shown and reported if that does not end soon.
func (s *supervisor) lookLater(k *kid) {
	if k.handle.Zombie() {
		ended := *k
		s.c.After(killGrace, look{&ended})
	}
}

// report tells the observer.
func (s *supervisor) report(r decide.Report) {
	ev := Event{Kind: eventKinds[r.Kind], ID: r.ID, Incarnation: r.Incarnation, Restarts: r.Restarts}
	switch ev.Kind {
	case EventStartError, EventChildTerminated, EventShutdownError, EventMaxIntensity, EventParked:
		ev.Reason = s.kids[r.ID].last
	case EventAutoShutdown: // the child may be forgotten by now
		ev.Reason = s.last
	case EventRestarted:
		s.board.countRestart(r.ID)
	case EventStarted, EventIgnored: // have no reason
	case EventZombie, EventStuck: // are no business of the core
	}
	s.tell(ev)
}

func (s *supervisor) tell(ev Event) {
	if s.observe == nil {
		return
	}
	ev.Time, ev.Path, ev.Intensity = time.Now(), s.c.Self().Path(), s.flags.Intensity
	s.observe(ev)
}
