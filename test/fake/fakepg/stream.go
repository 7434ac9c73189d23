package fakepg

import (
	"context"
	"fmt"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// stream implements port.Replication.
type stream struct {
	*conn
	slot  *slot
	pub   string
	start pos.LSN
	sent  pos.LSN                    // WAL end told in keepalives
	next  int                        // of db.wal
	queue []pgout.Wal                // what is left of the transaction being sent
	told  map[uint32]*pgout.Relation // shapes this connection was told
}

// Stream implements port.Postgres.
func (db *DB) Stream(ctx context.Context, name, publicationName string, start pos.LSN) (port.Replication, pgout.Held, error) {
	if err := db.enter(ctx, "stream", name); err != nil {
		return nil, pgout.Held{}, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	s := db.slots[name]
	switch {
	case s == nil:
		return nil, pgout.Held{}, refusal("stream", pgout.NotFound, "replication slot %q does not exist", name)
	case s.lost:
		return nil, pgout.Held{}, refusal("stream", pgout.SlotLost, "can no longer get changes from replication slot %q", name)
	case s.active != nil:
		err := refusal("stream", pgout.SlotInUse, "replication slot %q is active for PID %d", name, s.active.pid)
		err.PID = s.active.pid
		return nil, pgout.Held{}, err
	}
	c := db.connect()
	s.active = c
	// Reading begins at restart_lsn: an early keepalive tells an end below the start.
	st := &stream{conn: c, slot: s, pub: publicationName, start: max(start, s.confirmed), sent: s.restart, told: map[uint32]*pgout.Relation{}}
	held := pgout.Held{SystemID: db.systemID, Timeline: db.timeline, Flush: db.flush, Confirmed: s.confirmed}
	return st, held, db.leave("stream", name)
}

// Receive implements port.Replication.
func (s *stream) Receive(ctx context.Context) ([]pgout.Wal, error) {
	if err := s.db.enter(ctx, "receive", s.slot.name); err != nil && ctx.Err() == nil {
		s.Close()
		return nil, err
	}
	every := s.db.KeepaliveEvery
	if every == 0 {
		every = 5 * time.Second
	}
	idle := time.NewTimer(every)
	defer idle.Stop()
	for {
		s.db.mu.Lock()
		batch, err := s.take()
		changed := s.db.changed
		s.db.mu.Unlock()
		if err != nil || len(batch) > 0 {
			return batch, err
		}
		select {
		case <-ctx.Done():
			return nil, refusal("receive", pgout.Unavailable, "%w", ctx.Err())
		case <-s.ended:
		case <-changed:
		case <-idle.C:
			s.db.mu.Lock()
			if !s.db.frozen {
				s.sent = max(s.sent, s.db.flush)
				s.queue = append(s.queue, pgout.Wal{End: s.sent})
			}
			idle.Reset(every)
			s.db.mu.Unlock()
		}
	}
}

// take cuts a batch, reading further in the WAL when nothing is left.
func (s *stream) take() ([]pgout.Wal, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.db.frozen {
		return nil, nil
	}
	for len(s.queue) == 0 && s.next < len(s.db.wal) && s.db.wal[s.next].end <= s.db.flush {
		r := s.db.wal[s.next]
		s.next++
		if r.final >= s.start && len(r.changes) > 0 {
			if s.db.pubAt(s.pub, r.final) == nil {
				s.fail(refusal("stream", pgout.Unreadable, "publication %q does not exist", s.pub))
				return nil, s.err
			}
			s.decode(r)
		}
		s.sent = max(s.sent, r.end)
	}
	n := min(len(s.queue), s.db.batch())
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	return batch, nil
}

// decode queues a transaction's messages, and a keepalive in the middle of a long one.
func (s *stream) decode(r *record) {
	pub := s.db.pubAt(s.pub, r.final)
	began := false
	for i := range r.changes {
		c := &r.changes[i]
		var oids []uint32
		for k, name := range c.tables {
			if _, in := pub.at(name, r.final); !in || c.op == opAddColumn {
				continue
			}
			if !began {
				began = true
				s.send(&pgout.Begin{Final: r.final, Micros: r.micros, XID: r.xid})
			}
			if shape := c.shapes[k]; s.told[shape.OID] != shape {
				s.told[shape.OID] = shape
				s.send(shape)
			}
			oids = append(oids, c.shapes[k].OID)
		}
		if len(oids) > 0 {
			s.send(message(c, oids))
		}
		if began && i%50 == 49 {
			s.queue = append(s.queue, pgout.Wal{End: s.sent})
		}
	}
	if began {
		s.send(&pgout.Commit{Final: r.final, End: r.end, Micros: r.micros})
	}
}

func (s *stream) send(m pgout.Message) {
	s.queue = append(s.queue, pgout.Wal{Data: pgout.Encode(nil, m), End: s.sent})
}

// message is a change as pgoutput tells it under the table's replica identity.
func message(c *change, oids []uint32) pgout.Message {
	rel := c.shapes[0]
	kind, old := pgout.OldFull, c.old
	if rel.Identity != pgout.IdentityFull {
		kind, old = pgout.OldKey, keyOnly(rel, c.old)
	}
	switch c.op {
	case pgout.OpCreate:
		return &pgout.Insert{Relation: oids[0], New: c.sent}
	case pgout.OpUpdate:
		if kind == pgout.OldKey && c.key == c.was {
			return &pgout.Update{Relation: oids[0], New: c.sent}
		}
		return &pgout.Update{Relation: oids[0], OldKind: kind, Old: old, New: c.sent}
	case pgout.OpDelete:
		return &pgout.Delete{Relation: oids[0], OldKind: kind, Old: old}
	case pgout.OpTruncate:
		return &pgout.Truncate{Relations: oids}
	case pgout.OpRead, pgout.OpMessage: // a capture's, not a client's
	}
	panic(fmt.Sprintf("pgoutput has no message for %q", c.op))
}

// keyOnly has NULL in all but the key columns, as the real server does.
func keyOnly(rel *pgout.Relation, row pgout.Tuple) pgout.Tuple {
	key := make(pgout.Tuple, len(row))
	for i := range row {
		key[i] = pgout.Value{Kind: pgout.Null}
		if rel.Columns[i].Key {
			key[i] = row[i]
		}
	}
	return key
}

// Confirm implements port.Replication.
func (s *stream) Confirm(lsn pos.LSN) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.err == nil && lsn != 0 {
		s.slot.confirmed, s.slot.restart = lsn, lsn
		s.db.touch()
	}
}

// Close implements port.Replication.
func (s *stream) Close() {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.fail(broken("the stream was closed"))
}
