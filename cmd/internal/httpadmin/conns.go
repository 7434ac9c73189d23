package httpadmin

import (
	"context"
	"net"
	"sync"
	"time"
)

// capped is a listener with a bounded number of open connections. Beyond it a newcomer
// takes the place of one that serves nobody, the longest idle first: whoever has no token
// can't keep others out by doing nothing. While all of them serve, it waits.
type capped struct {
	net.Listener
	most  int
	freed chan struct{} // a place may be free
	done  chan struct{}
	once  sync.Once

	mu   sync.Mutex
	open map[*cappedConn]struct{}
}

// cappedConn is one of them. What is below is guarded by the listener's mutex.
type cappedConn struct {
	net.Conn
	of *capped

	since   time.Time // of its last change between serving and not
	serving bool      // a request of it is being answered
	trusted bool      // a request of it had the token
	gone    bool
}

func newCapped(ln net.Listener, most int) *capped {
	return &capped{Listener: ln, most: most, freed: make(chan struct{}, 1), done: make(chan struct{}), open: map[*cappedConn]struct{}{}}
}

// Accept implements net.Listener.
func (l *capped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &cappedConn{Conn: conn, of: l, since: time.Now()}
	for {
		victim, entered := l.enter(c)
		if victim != nil {
			victim.shut()
		}
		if entered {
			return c, nil
		}
		select {
		case <-l.freed:
		case <-l.done:
			c.shut()
			return nil, net.ErrClosed
		}
	}
}

// enter gives c a place, if need be that of another connection, which is then to be closed.
func (l *capped) enter(c *cappedConn) (victim *cappedConn, entered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		for other := range l.open {
			if other.worth() < serves && (victim == nil || other.before(victim)) {
				victim = other
			}
		}
		if victim == nil {
			return nil, false
		}
		victim.gone = true
		delete(l.open, victim)
	}
	l.open[c] = struct{}{}
	return victim, true
}

// The worth of a connection.
const (
	idleStranger   = iota // asks nothing, and never had the token
	idleClient            // asks nothing now
	servedStranger        // is being answered what is open to all
	serves                // is being answered, and has the token
)

func (c *cappedConn) worth() int {
	switch {
	case c.serving && c.trusted:
		return serves
	case c.serving:
		return servedStranger
	case c.trusted:
		return idleClient
	}
	return idleStranger
}

// before reports whether c gives way before other.
func (c *cappedConn) before(other *cappedConn) bool {
	if c.worth() != other.worth() {
		return c.worth() < other.worth()
	}
	return c.since.Before(other.since)
}

// Close implements net.Listener.
func (l *capped) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// Close implements net.Conn.
func (c *cappedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	select {
	case c.of.freed <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// shut closes a connection for its room.
func (c *cappedConn) shut() {
	if c.Close() != nil {
		return // it was closed already
	}
}

// begin notes that a request is being answered; false if the connection had to give way.
func (c *cappedConn) begin(trusted bool) bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.serving, c.trusted, c.since = true, c.trusted || trusted, time.Now()
	return !c.gone
}

func (c *cappedConn) end() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.serving, c.since = false, time.Now()
}

// connKey is the context key of a request's connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection that a request came on, nil if it is none of a capped
// listener.
func connOf(ctx context.Context) *cappedConn {
	c, _ := ctx.Value(connKey{}).(*cappedConn)
	return c
}
