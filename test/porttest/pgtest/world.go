package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// World is everything around one capture's machine, in one thread: a log and a metadata
// row in memory, and a server behind the port. It outlives the machine, and executes
// effects when and in which order it is told to.
type World struct {
	Postgres port.Postgres
	Config   pgout.Config
	Now      pos.Millis
	Patience time.Duration // how long a Receive waits; 0: not at all

	// Log is the stream; records below Synced survive a power loss.
	Log    [][]byte
	Synced int
	Row    *pgout.Row
	Tables map[string]pgout.TableRow
	// Reloads are the reasons of all loads, Losses of all errors.
	Reloads, Losses []string
	Confirmed       pos.LSN
	// Wrong is the first thing a capture must not do that this one did.
	Wrong error

	machine *pgout.Machine
	todo    []pgout.Effect // asked for and not done
	snap    port.Snapshot
	repl    port.Replication
	timer   pos.Millis
	watch   *pgout.WatchSync
	dry     int // how often in a row a Receive found nothing but keepalives
}

// Start makes a new machine, as a new process does.
func (w *World) Start() {
	w.machine = pgout.New(w.Config)
	w.todo, w.timer, w.watch = nil, 0, nil
	w.step(&pgout.Up{At: pgout.At{Now: w.Now}})
}

// Kill ends the process: connections go, nothing more is done. With power, what was
// not synced beyond keep records goes too.
func (w *World) Kill(power bool, keep int) {
	w.closeAll()
	w.todo, w.machine = nil, nil
	if power {
		w.Log = w.Log[:min(len(w.Log), w.Synced+keep)]
	}
	w.Synced = min(w.Synced, len(w.Log))
}

// Status is the machine's.
func (w *World) Status() pgout.Status { return w.machine.Status(w.Now) }

// Started reports whether a machine runs.
func (w *World) Started() bool { return w.machine != nil }

// Quiet reports whether all that was asked for is the next message, and none came when
// it was last looked for, three times.
func (w *World) Quiet() bool {
	if len(w.todo) != 1 || w.dry < 3 {
		return false
	}
	_, ok := w.todo[0].(*pgout.Receive)
	return ok && w.Status().InFlight == 0
}

// Pending is the number of effects asked for and not done.
func (w *World) Pending() int { return len(w.todo) }

// Do executes the i-th effect that was asked for, if its order lets it: appends among
// themselves are in order, everything else is not.
func (w *World) Do(i int) {
	if len(w.todo) == 0 {
		return
	}
	i %= len(w.todo)
	if _, ok := w.todo[i].(*pgout.Append); ok {
		for k := range i {
			if _, earlier := w.todo[k].(*pgout.Append); earlier {
				i = k
				break
			}
		}
	}
	e := w.todo[i]
	w.todo = append(w.todo[:i:i], w.todo[i+1:]...)
	if in := w.execute(e); in != nil {
		w.step(in)
	}
}

// Lose makes the i-th effect happen without an answer but an error, or not at all.
func (w *World) Lose(i int, happened bool) {
	if len(w.todo) == 0 {
		return
	}
	i %= len(w.todo)
	e := w.todo[i]
	if _, ok := e.(*pgout.Append); ok {
		return
	}
	w.todo = append(w.todo[:i:i], w.todo[i+1:]...)
	if happened {
		w.execute(e)
	}
	w.step(&pgout.Failed{At: w.at(gen(e)), Of: e, Fail: pgout.Failure{Class: pgout.Conflict, Why: "the answer was lost"}})
}

// Pass lets time pass.
func (w *World) Pass(ms pos.Millis) {
	w.Now += ms
	if w.timer != 0 && w.Now >= w.timer {
		w.timer = 0
		w.step(&pgout.Tick{At: pgout.At{Now: w.Now}})
	}
}

// Sync makes the first n records durable.
func (w *World) Sync(n int) {
	w.Synced = max(w.Synced, min(n, len(w.Log)))
	if w.watch != nil && w.Synced > int(w.watch.From) {
		in := &pgout.Synced{At: w.at(w.watch.Gen), Next: pos.Offset(w.Synced)}
		w.watch = nil
		w.step(in)
	}
}

func (w *World) at(gen uint64) pgout.At { return pgout.At{Gen: gen, Now: w.Now} }

func (w *World) step(in pgout.Input) {
	effects := w.machine.Step(in, nil)
	w.wrong(w.machine.Check())
	for _, e := range effects {
		switch e := e.(type) {
		case *pgout.Timer:
			w.timer = e.At
		case *pgout.CloseAll:
			w.closeAll()
			w.cancel()
		case *pgout.CloseSnapshot:
			w.closeSnapshot()
		case *pgout.Warn:
			if e.Error {
				w.Losses = append(w.Losses, e.Text)
			} else {
				w.Reloads = append(w.Reloads, e.Text)
			}
		case *pgout.WatchSync:
			w.watch = e
		case *pgout.Confirm:
			if w.repl != nil {
				w.confirm(e.LSN)
			}
		case *pgout.Look, *pgout.SaveRow, *pgout.SaveTables, *pgout.DropSlots, *pgout.EndBackend, *pgout.CreateSlot,
			*pgout.Load, *pgout.StartStream, *pgout.Receive, *pgout.Inspect, *pgout.Append:
			w.todo = append(w.todo, e)
		}
	}
	if w.watch != nil && w.Synced > int(w.watch.From) {
		w.Sync(w.Synced)
	}
}

func (w *World) wrong(err error) {
	if w.Wrong == nil {
		w.Wrong = err
	}
}

// confirm checks that nothing is confirmed that the log may lose, or that E does not
// speak for.
func (w *World) confirm(lsn pos.LSN) {
	if lsn < w.Confirmed {
		w.wrong(fmt.Errorf("%s confirmed after %s", lsn, w.Confirmed))
	}
	if lsn > w.Row.Confirmed {
		w.wrong(fmt.Errorf("%s confirmed, and the row knows of %s", lsn, w.Row.Confirmed))
	}
	w.Confirmed = lsn
	w.repl.Confirm(lsn)
	for offset := len(w.Log) - 1; offset >= 0; offset-- {
		e, err := pgout.DecodeRecord(w.Log[offset])
		if err != nil {
			w.wrong(err)
			return
		}
		// What was loaded stands at the stream's position, but is no event below it.
		if e.Source.LSN >= lsn || e.Source.Snapshot != pgout.SnapshotNo {
			continue
		}
		if offset >= w.Synced {
			w.wrong(fmt.Errorf("confirmed %s, which passes %s at offset %d, fsynced up to %d", lsn, e.Position(), offset, w.Synced))
		}
		if pos.Offset(offset) > w.Row.Event.Offset {
			w.wrong(fmt.Errorf("confirmed %s, which passes %s at offset %d, and E is %s at %s", lsn, e.Position(), offset, w.Row.Event.Position, w.Row.Event.Offset))
		}
		return
	}
}

func (w *World) closeSnapshot() {
	if w.snap != nil {
		w.snap.Close()
		w.snap = nil
	}
}

func (w *World) closeAll() {
	w.closeSnapshot()
	w.watch = nil
	if w.repl != nil {
		w.repl.Close()
		w.repl = nil
	}
}

// cancel ends what the shell has out: it waits for its tasks before it begins anew. Only
// appends, which lie in the writer's mailbox, may still happen.
func (w *World) cancel() {
	w.todo = slices.DeleteFunc(w.todo, func(e pgout.Effect) bool {
		_, mailed := e.(*pgout.Append)
		return !mailed
	})
}

func gen(e pgout.Effect) uint64 {
	switch e := e.(type) {
	case *pgout.Look:
		return e.Gen
	case *pgout.SaveRow:
		return e.Gen
	case *pgout.DropSlots:
		return e.Gen
	case *pgout.EndBackend:
		return e.Gen
	case *pgout.CreateSlot:
		return e.Gen
	case *pgout.Load:
		return e.Gen
	case *pgout.SaveTables:
		return e.Gen
	case *pgout.StartStream:
		return e.Gen
	case *pgout.Receive:
		return e.Gen
	case *pgout.Inspect:
		return e.Gen
	case *pgout.Append:
		return e.Gen
	case *pgout.CloseAll, *pgout.CloseSnapshot, *pgout.Confirm, *pgout.Timer, *pgout.Warn, *pgout.WatchSync: // never in todo
	}
	panic(fmt.Sprintf("%T has no generation", e))
}

// execute does what an effect asks for. nil: nothing came of it yet, and it is asked
// for again.
func (w *World) execute(e pgout.Effect) pgout.Input {
	ctx := context.Background()
	at := w.at(gen(e))
	in, err := w.perform(ctx, e, at)
	if err == nil {
		return in
	}
	f := pgout.Failure{Class: pgout.Broken, Why: err.Error()}
	if pg, ok := errors.AsType[*port.PostgresError](err); ok {
		f.Class, f.Hint, f.PID = pg.Class, pg.Hint, pg.PID
	}
	return &pgout.Failed{At: at, Of: e, Fail: f}
}

func (w *World) perform(ctx context.Context, e pgout.Effect, at pgout.At) (pgout.Input, error) {
	switch e := e.(type) {
	case *pgout.Look:
		return w.look(ctx, at)
	case *pgout.SaveRow:
		return w.saveRow(e, at)
	case *pgout.SaveTables:
		for _, t := range e.Rows {
			w.Tables[t.Key] = t
		}
		return &pgout.TablesSaved{At: at}, nil
	case *pgout.DropSlots:
		for _, name := range e.Names {
			if err := w.Postgres.DropSlot(ctx, name); err != nil {
				return nil, err
			}
		}
		return &pgout.SlotDropped{At: at}, nil
	case *pgout.EndBackend:
		return &pgout.Freed{At: at}, w.Postgres.EndBackend(ctx, e.PID)
	case *pgout.CreateSlot:
		return w.createSlot(ctx, e, at)
	case *pgout.Load:
		if w.snap == nil {
			return nil, errors.New("no snapshot is open")
		}
		lines, done, err := w.snap.Next(ctx, e.Table)
		return &pgout.Rows{At: at, Lines: lines, Done: done}, err
	case *pgout.StartStream:
		repl, held, err := w.Postgres.Stream(ctx, w.Config.Slot, w.Config.Publication, e.At)
		if err == nil {
			w.repl, w.dry, w.Confirmed = repl, 0, 0
		}
		return &pgout.Started{At: at, Held: held}, err
	case *pgout.Receive:
		return w.receive(e, at)
	case *pgout.Inspect:
		s, err := w.Postgres.Inspect(ctx, w.Config.Slot, w.Config.Publication)
		return &pgout.Inspected{At: at, Server: s}, err
	case *pgout.Append:
		return w.append(e, at), nil
	case *pgout.CloseAll, *pgout.CloseSnapshot, *pgout.Confirm, *pgout.Timer, *pgout.Warn, *pgout.WatchSync: // never in todo
	}
	return nil, fmt.Errorf("no such effect: %T", e)
}

func (w *World) look(ctx context.Context, at pgout.At) (pgout.Input, error) {
	server, err := w.Postgres.Inspect(ctx, w.Config.Slot, w.Config.Publication)
	if err != nil {
		return nil, err
	}
	s := pgout.Survey{Server: server, Log: pgout.LogView{Next: pos.Offset(len(w.Log)), Born: pos.NoOffset}}
	if w.Row != nil {
		row := *w.Row
		s.Row = &row
	}
	if server.Publication != nil {
		for _, t := range server.Publication.Tables {
			if r, ok := w.Tables[pgout.TableKey(w.Config.Name, &t)]; ok {
				s.Loaded = append(s.Loaded, r)
			}
		}
	}
	var scan pgout.TailScan
	// Chunks of three records, aligned to their offsets.
	for end := len(w.Log); end > 0; {
		first := (end - 1) / 3 * 3
		more, err := scan.Chunk(pos.Offset(first), w.Log[first:end])
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		end = first
	}
	s.Tail = scan.Tail
	return &pgout.Surveyed{At: at, Survey: s}, nil
}

func (w *World) saveRow(e *pgout.SaveRow, at pgout.At) (pgout.Input, error) {
	stored := pos.Revision(0)
	if w.Row != nil {
		stored = w.Row.Revision
	}
	if stored != e.Row.Revision {
		return nil, fmt.Errorf("row has revision %s, not %s", stored, e.Row.Revision)
	}
	row := e.Row
	row.Revision++
	w.Row = &row
	return &pgout.RowSaved{At: at, Row: row}, nil
}

func (w *World) createSlot(ctx context.Context, e *pgout.CreateSlot, at pgout.At) (pgout.Input, error) {
	name := w.Config.Slot
	if e.Temporary {
		name = fmt.Sprintf("%s_%d", name, e.Gen)
	}
	snap, err := w.Postgres.CreateSlot(ctx, name, w.Config.Publication, e.Temporary)
	if err != nil {
		return nil, err
	}
	w.closeSnapshot()
	w.snap = snap
	tables, err := snap.Tables(ctx)
	return &pgout.SlotCreated{At: at, Consistent: snap.Consistent(), Tables: tables}, err
}

// receive asks without waiting; when nothing has come the effect stays.
func (w *World) receive(e *pgout.Receive, at pgout.At) (pgout.Input, error) {
	if w.repl == nil {
		return nil, errors.New("no stream is open")
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.Patience)
	defer cancel()
	batch, err := w.repl.Receive(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		w.todo, w.dry = append(w.todo, e), w.dry+1
		return nil, nil
	}
	w.dry++
	if slices.ContainsFunc(batch, func(m pgout.Wal) bool { return m.Data != nil }) {
		w.dry = 0
	}
	return &pgout.Received{At: at, Messages: batch}, err
}

func (w *World) append(e *pgout.Append, at pgout.At) pgout.Input {
	if e.ExpectNext != pos.NoOffset && int(e.ExpectNext) != len(w.Log) {
		return &pgout.Refused{At: at, Next: pos.Offset(len(w.Log))}
	}
	for _, r := range e.Records {
		w.Log = append(w.Log, r.Body)
	}
	return &pgout.Appended{At: at, Next: pos.Offset(len(w.Log))}
}
