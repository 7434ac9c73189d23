package writer

import (
	"context"
	"time"

	"millrace/actors"
	"millrace/core/segment"
	"millrace/hooks"
)

// run gives the machine one input, does what it says, and settles.
func (w *writer) run(c *actors.Context, in segment.Input) {
	w.step(c, in)
	w.settle(c)
}

// step gives the machine one input and does what it says. It returns false when an
// effect failed: the machine has been told, and has done without the rest.
func (w *writer) step(c *actors.Context, in segment.Input) bool {
	w.effects = w.m.Step(in, w.effects[:0])
	for _, e := range w.effects {
		if failed := w.do(c, e); failed != nil {
			failed.Now = now()
			w.logger.Warn().Str("error", failed.Why).Msg("local log: an effect failed")
			w.step(c, failed)
			return false
		}
	}
	return true
}

// settle commits what a single member may commit, publishes, and answers.
func (w *writer) settle(c *actors.Context) {
	for w.m.Unsettled() && w.ending == nil {
		w.step(c, &segment.Committed{Next: w.m.Alone(), Now: now()})
	}
	w.queue.answer(w.m.Committed())
	if w.log != nil && w.log.WantsSync() && !w.stopping {
		w.step(c, &segment.Tick{Now: now(), WantSync: true})
	}
}

// do does one effect; a failure comes back as the input that tells of it.
func (w *writer) do(c *actors.Context, e segment.Effect) *segment.Failed {
	switch e := e.(type) {
	case *segment.Open:
		w.open(c)
	case *segment.Roll:
		w.touched = time.Now()
		if op, err := w.files.roll(e); err != nil {
			return &segment.Failed{Op: op, Why: err.Error()}
		}
	case *segment.Write:
		w.touched, w.wrote = time.Now(), true
		if err := w.files.write(e, w.chunk); err != nil {
			return &segment.Failed{Op: segment.OpWrite, Why: err.Error()}
		}
	case *segment.Sync:
		return w.sync(c, e)
	case *segment.Publish:
		w.publish(c, e)
	case *segment.Truncate:
		return w.truncate(e)
	case *segment.Remove:
		if err := w.files.remove(e.Segment); err != nil {
			return &segment.Failed{Op: segment.OpRemove, Segment: e.Segment, Why: err.Error()}
		}
	}
	return nil
}

// sync starts a sync. In Terminate nobody would take its answer: Terminate does it.
func (w *writer) sync(c *actors.Context, e *segment.Sync) *segment.Failed {
	p, err := w.files.at(e.Segment)
	if err != nil {
		return &segment.Failed{Op: segment.OpSync, Why: err.Error()}
	}
	s := &syncing{file: p.segment, done: e.Done}
	w.syncing = s
	if !w.stopping {
		s.task = c.Task("sync", func(context.Context) any { return syncDone{s.file.sync()} })
	}
	return nil
}

// syncEnded tells the machine how the sync went.
func (w *writer) syncEnded(c *actors.Context, err error) {
	done := w.syncing.done
	w.syncing = nil
	if err != nil {
		w.run(c, &segment.Failed{Op: segment.OpSync, Why: err.Error(), Now: now()})
		return
	}
	done.Now = now()
	w.run(c, &done)
}

func (w *writer) truncate(e *segment.Truncate) *segment.Failed {
	end := e.End
	err := w.files.truncate(e)
	if end != "" {
		w.ending = actors.Exit(actors.Crash, "a sync failed, the log was cut to what is synced: "+end)
	}
	if err != nil {
		return &segment.Failed{Op: segment.OpTruncate, Why: err.Error()}
	}
	return nil
}

// publish shows the log; the first time it also tells the hooks. A log whose process was
// killed meanwhile is taken back at once.
func (w *writer) publish(c *actors.Context, e *segment.Publish) {
	if w.log != nil {
		w.log.Publish(e)
		return
	}
	at, fromStore := w.m.Born()
	l := hooks.NewLog(hooks.LogSpec{
		Stream: w.cfg.Stream, Name: w.opener.name, Epoch: w.m.Epoch(), Writer: c.Self(), Mode: w.cfg.Log.Mode,
		Born: at, FromStore: fromStore,
	})
	l.Publish(e)
	w.log = l
	w.show(c) // whoever hears of the log finds it running
	w.cfg.Hooks.Up(l)
	c.OnExit(func() {
		l.End()
		w.cfg.Hooks.Gone(l)
	})
	w.logger.Info().Uint64("epoch", uint64(w.m.Epoch())).Int64("first", int64(e.First)).Int64("next", int64(e.Last)).
		Bool("from_store", fromStore).Msg("local log is up")
}
