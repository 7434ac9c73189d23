package capturer

import (
	"context"
	"fmt"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
)

// survey gathers all that is known at (re)start.
func (k *capturer) survey(c *actors.Context, e *pgout.Look, l *hooks.Log) {
	k.answering(c, e, e.Gen, inspectTimeout, func(ctx context.Context, d *done) error {
		s := pgout.Survey{Log: pgout.LogView{Next: l.Committed(), Born: pos.NoOffset}}
		if at, fromStore := l.Born(); fromStore {
			s.Log.Born = at
		}
		var err error
		if s.Row, err = k.readRow(ctx); err != nil {
			return err
		}
		if s.Tail, err = scan(k.cfg.Disk, l); err != nil {
			return err
		}
		if s.Server, err = k.cfg.Postgres.Inspect(ctx, k.cfg.Slot, k.cfg.Publication); err != nil {
			return err
		}
		if p := s.Server.Publication; p != nil && s.Row != nil {
			if s.Loaded, err = k.readTables(ctx, p.Tables); err != nil {
				return err
			}
		}
		d.answer = &pgout.Surveyed{At: k.at(e.Gen), Survey: s}
		return nil
	})
}

// scan reads the log's tail backwards until it has found the last record.
func scan(disk port.Disk, l *hooks.Log) (pgout.Tail, error) {
	var found pgout.TailScan
	var bad error
	err := hooks.TailBackwards(disk, l, func(ref segment.ChunkRef, b []byte) bool {
		var bodies [][]byte
		for r, err := range chunk.Records(b) {
			if err != nil {
				bad = fmt.Errorf("offset %s: %w; a capture's stream must be its own", ref.Header.ID, err)
				return false
			}
			bodies = append(bodies, r.Body)
		}
		var more bool
		more, bad = found.Chunk(ref.Header.ID, bodies)
		return more
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return pgout.Tail{}, fmt.Errorf("stream %s: reading its tail: %w", l.Stream, err)
	}
	return found.Tail, nil
}

func (k *capturer) readRow(ctx context.Context) (*pgout.Row, error) {
	r, err := k.cfg.Metadata.Capture(ctx, k.cfg.Name)
	if port.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &pgout.Row{Stream: r.Stream, SystemID: r.SystemID, Timeline: r.Timeline, Slot: r.Slot, Phase: pgout.Phase(r.Phase), Consistent: r.ConsistentLSN,
		Event:     pgout.Mark{Position: pgout.Position{LSN: r.EventLSN, Seq: r.EventSeq}, Offset: r.EventOffset},
		Confirmed: r.ConfirmedLSN, Revision: r.Revision}, nil
}

func (k *capturer) saveRow(ctx context.Context, e *pgout.SaveRow, d *done) error {
	r := e.Row
	err := k.cfg.Metadata.SwapCapture(ctx, port.Capture{Name: k.cfg.Name, Stream: r.Stream, SystemID: r.SystemID, Timeline: r.Timeline, Slot: r.Slot,
		Phase: string(r.Phase), ConsistentLSN: r.Consistent, EventLSN: r.Event.LSN, EventSeq: r.Event.Seq, EventOffset: r.Event.Offset, ConfirmedLSN: r.Confirmed, Revision: r.Revision})
	r.Revision++
	d.answer = &pgout.RowSaved{At: k.at(e.Gen), Row: r}
	return err
}

// A loaded table's row is a capture's row of another name: EventLSN holds the
// consistent LSN of the load of the whole capture.

func (k *capturer) readTables(ctx context.Context, tables []pgout.Table) ([]pgout.TableRow, error) {
	var rows []pgout.TableRow
	for i := range tables {
		r, err := k.cfg.Metadata.Capture(ctx, pgout.TableKey(k.cfg.Name, &tables[i]))
		if port.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, pgout.TableRow{Key: r.Name, Consistent: r.ConsistentLSN, Base: r.EventLSN, SystemID: r.SystemID, Timeline: r.Timeline})
	}
	return rows, nil
}

// saveTables overwrites what an earlier load left: only the rows of the capture's own
// last load count, so that a late writer of another does no harm.
func (k *capturer) saveTables(ctx context.Context, e *pgout.SaveTables, d *done) error {
	for _, t := range e.Rows {
		old, err := k.cfg.Metadata.Capture(ctx, t.Key)
		if err != nil && !port.IsNotFound(err) {
			return err
		}
		err = k.cfg.Metadata.SwapCapture(ctx, port.Capture{Name: t.Key, Stream: k.cfg.Stream, SystemID: t.SystemID, Timeline: t.Timeline, Slot: k.cfg.Slot,
			Phase: string(pgout.PhaseStreaming), ConsistentLSN: t.Consistent, EventLSN: t.Base, EventOffset: pos.NoOffset, Revision: old.Revision})
		if err != nil {
			return err
		}
	}
	d.answer = &pgout.TablesSaved{At: k.at(e.Gen)}
	return nil
}
