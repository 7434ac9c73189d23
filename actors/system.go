package actors

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"millrace/core/pos"
)

// closeGrace is how long Close waits for processes to stop in good order before it
// kills them, and again how long it waits for the code of the killed to return.
const closeGrace = 5 * time.Second

// Process is what a process does. Its three methods never run at the same time.
type Process interface {
	// Init brings the process up; Start returns when it has. Nil: it runs. ErrIgnore: it
	// is not needed. Any other error: the start failed.
	Init(c *Context) error
	// Handle takes one message. A reason ends the process, nil goes on.
	Handle(c *Context, msg any) *Reason
	// Terminate runs last, except after a failed Init or a kill.
	Terminate(c *Context, why Reason)
}

// Spec says what to start.
type Spec struct {
	// Path names the process in the tree, in logs and in errors.
	Path string
	// New makes the process; it runs on the new process's own goroutine.
	New func() Process
	// Parent gets Exited when a process that has come up ends, and takes its children
	// along when it is killed. Nil: nobody.
	Parent *Handle
	// Drain: what was queued before a stop is still handled. Otherwise it is dropped.
	Drain bool
	// InitGrace bounds how long an Init whose start was cancelled may go on before the
	// process is killed. 0: it is waited for.
	InitGrace time.Duration
	// Spawned, if set, gets the handle before Init runs, on the goroutine of Start.
	Spawned func(h *Handle)
}

// System is a set of processes that share a boot nonce. It is safe for concurrent use.
type System struct {
	nonce    pos.UID
	prefix   string // of protoactor's ids, which tell this boot from every other one
	actors   *actor.ActorSystem
	guardian actor.SupervisorStrategy
	serial   atomic.Uint64 // of incarnations and references: never given twice
	zombies  atomic.Int64
	dropped  func(n int64)

	mu     sync.Mutex
	closed bool
	roots  map[*Handle]struct{} // alive, without a parent
	left   int                  // incarnations some code of which may still run
	quiet  chan struct{}        // closed when the system is closed and left is 0
}

// NewSystem returns an empty system. The nonce tells this boot from every other one.
func NewSystem(nonce pos.UID) *System {
	silent := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }
	stop := func(any) actor.Directive { return actor.StopDirective }
	return &System{
		nonce:    nonce,
		prefix:   nonce.String() + "/",
		actors:   actor.NewActorSystem(actor.WithLoggerFactory(silent)),
		guardian: actor.NewOneForOneStrategy(0, 0, stop),
		dropped:  func(int64) {},
		roots:    map[*Handle]struct{}{},
		quiet:    make(chan struct{}),
	}
}

// Nonce returns the boot nonce.
func (s *System) Nonce() pos.UID { return s.nonce }

// Zombies returns how many processes have ended while code of theirs, a callback or a
// task, has not returned.
func (s *System) Zombies() int { return int(s.zombies.Load()) }

// OnDropped has f told of every n accepted messages that will never be handled, because
// their process ended first. It is called from many goroutines and must not block. For use
// before the first Start.
func (s *System) OnDropped(f func(n int64)) { s.dropped = f }

// Start starts a process and returns when its Init has: the handle, ErrIgnore, or a
// *StartError. When ctx ends first, the process is told to stop, which cancels Init's
// context, and Start returns once it has ended. It blocks only its caller.
func (s *System) Start(ctx context.Context, spec Spec) (*Handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, refused(spec.Path, Reason{Kind: Shutdown, Detail: "start cancelled"}, outcomeOf(err))
	}
	h := s.newHandle(spec)
	if err := s.admit(h); err != nil {
		h.cancel()
		return nil, refused(spec.Path, Reason{Kind: NoProc}, outcomeOf(err))
	}
	if spec.Spawned != nil {
		h.introduce(spec.Spawned)
	}
	if err := s.spawn(h, spec.New); err != nil {
		h.end(Reason{Kind: Crash, Detail: err.Error()}, true)
		return nil, refused(spec.Path, h.Reason(), outcomeOf(err))
	}
	h.wire()
	if !h.Alive() { // it was killed before it was entered there
		s.actors.ProcessRegistry.Remove(h.pid)
	}
	return h.await(ctx, spec)
}

// introduce shows h to whoever starts it. Should that fail, nobody would ever run h, and
// whoever waits for its end would wait for ever.
func (h *Handle) introduce(to func(*Handle)) {
	returned := false
	defer func() {
		if !returned {
			h.Kill()
		}
	}()
	to(h)
	returned = true
}

func (s *System) newHandle(spec Spec) *Handle {
	h := &Handle{
		sys: s, path: spec.Path, incarnation: s.next(), parent: spec.Parent, drain: spec.Drain,
		mailbox: newMailbox(),
		started: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.pid = s.actors.NewLocalPID(s.prefix + h.path + "@" + strconv.FormatUint(h.incarnation, 10))
	h.life.units = 1
	return h
}

// newMailbox makes an unbounded mailbox.
var newMailbox = actor.Unbounded()

// next returns a number no incarnation and no reference of this system had before.
func (s *System) next() uint64 { return s.serial.Add(1) }

// spawn starts h's actor. Its shell is the only code protoactor ever runs for it.
func (s *System) spawn(h *Handle, create func() Process) error {
	sh := &shell{h: h, c: &Context{h: h}, create: create}
	props := actor.PropsFromProducer(func() actor.Actor { return sh },
		actor.WithGuardian(s.guardian),
		actor.WithDispatcher(dispatcher{}),
		actor.WithMailbox(func() actor.Mailbox { return h.mailbox }))
	_, err := s.actors.Root.SpawnNamed(props, h.pid.Id)
	return err
}

// dispatcher runs mailboxes on goroutines that have the stack they will need.
type dispatcher struct{}

// Schedule implements actor.Dispatcher.
func (dispatcher) Schedule(run func()) {
	go func() {
		grow(0)
		run()
	}()
}

// Throughput implements actor.Dispatcher: after so many messages others get a turn.
func (dispatcher) Throughput() int { return 300 }

// grow makes the stack as large as a supervisor that starts a child needs it. Growing it
// piecemeal, with ever more frames to move, took two fifths of a child's start and stop.
//
//go:noinline
func grow(i int) byte {
	var frame [6 << 10]byte
	frame[i] = 1
	return frame[len(frame)-1-i]
}

// admit enters h in the books, unless the system or h's parent has ended.
func (s *System) admit(h *Handle) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("the actor system is closed")
	}
	if h.parent == nil {
		s.roots[h] = struct{}{}
	} else if !h.parent.adopt(h) {
		return fmt.Errorf("its parent %s has ended", h.parent.path)
	}
	s.left++
	return nil
}

func (s *System) forget(h *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.roots, h)
}

// departed notes that no code of one incarnation runs any more.
func (s *System) departed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	if s.closed && s.left == 0 {
		close(s.quiet)
	}
}

// Close refuses further starts, tells every process without a parent to stop, kills
// after 5 s what has not, and waits as long again for killed code to return. Stop the
// tree yourself first when its order or its deadlines matter.
func (s *System) Close() {
	roots, first := s.shut()
	if !first {
		return
	}
	for _, h := range roots {
		h.Stop(Reason{Kind: Shutdown, Detail: "system closed"})
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	expired := false
	for _, h := range roots {
		if !expired {
			select {
			case <-h.done:
			case <-grace.C:
				expired = true
			}
		}
		h.Kill()
	}
	grace.Reset(closeGrace)
	select {
	case <-s.quiet:
	case <-grace.C:
	}
	s.actors.Shutdown()
}

func (s *System) shut() (roots []*Handle, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.closed = true
	if s.left == 0 {
		close(s.quiet)
	}
	for h := range s.roots {
		roots = append(roots, h)
	}
	return roots, true
}
