package writer

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
)

// writer is the process. Its state is the machine's; what it adds is the queue of
// requests, the open files and where the node's state stands.
type writer struct {
	cfg     Config
	m       *segment.Machine
	files   files
	builder *chunk.Builder
	limit   segment.Limit
	queue   queue
	opener  *opener
	mark    mark
	logger  zerolog.Logger

	log      *hooks.Log // nil until the log is found
	stage    string     // what the start is at
	stageWhy string

	chunk    []byte // the sealed chunk a Write is about
	effects  []segment.Effect
	syncing  *syncing
	flushing bool // a flush message is on its way
	stopping bool // in Terminate: syncs are done at once
	touched  time.Time
	wrote    bool // a chunk, since the files were last given back
	ending   *actors.Reason

	tick    *actors.Timer
	tickAt  pos.Millis
	idle    *actors.Timer
	shownAs segment.Status
}

// The writer's messages to itself.
type (
	flush    struct{}
	tick     struct{}
	idle     struct{}
	stage    struct{ state, why string }
	syncDone struct{ err error }
)

// syncing is the sync that is under way.
type syncing struct {
	file *file
	done segment.Synced
	task *actors.Task
}

// Init registers the name and begins the start. It fails only when another live writer
// has the name, which is a mistake of whoever started this one.
func (w *writer) Init(c *actors.Context) error {
	name := Name(w.cfg.Stream, w.cfg.Node)
	if !w.cfg.Registry.Register(c, name) {
		return fmt.Errorf("writer of stream %s: %s is registered already; stop the other one first", w.cfg.Stream, name)
	}
	c.OnGone(w.opener.release)
	w.touched = time.Now()
	if w.cfg.Retention != nil {
		bounds := w.cfg.Retention()
		w.run(c, &segment.Retain{Seam: pos.NoOffset, Captured: pos.NoOffset, Set: &bounds, Now: now()})
	}
	w.run(c, &segment.Tick{Now: now()})
	w.after(c)
	return nil
}

// Handle takes one message.
func (w *writer) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case *actors.Request:
		w.request(c, msg)
	case flush:
		w.flushing = false
		w.flush(c)
	case syncDone:
		w.syncEnded(c, msg.err)
	case tick:
		w.tick = nil
		w.run(c, &segment.Tick{Now: now()})
	case idle:
		w.idle = nil
		w.rest(c)
	case opened:
		w.run(c, &segment.Retain{Seam: pos.NoOffset, Captured: w.opener.captured, Now: now()})
		w.run(c, msg.input())
		if w.m.Found() && !w.opener.rec.Clean {
			w.mark.state = markedUnsure
		}
	case marked:
		w.marked(c, msg)
	case markAgain:
		w.mark.hold = false
	case stage:
		w.stage, w.stageWhy = msg.state, msg.why
	default:
		w.tell(c, msg)
	}
	w.after(c)
	return w.ending
}

// request answers what is asked, at once or when it is done.
func (w *writer) request(c *actors.Context, r *actors.Request) {
	if a, ok := r.Body.(segment.Append); ok {
		w.append(r, a)
		return
	}
	if w.tell(c, r.Body) {
		r.Reply(w.status())
		return
	}
	r.Fail(fmt.Errorf("the writer of stream %s takes no %T", w.cfg.Stream, r.Body))
}

// append queues the records, unless nothing can be written and too much is held.
func (w *writer) append(r *actors.Request, a segment.Append) {
	p := newPending(r, a)
	if !w.m.Ready() && len(w.queue.waiting) > 0 && w.queue.bytes+p.bytes > w.cfg.HoldBytes {
		s := w.status()
		r.Reply(segment.Refused{Next: w.m.Next(), Why: fmt.Sprintf("the log is %s (%s) and %d bytes wait already", s.State, s.Why, w.queue.bytes)})
		return
	}
	w.queue.add(p)
}

// tell takes a message that needs no answer; false if it is not one of the writer's.
func (w *writer) tell(c *actors.Context, msg any) bool {
	switch msg := msg.(type) {
	case segment.Seam:
		w.run(c, &segment.Retain{Seam: msg.Next, Captured: pos.NoOffset, Now: now()})
	case segment.Captured:
		w.run(c, &segment.Retain{Seam: pos.NoOffset, Captured: msg.Next, Now: now()})
	case segment.SetRetention:
		w.run(c, &segment.Retain{Seam: pos.NoOffset, Captured: pos.NoOffset, Set: &msg.Retention, Now: now()})
		w.cfg.Hooks.RetentionChanged(w.cfg.Stream, msg.Retention)
	case segment.SyncNow:
		w.run(c, &segment.Tick{Now: now(), WantSync: true})
	default:
		return false
	}
	return true
}

// after does what every message may have made due: the next flush, the next timer, the
// status.
func (w *writer) after(c *actors.Context) {
	if len(w.queue.waiting) > 0 && w.m.Ready() && w.mark.takes() && !w.flushing {
		w.flushing = true
		c.Self().Send(flush{})
	}
	if at, ok := w.m.Due(); ok && (w.tick == nil || at < w.tickAt) {
		w.tick.Stop()
		w.tickAt = at
		w.tick = c.After(max(0, at.Sub(now())), tick{})
	}
	if w.files.open != nil && w.unwritten() {
		w.release()
	}
	if w.idle == nil && (w.files.open != nil || w.mark.unclean()) {
		w.idle = c.After(w.cfg.IdleAfter, idle{})
	}
	w.show(c)
}

// unwritten reports whether nothing was, or is about to be, written since the files were
// last given back: a log that only made its first segment needs none of them.
func (w *writer) unwritten() bool {
	return !w.wrote && w.syncing == nil && len(w.queue.waiting) == 0
}

// show publishes the status if it has changed.
func (w *writer) show(c *actors.Context) {
	if s := w.status(); s != w.shownAs {
		w.shownAs = s
		c.SetStatus(s)
	}
}

// status is the machine's, in the finer states only the shell knows.
func (w *writer) status() segment.Status {
	s := w.m.Status()
	s.Held = len(w.queue.waiting)
	state, _ := w.m.State()
	switch {
	case state == segment.Opening:
		s.State, s.Why = w.stage, w.stageWhy
	case state == segment.Running && w.mark.why != "":
		s.State, s.Why, s.Until = "waiting", w.mark.why, w.mark.until
	}
	return s
}

// Terminate makes the log clean, unless the process ends for a bug or a failed sync:
// then the next start reads the active segment.
func (w *writer) Terminate(c *actors.Context, why actors.Reason) {
	defer w.files.close()
	if why.Abnormal() || !w.m.Found() {
		return
	}
	w.stopping = true
	w.mark.wait()
	if w.syncing != nil {
		<-w.syncing.task.Done()
		w.syncEnded(c, w.syncing.file.sync())
	}
	w.run(c, &segment.Tick{Now: now(), Quiet: true})
	for w.syncing != nil {
		w.syncEnded(c, w.syncing.file.sync())
	}
	if w.mark.unclean() && w.m.Clean() {
		w.markClean(c)
	}
}

func now() pos.Millis { return pos.MillisOf(time.Now()) }
