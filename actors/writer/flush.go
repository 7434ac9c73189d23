package writer

import (
	"context"
	"time"

	"millrace/actors"
	"millrace/core/pos"
	"millrace/core/segment"
)

// stateTimeout bounds what Terminate waits for the node's state.
const stateTimeout = 5 * time.Second

// flush writes one batch of what is queued.
func (w *writer) flush(c *actors.Context) {
	if !w.m.Ready() {
		return
	}
	if !w.mark.dirty() {
		w.markDirty(c)
		return
	}
	next := w.m.Next()
	w.queue.refuse(next)
	limit := w.limit.Records()
	w.builder.Reset()
	w.queue.fill(w.builder, next, limit)
	n := w.builder.Len()
	if n > 0 && !w.write(c, n) {
		w.settle(c)
		return
	}
	w.queue.took(n, next)
	switch {
	case len(w.queue.waiting) == 0:
		w.limit.Drained()
	case n >= limit:
		w.limit.Filled()
	}
	w.settle(c)
}

// write seals the chunk and has it written; false if it was taken back.
func (w *writer) write(c *actors.Context, n int) bool {
	at := now()
	w.chunk = w.builder.Seal(w.m.Next(), w.m.Epoch(), at, nil)
	return w.step(c, &segment.Batch{Records: uint32(n), Size: int64(len(w.chunk)), Now: at})
}

// rest makes an idle log clean and gives back what it holds.
func (w *writer) rest(c *actors.Context) {
	if left := w.cfg.IdleAfter - time.Since(w.touched); left > 0 || len(w.queue.waiting) > 0 || w.syncing != nil {
		w.idle = c.After(max(left, time.Second), idle{})
		return
	}
	if !w.mark.unclean() {
		w.release()
		return
	}
	if !w.m.Clean() {
		w.run(c, &segment.Tick{Now: now(), Quiet: true})
		w.idle = c.After(time.Second, idle{})
		return
	}
	w.markClean(c)
}

// release frees what only a log that is written needs.
func (w *writer) release() {
	w.files.close()
	w.wrote = false
	w.builder.Release()
	w.chunk, w.effects = nil, nil
}

// markDirty notes in the node's state that the log is about to be written.
func (w *writer) markDirty(c *actors.Context) {
	r := w.opener.replica(w.m.Committed(), false)
	w.mark.begin(c, false, func(ctx context.Context) error { return w.cfg.State.PutReplica(ctx, r) })
}

// markClean notes that both files are synced and nothing was written since. Nothing is
// written until the answer is there.
func (w *writer) markClean(c *actors.Context) {
	p, err := w.files.at(w.m.Active().First)
	if err != nil {
		w.logger.Warn().Err(err).Msg("local log: not marked clean, its next start reads the active segment")
		return
	}
	r := w.opener.replica(w.m.Committed(), true)
	if at, fromStore := w.m.Born(); fromStore && w.m.Next() == at {
		r.CommittedAtCleanStop = pos.NoOffset // see segment.Resolve: still not known to its readers
	}
	put := func(ctx context.Context) error {
		if err := p.index.sync(); err != nil {
			return err
		}
		return w.cfg.State.PutReplica(ctx, r)
	}
	if !w.stopping {
		w.mark.begin(c, true, put)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	if err := put(ctx); err != nil {
		w.logger.Warn().Err(err).Msg("local log: not marked clean, its next start reads the active segment")
	}
}

// marked takes the outcome of markDirty and markClean.
func (w *writer) marked(c *actors.Context, m marked) {
	w.mark.end(c, m)
	switch {
	case m.err != nil:
		w.logger.Warn().Err(m.err).Bool("clean", m.clean).Msg("local log: the node's state cannot be written")
	case m.clean:
		w.release()
	}
}
