package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"millrace/core/pos"
	"millrace/test/fold"
	"millrace/test/pgserver"
	"millrace/test/shop"
)

// play is the whole demo, in order.
func (s *stage) play(ctx context.Context) error {
	if err := s.raise(ctx); err != nil {
		return err
	}
	done := s.watch(ctx)
	defer done()
	scenes := []func(context.Context) error{s.killDuringLoad, s.killWhileStreaming, s.killBoth, s.settle, s.verify}
	if s.remote != nil {
		scenes = slices.Insert(scenes, 3, s.loseStore)
	}
	for _, scene := range scenes {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch prints the live line each second, and notes what there is to see, until the returned function is called.
func (s *stage) watch(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var followed sync.WaitGroup
		if s.remote != nil {
			followed.Go(func() { s.follower.run(ctx) })
		}
		defer followed.Wait()
		tick, glance := time.NewTicker(time.Second), time.NewTicker(100*time.Millisecond)
		defer tick.Stop()
		defer glance.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-glance.C:
				s.shown.look(s.data())
			case <-tick.C:
				screen.live(s.liveLine(ctx))
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func (s *stage) liveLine(ctx context.Context) string {
	commits := int64(0)
	if w := s.writers.Load(); w != nil {
		commits = w.Commits()
	}
	where := "node down or starting"
	if st, err := s.client.status(ctx); err == nil {
		where = fmt.Sprintf("T %s  n %s  local from %s", st.Next, st.SeamNext, st.LocalFirst)
	}
	if read := s.read.Load(); read > 0 {
		where += fmt.Sprintf("  read %d", read)
	}
	return fmt.Sprintf("%6.1f s  commits %d  %s  disk %s  store %s  node memory at most %s",
		time.Since(s.began).Seconds(), commits, where, mib(s.local()), mib(s.stored()), mib(s.node.measure()))
}

// killDuringLoad starts the node and the writers, and kills the node when a part of
// the rows is loaded.
func (s *stage) killDuringLoad(ctx context.Context) error {
	if err := s.node.start(); err != nil {
		return err
	}
	s.say("the node starts and loads")
	part, whole := pos.Offset(s.rows/5), pos.Offset(s.rows*9/10)
	err := s.node.until(ctx, "a part of the rows is loaded", 30*time.Second, func() (bool, error) {
		st, err := s.client.status(ctx)
		if err == nil && st.Next > whole {
			return false, fmt.Errorf("the load was over (%s of %d rows) before the node could be killed in it", st.Next, s.rows)
		}
		return err == nil && st.Next > part, nil
	})
	if err != nil {
		return err
	}
	s.writers.Store(shop.Start(s.url, writers, pause, uint64(s.began.UnixNano())))
	s.say("%d writers start; SIGKILL to the node during its first load", writers)
	return s.restart()
}

func (s *stage) restart() error {
	if err := s.node.kill(); err != nil {
		return err
	}
	return s.node.start()
}

// killWhileStreaming kills the node twice behind the load.
func (s *stage) killWhileStreaming(ctx context.Context) error {
	err := s.node.until(ctx, "the load is over and the node streams", 40*time.Second, func() (bool, error) {
		return shop.Streaming(ctx, s.url)
	})
	if err != nil {
		return err
	}
	s.say("the load is over, the node streams")
	for _, after := range []time.Duration{7 * time.Second, 6 * time.Second} {
		if err := s.work(ctx, after); err != nil {
			return err
		}
		s.say("SIGKILL to the node")
		if err := s.restart(); err != nil {
			return err
		}
	}
	return s.work(ctx, 8*time.Second)
}

// killBoth takes PostgreSQL down without a word, kills the node meanwhile, and lets
// the node come up first.
func (s *stage) killBoth(ctx context.Context) error {
	s.say("immediate shutdown of PostgreSQL, and SIGKILL to the node while it is down")
	if err := s.server.Stop(pgserver.Immediate); err != nil {
		return wrap("crash PostgreSQL", err)
	}
	if err := s.work(ctx, time.Second); err != nil {
		return err
	}
	if err := s.restart(); err != nil {
		return err
	}
	if err := s.work(ctx, time.Second); err != nil {
		return err
	}
	if err := s.server.Restart(); err != nil {
		return wrap("restart PostgreSQL", err)
	}
	s.say("PostgreSQL is up again")
	return s.work(ctx, 12*time.Second)
}

// work lets the writers and the node go on for a while.
func (s *stage) work(ctx context.Context, d time.Duration) error {
	select {
	case err := <-s.writers.Load().Failed():
		return wrap("the workload is wrong", err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return s.node.alive()
	}
}

// settle stops the writers and waits until the node has all they did, in the store
// too, and the local window is small.
func (s *stage) settle(ctx context.Context) error {
	w := s.writers.Load()
	s.acked = w.Stop()
	select {
	case err := <-w.Failed():
		return wrap("the workload is wrong", err)
	default:
	}
	const n = 1
	if err := shop.Mark(ctx, s.url, 0, n); err != nil {
		return wrap("write the last row", err)
	}
	s.say("the writers stopped behind %d commits and %d rollbacks; the node catches up", w.Commits(), w.Rollbacks())
	err := s.node.until(ctx, "the stream ends with the last row", 30*time.Second, func() (bool, error) {
		last := false
		err := s.client.read(ctx, "last", func(_ pos.Offset, e *fold.Event) error {
			last = e.Table() == auditTable && e.After["writer"].Text == "0"
			return nil
		})
		return err == nil && last, nil
	})
	if err != nil {
		return err
	}
	return s.node.until(ctx, "everything is in the store", 90*time.Second, func() (bool, error) {
		st, err := s.client.status(ctx)
		return err == nil && st.SeamNext == st.Next && st.LocalFirst > 0 && s.local() < s.stored()/4, nil
	})
}

// verify reads everything back and compares.
func (s *stage) verify(ctx context.Context) error {
	st, err := s.client.status(ctx)
	if err != nil {
		return err
	}
	local := s.local()
	s.say("reading the whole stream back through the node")
	c := newCheck(s.tables)
	err = s.client.read(ctx, "first", func(at pos.Offset, e *fold.Event) error {
		s.read.Store(int64(at) + 1)
		return c.visit(at, e)
	})
	c.note(err)
	if c.next != st.Next {
		c.note(fmt.Errorf("the stream was read up to offset %s, and ends at %s", c.next, st.Next))
	}
	s.say("comparing with PostgreSQL")
	equal, err := c.compare(ctx, s.url, s.tables, s.acked)
	if err != nil {
		return err
	}
	if err := s.node.alive(); err != nil {
		c.note(err)
	}
	if c.voids < 2 {
		c.note(errors.New("the load began once only: it was not interrupted"))
	}
	if peak := s.node.measure(); peak > maxMemory {
		c.note(fmt.Errorf("the node had %s resident, at most %s are allowed", mib(peak), mib(maxMemory)))
	}
	if s.outage != nil {
		screen.print(s.outage.line())
		c.note(s.outage.check())
	}
	l := &c.ledger
	verdict := "verified"
	if c.first != nil {
		verdict = "NOT verified"
	}
	s.say("%d runs of the node, %d loads begun, %s of memory at most", s.node.runs, c.voids, mib(s.node.measure()))
	if os.Getenv("DEMO_EXIT") == "1" {
		screen.print(s.shown.line(s.data(), s.store(), s.node.runs))
	}
	screen.print(fmt.Sprintf("%s: %d events, %d commits, %d missing, %d duplicated, %d out of order, %d tables equal; %d of %d bytes local",
		verdict, l.Events, l.Commits, l.Missing, l.Duplicated, l.OutOfOrder, equal, local, st.RemoteBytes))
	return wrap("first difference", c.first)
}
