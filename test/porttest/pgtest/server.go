package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// Server is a PostgreSQL server under test, whose publication "pub" has the table
// public.t (id int8 primary key, text text, replica identity DEFAULT), empty.
type Server interface {
	// Postgres returns an adapter that waits at most a second for running transactions.
	Postgres() port.Postgres
	Begin() Tx
	// Crash kills the server and starts it again.
	Crash()
	// DropPublication and CreatePublication drop and make "pub".
	DropPublication()
	CreatePublication()
	// Noise writes WAL that concerns no published table.
	Noise()
}

// Tx is an open transaction of an application.
type Tx interface {
	Insert(id, text string)
	Update(id, newID, text string)
	Delete(id string)
	Truncate()
	Savepoint()
	RollbackTo()
	Commit()
	Rollback()
}

// suite is one test's server with the slot "pgtest".
type suite struct {
	*testing.T
	Server
	pg  port.Postgres
	ctx context.Context
}

const slot = "pgtest"

// within bounds every wait of a test.
const within = time.Minute

func (s *suite) commit(f func(tx Tx)) {
	tx := s.Begin()
	f(tx)
	tx.Commit()
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// refused wants an error of a class, and returns the backend it names.
func (s *suite) refused(err error, class pgout.Class) (pid int) {
	s.Helper()
	e, ok := errors.AsType[*port.PostgresError](err)
	if !ok || e.Class != class {
		s.Fatalf("got %v, want class %s", err, class)
	}
	return e.PID
}

// create makes the slot and returns its consistent point; the snapshot is closed.
func (s *suite) create() pos.LSN {
	s.Helper()
	snap, err := s.pg.CreateSlot(s.ctx, slot, "pub", false)
	s.must(err)
	defer snap.Close()
	return snap.Consistent()
}

func (s *suite) stream(at pos.LSN) port.Replication {
	s.Helper()
	repl, err := s.open(at)
	s.must(err)
	return repl
}

// open opens a stream. The slot of one that was just closed is free soon, not at once.
func (s *suite) open(at pos.LSN) (port.Replication, error) {
	s.Helper()
	for range 100 {
		repl, held, err := s.pg.Stream(s.ctx, slot, "pub", at)
		if err == nil {
			s.Cleanup(repl.Close)
			s.holds(held)
			return repl, nil
		}
		if e, ok := errors.AsType[*port.PostgresError](err); !ok || e.Class != pgout.SlotInUse {
			return nil, err
		}
		<-time.After(50 * time.Millisecond)
	}
	s.Fatal("the slot stays in use")
	return nil, nil
}

// holds holds what a stream was told of the slot to an inspection.
func (s *suite) holds(held pgout.Held) {
	s.Helper()
	server, err := s.pg.Inspect(s.ctx, slot, "pub")
	s.must(err)
	want := pgout.Held{SystemID: server.SystemID, Timeline: server.Timeline, Flush: held.Flush, Confirmed: server.Slot.Confirmed}
	if held != want || held.Flush == 0 || held.Flush > server.Flush || server.Slot.ActivePID == 0 {
		s.Fatalf("a stream was told %+v, an inspection %+v with %+v", held, server, server.Slot)
	}
}

// slotState inspects the slot.
func (s *suite) slotState() *pgout.Slot {
	s.Helper()
	server, err := s.pg.Inspect(s.ctx, slot, "pub")
	s.must(err)
	return server.Slot
}

// rows loads the table from a snapshot, as COPY lines.
func (s *suite) rows(snap port.Snapshot) []string {
	s.Helper()
	tables, err := snap.Tables(s.ctx)
	s.must(err)
	if len(tables) != 1 || tables[0].FullName() != "public.t" {
		s.Fatalf("tables %+v", tables)
	}
	var all []string
	for {
		lines, done, err := snap.Next(s.ctx, &tables[0])
		s.must(err)
		for _, l := range lines {
			all = append(all, string(l))
		}
		if done {
			return all
		}
	}
}
