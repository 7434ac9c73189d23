package pgrepl

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// stream implements port.Replication with two goroutines: one reads ahead, one says
// that we live. Both end with it, and turn a panic into the stream's error.
type stream struct {
	db      *Database
	conn    *pgconn.PgConn
	cancel  context.CancelFunc
	done    <-chan struct{} // of cancel's context
	ended   sync.WaitGroup
	closing sync.Once

	confirmed atomic.Uint64
	heard     atomic.Int64 // when the server last said something, nanoseconds
	blocked   atomic.Bool  // the reader waits for room
	kick      chan struct{}

	mu    sync.Mutex
	queue []pgout.Wal
	bytes int
	err   error
	some  chan struct{} // something to receive
	room  chan struct{} // something was received
}

// overhead is what a queued message takes besides its data, bytes.
const overhead = 64

// silence is how long the server may say nothing: it may decode a huge transaction.
const silence = 5 * time.Minute

// endWait is how long the end of a stream is waited for whose backend has let go of its slot.
const endWait = time.Second

// Stream implements port.Postgres.
func (d *Database) Stream(ctx context.Context, slot, publication string, start pos.LSN) (port.Replication, pgout.Held, error) {
	conn, err := d.dial(ctx, d.config.Copy(), opStream)
	if err != nil {
		return nil, pgout.Held{}, err
	}
	id, err := pglogrepl.IdentifySystem(ctx, conn)
	every := time.Duration(0)
	if err == nil {
		every, err = d.statusEvery(ctx, conn)
	}
	if err == nil {
		err = pglogrepl.StartReplication(ctx, conn, quoteIdent(slot), pglogrepl.LSN(start), pglogrepl.StartReplicationOptions{
			Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names " + quoteText(quoteIdent(publication))}})
	}
	if err != nil {
		hangUp(conn)
		return nil, pgout.Held{}, d.classify(opStream, err)
	}
	s := d.follow(conn, every)
	held := pgout.Held{SystemID: id.SystemID, Timeline: int(id.Timeline), Flush: pos.LSN(id.XLogPos)}
	if held.Confirmed, err = s.heldAt(ctx, slot); err != nil {
		s.Close()
		return nil, pgout.Held{}, err
	}
	return s, held, nil
}

// follow begins to read what a connection streams.
func (d *Database) follow(conn *pgconn.PgConn, every time.Duration) *stream {
	life, cancel := context.WithCancel(context.Background())
	s := &stream{db: d, conn: conn, cancel: cancel, done: life.Done(), kick: make(chan struct{}, 1),
		some: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	s.heard.Store(time.Now().UnixNano())
	s.ended.Add(2)
	go s.guard(func() error { return s.read(life) })
	go s.guard(func() error { return s.tell(every) })
	return s
}

// heldAt returns where the slot is that the stream holds. The connection that streams can't be
// asked. Another one of the ordinary kind can, and a server that has no room for one may have some
// for another walsender: the two are counted apart.
func (s *stream) heldAt(ctx context.Context, name string) (pos.LSN, error) {
	conn, err := s.db.ordinary(ctx, opHeld)
	if err != nil {
		var again error
		if conn, again = s.db.connect(ctx, opHeld); again != nil {
			return 0, err
		}
	}
	defer hangUp(conn)
	slot, err := readSlot(ctx, conn, name)
	if err != nil {
		return 0, s.db.classify(opHeld, err)
	}
	if slot != nil && slot.ActivePID == int(s.conn.PID()) {
		return slot.Confirmed, nil
	}
	select {
	case <-s.done: // what ended it has the answer
		s.ended.Wait()
		return 0, s.err
	case <-time.After(endWait):
		return 0, fail(opHeld, pgout.Unavailable, "let host and port of the capture's url lead to one server, without a pooler between",
			fmt.Errorf("replication slot %q is held by backend %d, and another connection to the same address is told of %s", name, s.conn.PID(), holder(slot)))
	}
}

func holder(s *pgout.Slot) string {
	switch {
	case s == nil:
		return "no such slot"
	case s.ActivePID == 0:
		return "one that nobody holds"
	}
	return fmt.Sprintf("one that backend %d holds", s.ActivePID)
}

// statusEvery is a third of the server's patience, at most StatusEvery.
func (d *Database) statusEvery(ctx context.Context, conn *pgconn.PgConn) (time.Duration, error) {
	rows, err := query(ctx, conn, "SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'")
	if err != nil {
		return 0, err
	}
	every := d.opt.StatusEvery
	if len(rows) == 1 {
		if ms, err := strconv.Atoi(string(rows[0][0])); err == nil && ms > 0 {
			every = min(every, time.Duration(ms)*time.Millisecond/3)
		}
	}
	return max(every, 10*time.Millisecond), nil
}

// guard runs f; whatever ends it ends the stream.
func (s *stream) guard(f func() error) {
	defer s.ended.Done()
	defer s.cancel()
	defer func() {
		if p := recover(); p != nil {
			s.fail(fail(opStream, pgout.Broken, "", fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
		}
	}()
	s.fail(s.db.classify(opStream, f()))
}

// fail keeps the first error.
func (s *stream) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	wake(s.some)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var errClosed = errors.New("the stream was closed")

// read reads ahead until there is no room.
func (s *stream) read(life context.Context) error {
	for {
		msg, err := s.conn.ReceiveMessage(life)
		if life.Err() != nil {
			return errClosed
		}
		if err != nil {
			return err
		}
		s.heard.Store(time.Now().UnixNano())
		w, ok, err := s.message(msg)
		if err != nil {
			return err
		}
		if ok && !s.put(w) {
			return errClosed
		}
	}
}

func (s *stream) message(msg pgproto3.BackendMessage) (pgout.Wal, bool, error) {
	switch msg := msg.(type) {
	case *pgproto3.ErrorResponse:
		return pgout.Wal{}, false, pgconn.ErrorResponseToPgError(msg)
	case *pgproto3.CopyDone, *pgproto3.CommandComplete:
		return pgout.Wal{}, false, errors.New("the server ended the stream")
	case *pgproto3.CopyData:
		if len(msg.Data) == 0 {
			return pgout.Wal{}, false, fail(opStream, pgout.Broken, "", errors.New("an empty replication message"))
		}
		return s.copyData(msg.Data)
	}
	return pgout.Wal{}, false, nil
}

func (s *stream) copyData(b []byte) (pgout.Wal, bool, error) {
	switch b[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(b[1:])
		if err != nil {
			return pgout.Wal{}, false, fail(opStream, pgout.Broken, "", err)
		}
		if k.ReplyRequested {
			wake(s.kick)
		}
		return pgout.Wal{End: pos.LSN(k.ServerWALEnd), Asked: k.ReplyRequested}, true, nil
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(b[1:])
		if err != nil {
			return pgout.Wal{}, false, fail(opStream, pgout.Broken, "", err)
		}
		return pgout.Wal{Data: append(make([]byte, 0, len(x.WALData)), x.WALData...), End: pos.LSN(x.ServerWALEnd)}, true, nil
	}
	return pgout.Wal{}, false, fail(opStream, pgout.Broken, "", fmt.Errorf("replication message %q is not known", b[0]))
}

// put queues a message and waits for room; false when the stream is closed.
func (s *stream) put(w pgout.Wal) bool {
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.bytes += len(w.Data) + overhead
	full := s.bytes >= s.db.opt.ReadAhead
	s.mu.Unlock()
	wake(s.some)
	for full {
		s.blocked.Store(true)
		select {
		case <-s.done:
			return false
		case <-s.room:
		}
		s.mu.Lock()
		full = s.bytes >= s.db.opt.ReadAhead
		s.mu.Unlock()
	}
	if s.blocked.Swap(false) {
		s.heard.Store(time.Now().UnixNano())
	}
	return true
}

// Receive implements port.Replication.
func (s *stream) Receive(ctx context.Context) ([]pgout.Wal, error) {
	for {
		s.mu.Lock()
		if n := len(s.queue); n > 0 {
			batch := s.take()
			s.mu.Unlock()
			wake(s.room)
			return batch, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fail("receive", pgout.Unavailable, "", ctx.Err())
		case <-s.some:
		}
	}
}

// take cuts a batch from the queue's front.
func (s *stream) take() []pgout.Wal {
	n, size := 0, 0
	for n < len(s.queue) && (n == 0 || size < batchBytes) {
		size += len(s.queue[n].Data) + overhead
		n++
	}
	s.bytes -= size
	batch := s.queue[:n:n]
	if n == len(s.queue) {
		s.queue = nil
	} else {
		s.queue = s.queue[n:]
	}
	return batch
}

// Confirm implements port.Replication.
func (s *stream) Confirm(lsn pos.LSN) {
	s.confirmed.Store(uint64(lsn))
	wake(s.kick)
}

// tell sends a status at every interval, and when kicked.
func (s *stream) tell(every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return errClosed
		case <-ticker.C:
		case <-s.kick:
		}
		quiet := time.Since(time.Unix(0, s.heard.Load()))
		if s.blocked.Load() {
			quiet = 0
		}
		if quiet > silence {
			return fmt.Errorf("the server has said nothing for %s", quiet.Round(time.Second))
		}
		lsn := pglogrepl.LSN(s.confirmed.Load())
		err := pglogrepl.SendStandbyStatusUpdate(context.Background(), s.conn,
			pglogrepl.StandbyStatusUpdate{WALWritePosition: lsn, ReplyRequested: quiet > 2*every})
		if err != nil {
			return err
		}
	}
}

// Close implements port.Replication.
func (s *stream) Close() {
	s.cancel()
	s.ended.Wait()
	s.closing.Do(func() { hangUp(s.conn) })
}
