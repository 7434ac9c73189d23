package port

import (
	"context"

	"millrace/core/pgout"
	"millrace/core/pos"
)

// PostgresError is a failed operation on a PostgreSQL server. Class is pgout's, finer
// than this package's: it says what a capture does about it.
type PostgresError struct {
	Op    string      // the method, for example "create slot"
	Class pgout.Class // Unavailable, Denied, Misconfigured, SlotInUse, SlotLost, Unreadable, NotFound, Broken
	Hint  string      // what to run; "" when waiting helps
	PID   int         // SlotInUse: the backend that holds the slot, 0 if not known
	Err   error       // never holds a password or a connection string
}

// Error says what failed and why.
func (e *PostgresError) Error() string {
	return "postgres: " + e.Op + ": " + e.Class.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *PostgresError) Unwrap() error { return e.Err }

// Is matches the error's class as this package has it.
func (e *PostgresError) Is(target error) bool { return target == error(e.portClass()) }

func (e *PostgresError) portClass() Class {
	switch e.Class {
	case pgout.Unavailable, pgout.SlotInUse:
		return Unavailable
	case pgout.Denied, pgout.Misconfigured:
		return Denied
	case pgout.NotFound, pgout.SlotLost, pgout.Unreadable:
		return NotFound
	case pgout.Conflict, pgout.Broken: // a bug, here or there
	}
	return Unclassified
}

// Postgres is one PostgreSQL database, as a capture needs it: it speaks pgoutput with
// proto_version 1 and text values, under session settings that make COPY and the
// stream print alike (datestyle ISO, intervalstyle iso_8601, timezone UTC,
// extra_float_digits 3, bytea_output hex, lc_monetary C, client encoding UTF8).
// Errors are *PostgresError.
type Postgres interface {
	// Inspect reads the server, the slot of that name (nil in the answer if there is
	// none) and the publication with its tables as the catalog has them now, leaf
	// partitions in place of their root. Tables are in the order of their names.
	Inspect(ctx context.Context, slot, publication string) (pgout.Server, error)

	// CreateSlot creates a logical slot and returns its snapshot, which shows exactly the
	// transactions whose commit record begins below Consistent. A temporary slot goes
	// with the snapshot, a permanent one stays. PostgreSQL waits for all running
	// transactions first: not longer than a lock timeout, then Unavailable naming the
	// pids that block. Misconfigured if the slot exists already.
	CreateSlot(ctx context.Context, slot, publication string, temporary bool) (Snapshot, error)

	// DropSlot drops the slot. One that does not exist is no error. SlotInUse if a
	// backend holds it.
	DropSlot(ctx context.Context, slot string) error

	// Stream begins logical replication at start, which the server silently moves up
	// to the slot's confirmed_flush if it is lower. A transaction comes whole if its
	// commit record begins at or above start, and not at all otherwise. A start beyond
	// the WAL skips silently whatever is written up to there. No start moves the slot's
	// confirmed_flush, and while the stream is open nobody else does: Held tells where it is then, and
	// which server that is. SlotInUse, SlotLost, NotFound;
	// Unreadable, here or from Receive, when it comes to a change made while the publication
	// did not exist: whether it exists now does not matter.
	Stream(ctx context.Context, slot, publication string, start pos.LSN) (Replication, pgout.Held, error)

	// EndBackend ends a backend, and returns when it has gone or ctx ends. A backend
	// that does not exist is no error.
	EndBackend(ctx context.Context, pid int) error
}

// Snapshot is the database as it was at one LSN. It is one connection: methods are
// called one at a time, and when the connection breaks the snapshot is gone. A failed
// method leaves nothing to do but Close.
type Snapshot interface {
	// Consistent is the slot's consistent point.
	Consistent() pos.LSN

	// Tables returns the publication's tables as the snapshot has them.
	Tables(ctx context.Context) ([]pgout.Table, error)

	// Next returns the next rows of a table as lines of COPY's text format, the columns
	// in the table's order, those of the row filter only, at least one line unless done;
	// bounded to about a megabyte, or one row. After done the next call begins the next
	// table. The table is the same until then.
	Next(ctx context.Context, table *pgout.Table) (lines [][]byte, done bool, err error)

	// Close ends the connection. It may be called at any time and more than once.
	Close()
}

// Replication is a running stream. Receive and Confirm may be used at the same time.
//
// The stream reads ahead by a bounded amount on its own, and tells the server that it
// lives at least every 10 s and whenever asked, also while nobody calls Receive, so
// that a busy caller is not cut off.
type Replication interface {
	// Receive returns at least one message, in order, bounded to about a megabyte or
	// one message; it waits for the first. What it returns belongs to the caller.
	// When ctx ends it returns, and the stream can go on. Any other error ends the stream.
	Receive(ctx context.Context) ([]pgout.Wal, error)

	// Confirm tells the server that all WAL below lsn may be forgotten. It never waits;
	// the server learns it soon after.
	Confirm(lsn pos.LSN)

	// Close ends the stream; the slot is free soon after. It may be called at any time
	// and more than once.
	Close()
}
