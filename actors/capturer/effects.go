package capturer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/segment"
)

// task is one piece of work outside the mailbox.
type task struct{ ctx context.Context }

// within bounds it; the bound ends with the task.
func (t *task) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, d)
}

func (k *capturer) task(c *actors.Context, name string, f func(*task) done) {
	var self *actors.Task
	ready := make(chan struct{})
	self = c.Task(name, func(ctx context.Context) any {
		d := f(&task{ctx})
		<-ready
		d.task = self
		return d
	})
	k.tasks[self] = true
	close(ready)
}

// answering runs f as a task whose failure answers e.
func (k *capturer) answering(c *actors.Context, e pgout.Effect, gen uint64, limit time.Duration, f func(ctx context.Context, d *done) error) {
	k.task(c, fmt.Sprintf("%T", e), func(t *task) done {
		ctx, cancel := t.ctx, context.CancelFunc(func() {})
		if limit > 0 {
			ctx, cancel = t.within(limit)
		}
		defer cancel()
		var d done
		if err := f(ctx, &d); err != nil {
			d.close()
			return done{answer: k.failed(e, gen, err)}
		}
		return d
	})
}

// begin does what an effect asks for.
func (k *capturer) begin(c *actors.Context, e pgout.Effect) {
	pg := k.cfg.Postgres
	switch e := e.(type) {
	case *pgout.Look:
		k.look(c, e)
	case *pgout.Append:
		k.append(c, e)
	case *pgout.SaveRow:
		k.answering(c, e, e.Gen, storeTimeout, func(ctx context.Context, d *done) error { return k.saveRow(ctx, e, d) })
	case *pgout.SaveTables:
		k.answering(c, e, e.Gen, inspectTimeout, func(ctx context.Context, d *done) error { return k.saveTables(ctx, e, d) })
	case *pgout.DropSlots:
		k.answering(c, e, e.Gen, inspectTimeout, func(ctx context.Context, d *done) error {
			d.answer = &pgout.SlotDropped{At: k.at(e.Gen)}
			for _, name := range e.Names {
				if err := pg.DropSlot(ctx, name); err != nil {
					return err
				}
			}
			return nil
		})
	case *pgout.EndBackend:
		k.answering(c, e, e.Gen, inspectTimeout, func(ctx context.Context, d *done) error {
			d.answer = &pgout.Freed{At: k.at(e.Gen)}
			return pg.EndBackend(ctx, e.PID)
		})
	case *pgout.CreateSlot:
		k.answering(c, e, e.Gen, slotTimeout, func(ctx context.Context, d *done) error { return k.createSlot(ctx, e, d) })
	case *pgout.StartStream:
		k.answering(c, e, e.Gen, inspectTimeout, func(ctx context.Context, d *done) error {
			repl, held, err := pg.Stream(ctx, k.cfg.Slot, k.cfg.Publication, e.At)
			d.repl, d.answer = repl, &pgout.Started{At: k.at(e.Gen), Held: held}
			return err
		})
	case *pgout.Inspect:
		k.answering(c, e, e.Gen, inspectTimeout, func(ctx context.Context, d *done) error {
			server, err := pg.Inspect(ctx, k.cfg.Slot, k.cfg.Publication)
			d.answer = &pgout.Inspected{At: k.at(e.Gen), Server: server}
			return err
		})
	case *pgout.CloseSnapshot:
		k.close(c, k.lines.takeSnapshot())
	case *pgout.Load:
		k.load(c, e)
	case *pgout.Receive:
		k.receive(c, e)
	case *pgout.CloseAll, *pgout.Confirm, *pgout.Timer, *pgout.Warn, *pgout.WatchSync: // are done at once, by execute
	}
}

func (k *capturer) load(c *actors.Context, e *pgout.Load) {
	snap, _ := k.lines.get()
	k.answering(c, e, e.Gen, loadTimeout, func(ctx context.Context, d *done) error {
		if snap == nil {
			return errors.New("the snapshot is closed")
		}
		lines, last, err := snap.Next(ctx, e.Table)
		d.answer = &pgout.Rows{At: k.at(e.Gen), Lines: lines, Done: last}
		return err
	})
}

func (k *capturer) receive(c *actors.Context, e *pgout.Receive) {
	_, repl := k.lines.get()
	k.answering(c, e, e.Gen, 0, func(ctx context.Context, d *done) error {
		if repl == nil {
			return errors.New("the stream is closed")
		}
		messages, err := repl.Receive(ctx)
		d.answer = &pgout.Received{At: k.at(e.Gen), Messages: messages}
		return err
	})
}

// append sends records to the writer.
func (k *capturer) append(c *actors.Context, e *pgout.Append) {
	if k.log == nil {
		return
	}
	records := make([]segment.Record, len(e.Records))
	for i, r := range e.Records {
		records[i] = segment.Record{Body: r.Body, Filter: r.Filter}
	}
	ref := c.Request(k.log.Writer, segment.Append{ExpectNext: e.ExpectNext, Records: records})
	k.asked[ref] = func(c *actors.Context, r actors.Reply) { k.step(c, k.appended(e, r)) }
}

// look first waits for what an earlier attempt appended: an empty append is answered
// when all before it is committed.
func (k *capturer) look(c *actors.Context, e *pgout.Look) {
	if k.log == nil {
		return
	}
	ref := c.Request(k.log.Writer, segment.Append{ExpectNext: pos.NoOffset})
	k.asked[ref] = func(c *actors.Context, r actors.Reply) { k.settled(c, e, r) }
}

func (k *capturer) createSlot(ctx context.Context, e *pgout.CreateSlot, d *done) error {
	name := k.cfg.Slot
	if e.Temporary {
		// A fresh name: the server may not have dropped the last attempt's slot yet.
		name = fmt.Sprintf("%.40s_%x", name, k.now())
	}
	snap, err := k.cfg.Postgres.CreateSlot(ctx, name, k.cfg.Publication, e.Temporary)
	if err != nil {
		return err
	}
	d.snap = snap
	tables, err := snap.Tables(ctx)
	d.answer = &pgout.SlotCreated{At: k.at(e.Gen), Consistent: snap.Consistent(), Tables: tables}
	return err
}

// failed is the answer of an effect that could not be done.
func (k *capturer) failed(e pgout.Effect, gen uint64, err error) *pgout.Failed {
	f := pgout.Failure{Class: pgout.Unavailable, Why: err.Error()}
	if pg, ok := errors.AsType[*port.PostgresError](err); ok {
		f.Class, f.Hint, f.PID = pg.Class, pg.Hint, pg.PID
	} else if meta, ok := errors.AsType[*port.MetadataError](err); ok && (meta.Class == port.Conflict || meta.Class == port.UnknownOutcome) {
		f.Class = pgout.Conflict
	}
	return &pgout.Failed{At: k.at(gen), Of: e, Fail: f}
}
