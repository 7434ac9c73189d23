package shop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Writers are connections that change the shop at the same time, until they are
// stopped. They reconnect when the server goes away.
type Writers struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	each   []*writer

	commits, events, rollbacks, broken atomic.Int64
	failed                             chan error // one is enough; the writers stop at it
}

// writer is one of them.
type writer struct {
	of    *Writers
	id    int
	url   string
	pause time.Duration // between transactions, on average
	rng   *rand.Rand
	n     int   // of the last transaction begun
	acked []int // transactions that PostgreSQL acknowledged
}

// Start lets `count` writers loose on the database. pause is the average time each
// waits between its transactions; the seed fixes what each does, not how their
// transactions interleave.
func Start(url string, count int, pause time.Duration, seed uint64) *Writers {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writers{cancel: cancel, failed: make(chan error, 1)}
	for id := range count {
		one := &writer{of: w, id: id + 1, url: url, pause: pause, rng: rand.New(rand.NewPCG(seed, uint64(id)))}
		w.each = append(w.each, one)
		w.done.Go(func() { one.run(ctx) })
	}
	return w
}

// Commits is the number of acknowledged transactions so far.
func (w *Writers) Commits() int64 { return w.commits.Load() }

// Events is the number of their row events, with those in audit.
func (w *Writers) Events() int64 { return w.events.Load() }

// Rollbacks is the number of transactions rolled back, by wish or for a deadlock.
func (w *Writers) Rollbacks() int64 { return w.rollbacks.Load() }

// Broken is the number of connections lost.
func (w *Writers) Broken() int64 { return w.broken.Load() }

// Failed tells of an error that is none of the world's: the workload itself is wrong.
func (w *Writers) Failed() <-chan error { return w.failed }

// Stop ends the writers behind the transactions they are in. It gives, for each,
// the numbers of the transactions that were acknowledged: all of them must be in audit.
func (w *Writers) Stop() map[int][]int {
	w.cancel()
	w.done.Wait()
	acked := map[int][]int{}
	for _, one := range w.each {
		acked[one.id] = one.acked
	}
	return acked
}

// run connects, works until the connection breaks, and again.
func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := pgconn.Connect(ctx, w.url)
		if err == nil {
			err = w.work(ctx, conn)
			closeQuietly(conn)
		}
		var server *pgconn.PgError
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case errors.As(err, &server) && !shutdown(server.Code):
			select {
			case w.of.failed <- fmt.Errorf("writer %d: %w", w.id, err):
			default:
			}
			return
		}
		w.of.broken.Add(1)
		wait(ctx, 100*time.Millisecond)
	}
}

// closeQuietly closes a connection that may be broken, and of which nothing is
// expected any more.
func closeQuietly(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		return
	}
}

// shutdown recognizes what PostgreSQL says while it goes down or comes up.
func shutdown(code string) bool { return code == "57P01" || code == "57P02" || code == "57P03" }

// retry recognizes what two writers may do to each other: a deadlock, a
// serialization failure, the same key twice.
func retry(code string) bool { return code == "40P01" || code == "40001" || code == "23505" }

// work runs transactions until ctx ends, which does not interrupt one, or the
// connection or the workload fails.
func (w *writer) work(ctx context.Context, conn *pgconn.PgConn) error {
	for ctx.Err() == nil {
		w.n++
		t := &tx{conn: conn, rng: w.rng}
		err := t.all(w.id, w.n)
		var server *pgconn.PgError
		switch {
		case err == nil && t.rolledBack:
			w.of.rollbacks.Add(1)
		case err == nil:
			w.acked = append(w.acked, w.n)
			w.of.commits.Add(1)
			w.of.events.Add(t.events + 1)
		case errors.As(err, &server) && retry(server.Code):
			w.of.rollbacks.Add(1)
			if err := t.command("ROLLBACK"); err != nil {
				return err
			}
		default:
			return err
		}
		wait(ctx, time.Duration(w.rng.Int64N(int64(2*w.pause)+1)))
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
