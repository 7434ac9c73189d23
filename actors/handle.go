package actors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"millrace/core/pos"
)

// The phases of an incarnation. They only grow.
const (
	phaseStarting int32 = iota
	phaseRunning
	phaseStopping
	phaseEnded
)

// Whose turn it is to run code of an incarnation.
const (
	turnIdle   int32 = iota // the shell is between two messages
	turnBusy                // the shell is in a callback
	turnClosed              // the shell never enters a callback again
)

// Handle is the address of one incarnation of a process. It is safe for concurrent use
// and stays valid, and dead, after the process has ended.
type Handle struct {
	sys         *System
	path        string
	incarnation uint64
	parent      *Handle
	drain       bool
	pid         *actor.PID
	mailbox     actor.Mailbox
	ctx         context.Context
	cancel      context.CancelFunc

	phase  atomic.Int32
	turn   atomic.Int32
	queued atomic.Int64
	status atomic.Pointer[any]

	started chan struct{} // closed when Init succeeded
	done    chan struct{}
	gone    chan struct{} // closed when no code of the incarnation runs any more

	wired atomic.Bool // the mailbox has its actor: posting before that panics in the sender

	mu   sync.Mutex // never held while a process's code runs, nor together with another handle's
	life life

	early []any // what came before it was wired; guarded by mu
}

// life is what a handle's mutex guards.
type life struct {
	stop    *Reason  // why it shall end, once that was asked for
	stopNow bool     // do not drain
	reason  Reason   // valid in phaseEnded
	refused *outcome // why Start gives up on it
	units   int      // the shell, each task, and whoever is ending it
	zombie  bool     // ended with units left

	onExit, onGone []func()
	children       map[*Handle]struct{}
	timers         map[*Timer]struct{}
	watched        map[MonitorRef]*Handle // monitors this process holds
	watchers       map[MonitorRef]*Handle // monitors held on this process
	open           openRequests           // requests to this process that await an answer
}

// Path returns the process's name in the tree.
func (h *Handle) Path() string { return h.path }

// Incarnation returns the number of this incarnation; no other process of the system
// ever had it.
func (h *Handle) Incarnation() uint64 { return h.incarnation }

// Nonce returns the boot nonce of the process's system.
func (h *Handle) Nonce() pos.UID { return h.sys.nonce }

// Alive reports whether the process has not ended. It may be starting or stopping. A
// nil handle is dead.
func (h *Handle) Alive() bool { return h != nil && h.phase.Load() < phaseEnded }

// Done closes when the process has ended: its reason is known, its name is free.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Gone closes when the process has ended and no code of it, callback or task, runs any
// more. For a zombie that can be long after Done, or never.
func (h *Handle) Gone() <-chan struct{} { return h.gone }

// Zombie reports whether the process has ended while code of it still runs.
func (h *Handle) Zombie() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life.zombie
}

// Reason returns why the process ended. Until Done closes it is Normal and means nothing.
func (h *Handle) Reason() Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life.reason
}

// MailboxLen returns how many accepted messages are not yet handled.
func (h *Handle) MailboxLen() int { return int(max(0, h.queued.Load())) }

// Status returns what the process last gave to Context.SetStatus, or nil. It never waits.
func (h *Handle) Status() any {
	if p := h.status.Load(); p != nil {
		return *p
	}
	return nil
}

// Send queues a message and never blocks. It returns false when the process is stopping
// or has ended, and for a nil handle or a nil message. True does not promise that the
// message will be handled: the process may end first.
func (h *Handle) Send(msg any) bool {
	if h == nil || msg == nil || h.phase.Load() >= phaseStopping {
		return false
	}
	h.queued.Add(1)
	h.post(msg)
	return true
}

// post puts a message into the mailbox, or keeps it until that can take one.
func (h *Handle) post(msg any) {
	if !h.wired.Load() && h.postpone(msg) {
		return
	}
	h.mailbox.PostUserMessage(msg)
}

func (h *Handle) postpone(msg any) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wired.Load() {
		return false
	}
	h.early = append(h.early, msg)
	return true
}

// wire posts what came early; from now on all goes straight into the mailbox.
func (h *Handle) wire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, msg := range h.early {
		h.mailbox.PostUserMessage(msg)
	}
	h.early = nil
	h.wired.Store(true)
}

// Call sends *Request and waits for its answer. It fails with a *DeadError when the
// process ends first or can't be reached, and with the context's error when that ends
// first. Not for use inside a process: it would wait without taking messages.
func (h *Handle) Call(ctx context.Context, body any) (any, error) {
	r := &Request{Body: body, to: h, answer: make(chan Reply, 1)}
	if !h.Send(r) {
		return nil, h.deadError()
	}
	select {
	case a := <-r.answer:
		return a.Body, a.Err
	case <-h.done:
		select {
		case a := <-r.answer:
			return a.Body, a.Err
		default:
			return nil, h.deadError()
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("call to %s: no answer in time: %w", h.path, ctx.Err())
	}
}

// deadError says why h does not answer.
func (h *Handle) deadError() error {
	switch {
	case h == nil:
		return &DeadError{Path: "(no process)", Reason: Reason{Kind: NoProc}}
	case h.Alive():
		return &DeadError{Path: h.path, Reason: Reason{Kind: NoProc, Detail: "stopping"}}
	}
	return &DeadError{Path: h.path, Reason: h.Reason()}
}

// Stop tells the process to end for the given reason and returns at once; the first
// reason given wins. Its context is cancelled now, Terminate runs when it is done with
// the present message, or with Drain when it has handled what was queued before.
func (h *Handle) Stop(why Reason) { h.askToEnd(why, !h.drain) }

// fail ends the process as soon as it is done with the present message.
func (h *Handle) fail(why Reason) { h.askToEnd(why, true) }

func (h *Handle) askToEnd(why Reason, now bool) {
	h.mu.Lock()
	phase := h.phase.Load()
	first := phase < phaseStopping
	// A crashed task also ends a process that is still draining.
	hurry := phase == phaseStopping && now && !h.life.stopNow && why.Abnormal()
	if first || hurry {
		h.life.stop, h.life.stopNow = &why, now
		h.phase.Store(phaseStopping)
	}
	h.mu.Unlock()
	if first {
		h.cancel()
		h.post(stopMark{})
	}
}

// Kill ends the incarnation now, whatever its code is doing; Terminate does not run.
// When it returns the process has ended, or is being ended by someone else: wait for
// Done to know its name free. See the package comment for what Kill can't do.
func (h *Handle) Kill() { h.end(Reason{Kind: Killed}, false) }

// adopt makes child die with h; false if h has ended.
func (h *Handle) adopt(child *Handle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return false
	}
	if h.life.children == nil {
		h.life.children = map[*Handle]struct{}{}
	}
	h.life.children[child] = struct{}{}
	return true
}

func (h *Handle) disown(child *Handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.life.children, child)
}

// await waits for Init's outcome.
func (h *Handle) await(ctx context.Context, spec Spec) (*Handle, error) {
	started, cancelled := h.started, ctx.Done()
	var grace <-chan time.Time
	for {
		select {
		case <-started:
			return h, nil
		case <-h.done:
			return nil, h.startError()
		case <-cancelled:
			h.refuse(outcomeOf(ctx.Err()))
			h.Stop(Reason{Kind: Shutdown, Detail: "start cancelled"})
			started, cancelled = nil, nil
			if spec.InitGrace > 0 {
				t := time.NewTimer(spec.InitGrace)
				defer t.Stop()
				grace = t.C
			}
		case <-grace:
			h.Kill()
		}
	}
}

// refuse records why Start gives up on h, unless its outcome is already known.
func (h *Handle) refuse(out outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.refused == nil {
		h.life.refused = &out
	}
}

func (h *Handle) startError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out outcome
	if h.life.refused != nil {
		out = *h.life.refused
	}
	if out.ignored {
		return ErrIgnore
	}
	return refused(h.path, h.life.reason, out)
}
