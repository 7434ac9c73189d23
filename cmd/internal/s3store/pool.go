package s3store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millrace/actors/port"
)

const (
	// idleClose is when an unused connection is closed: before S3 does it (15 to 20 s), so
	// that no request is sent into a connection that is going away.
	idleClose = 10 * time.Second
	// dialTimeout bounds making a connection, its TLS handshake apart.
	dialTimeout = 10 * time.Second
	// answerWait is how long an answer is waited for when a request can't be sent on. net/http
	// itself takes 50 ms to hand out one that has no body.
	answerWait = 100 * time.Millisecond
	// errorBody is how much of an error's body is read, in bytes. An error of S3 has a few
	// hundred; a proxy's page is cut off here, and its connection closed.
	errorBody = 64 << 10
	// sendBuffer is how much of a body is read, checked and sent at once, in bytes: few enough
	// to stay in the processor's nearest cache from the first to the last. Larger pieces save
	// calls of the system and cost more than these, here and in the server (docs/benchmarks.md).
	sendBuffer = 32 << 10
)

// stall is how long a connection that carries a request may move no byte either way. The
// deadlines of requests allow for their size and so are long; a line that swallows what it
// is sent must not take up a transfer's whole deadline, with all later ones behind it.
// What the socket's buffer holds moves unseen: unsent is how much that is.
const stall = 20 * time.Second

// unsent is how many bytes the system takes of a connection, at most, that the other end has no
// room for yet. Without a bound it takes 4 MiB, and takes more when a third of that is free: at
// 60 KiB/s, which is what each of 20 uploads has of 10 Mbit/s, nothing seems to move for 23 s then,
// and with this bound for 2 s. What is on its way is not bounded by it, so neither is the rate.
const unsent = 128 << 10

var errClosed = errors.New("the connection pool is closed: whoever owns it is not running")

// pool is a bounded number of connections: a counting layer over one http.Transport.
// A request takes a slot before it gets a connection, and holds it until its answer is
// read or closed. Those that wait are served in the order they came.
type pool struct {
	slots     chan struct{} // one element for each request that holds a slot
	writes    chan struct{} // one for each of these that writes; nil: they have no bound of their own
	transport *http.Transport
	patience  *patience

	mu      sync.Mutex
	life    context.Context // of the time from Open to Close; ended while the pool is closed
	end     context.CancelFunc
	conns   map[*conn]struct{}
	waiting int
	taken   int64
	waited  int64
}

func newPool(max int, roots *x509.CertPool, shared *patience) *pool {
	p := &pool{slots: make(chan struct{}, max), patience: shared, conns: map[*conn]struct{}{}}
	shared.pools = append(shared.pools, p)
	p.life, p.end = context.WithCancel(context.Background())
	p.end()
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second, Control: boundUnsent}
	p.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return p.adopt(c)
		},
		// A dial goes on in the background when its request is given up; this bounds those.
		MaxConnsPerHost:       max,
		MaxIdleConns:          max,
		MaxIdleConnsPerHost:   max,
		IdleConnTimeout:       idleClose,
		TLSHandshakeTimeout:   dialTimeout,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ExpectContinueTimeout: time.Second,
		// One connection carries one request at a time, so that a slow answer holds up no
		// other. The transport of HTTP/2 is not used unless asked for.
		Protocols: http1(),
		// An object is what was put: nothing is unpacked on the way.
		DisableCompression: true,
		WriteBufferSize:    sendBuffer,
		ReadBufferSize:     64 << 10,
	}
	return p
}

func boundUnsent(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt TCP_NOTSENT_LOWAT", unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent))
	})
	return errors.Join(err, failed)
}

func http1() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// Open implements port.Pool.
func (p *pool) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		p.life, p.end = context.WithCancel(context.Background())
	}
}

// Close implements port.Pool.
func (p *pool) Close() {
	p.mu.Lock()
	p.end()
	open := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		open = append(open, c)
	}
	p.mu.Unlock()
	p.transport.CloseIdleConnections()
	for _, c := range open {
		if c.Close() != nil {
			continue // somebody else was faster
		}
	}
}

// Stats implements port.Pool.
func (p *pool) Stats() port.PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return port.PoolStats{Max: cap(p.slots), Open: len(p.conns), InUse: len(p.slots), Waiting: p.waiting, Taken: p.taken, Waited: p.waited}
}

// Do sends one request and returns its answer, whatever its status: it follows no
// redirection. It is the HTTP client of the SDK.
func (p *pool) Do(req *http.Request) (*http.Response, error) {
	caller := req.Context()
	life, giveBack, err := p.take(caller, writes(req))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(caller)
	stop := context.AfterFunc(life, func() { cancel(errClosed) })
	var once sync.Once
	release := func() {
		once.Do(func() {
			stop()
			cancel(context.Canceled)
			giveBack()
		})
	}
	resp, err := p.ask(req.WithContext(ctx))
	if err != nil {
		release()
		if life.Err() != nil && caller.Err() == nil {
			err = errors.Join(errClosed, err)
		}
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		resp.Body = &cutBody{ReadCloser: resp.Body, left: errorBody}
	}
	resp.Body = &heldBody{ReadCloser: resp.Body, life: life, ctx: caller, release: release}
	return resp, nil
}

// ask sends a request, and one that reads once more if its connection turns out to be closed: a
// server closes those that were used before when it likes. That is no reason for a third (RFC 9110,
// 9.2.2), and a deadline of ours is none for a second, or the time for an answer would be waited for
// as often as there are connections.
func (p *pool) ask(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	// Without its version the transport would not wait for "100 Continue" before a large body.
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	if !writes(req) {
		req.Body = nothing{}
	}
	for again := false; ; again = true {
		q := questionOf(req)
		resp, err := p.transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, q.trace())))
		if err == nil {
			q.answered(resp.StatusCode)
			return resp, nil
		}
		if again || !q.unheard() || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}
	}
}

// nothing is the body of a request without one. It is not sent, and keeps net/http from repeating
// the request on one used connection after the other: it repeats none whose body it can't get anew.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) Close() error             { return nil }

// take waits for a slot. The context it returns ends when the pool is closed; release gives
// the slot back.
func (p *pool) take(ctx context.Context, write bool) (life context.Context, release func(), err error) {
	p.mu.Lock()
	life = p.life
	p.mu.Unlock()
	if life.Err() != nil {
		return nil, nil, errClosed
	}
	places := []chan struct{}{p.slots}
	if write && p.writes != nil {
		places = []chan struct{}{p.writes, p.slots}
	}
	waited := int64(0)
	for i, place := range places {
		had, err := p.enter(ctx, life, place)
		if err != nil {
			leave(places[:i])
			return nil, nil, err
		}
		if had {
			waited = 1
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken++
	p.waited += waited
	return life, func() { leave(places) }, nil
}

// enter takes one place, and reports whether it had to wait for it.
func (p *pool) enter(ctx, life context.Context, place chan struct{}) (waited bool, err error) {
	select {
	case place <- struct{}{}:
		return false, nil
	default:
	}
	p.wait(1)
	defer p.wait(-1)
	select {
	case place <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	case <-life.Done():
		return true, errClosed
	}
}

func leave(places []chan struct{}) {
	for _, place := range places {
		<-place
	}
}

func (p *pool) wait(change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += change
}

// adopt counts a connection, or closes it when the pool was closed while it was made.
func (p *pool) adopt(raw net.Conn) (net.Conn, error) {
	c := &conn{Conn: raw, pool: p, closed: make(chan struct{})}
	p.mu.Lock()
	closed := p.life.Err() != nil
	if !closed {
		p.conns[c] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed, raw.Close())
	}
	return c, nil
}

// conn is a connection that its pool counts.
type conn struct {
	net.Conn
	pool   *pool
	once   sync.Once
	closed chan struct{}
	until  atomic.Int64             // the deadline that is set, in nanoseconds since 1970
	asked  atomic.Pointer[question] // that is to be answered
	set    sync.Mutex               // held while a deadline is set, and found
	broke  atomic.Pointer[error]    // what a read ended with
}

// moved puts off the moment at which the connection counts as stalled, for whoever reads
// or writes it. While it is idle the pool closes it before. What moves little by little
// moves the deadline only now and then: setting it costs as much as sending some KiB.
func (c *conn) moved() error {
	bound := stall
	if q := c.asked.Load(); q != nil && q.sent.Load() > 0 {
		bound = c.pool.patience.bound(q)
	}
	next := time.Now().Add(bound)
	if later := next.UnixNano() - c.until.Load(); later >= 0 && later < int64(bound/10) {
		return nil
	}
	return c.expire(next)
}

// hurry bounds the waiting for an answer anew, from when the request was sent. One whose time is
// over by that teaches nothing more: it was asked before. The answer may come meanwhile: whoever
// takes it sets the deadline of its body behind this one.
func (c *conn) hurry() {
	c.set.Lock()
	defer c.set.Unlock()
	q := c.asked.Load()
	if q == nil || q.sent.Load() == 0 {
		return
	}
	at := time.Unix(0, q.sent.Load()).Add(c.pool.patience.learned(q))
	if !at.After(time.Now()) && !c.asked.CompareAndSwap(q, nil) {
		return // its answer came
	}
	if c.expireBy(at) != nil {
		return // it is closed, as whoever reads it is told
	}
}

// expire sets the deadline, of reads and writes.
func (c *conn) expire(at time.Time) error {
	c.set.Lock()
	defer c.set.Unlock()
	return c.expireBy(at)
}

// expireBy is expire with c.set held.
func (c *conn) expireBy(at time.Time) error {
	c.until.Store(at.UnixNano())
	return c.SetDeadline(at)
}

// Read fails when nothing moves for too long.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		return n, c.moved()
	}
	if q := c.asked.Load(); q != nil && q.sent.Load() > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		c.pool.patience.lost(q.write, q.waited())
	}
	c.broke.Store(&err)
	return n, err
}

// Write fails when nothing moves for too long, and it fails late. A server that refuses a
// large body answers and closes; what goes on being sent is then reset, and net/http would
// report that and drop the answer, which it has or is about to read. What was closed because a
// read had failed fails for the reason that that had.
func (c *conn) Write(p []byte) (int, error) {
	err := c.moved()
	n := 0
	if err == nil {
		n, err = c.Conn.Write(p)
	}
	if err == nil {
		err = c.moved()
	}
	if err != nil {
		timer := time.NewTimer(answerWait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
		}
		if why := c.broke.Load(); why != nil && errors.Is(err, net.ErrClosed) {
			err = *why
		}
	}
	return n, err
}

// Close closes the connection and takes it out of the count.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.pool.mu.Lock()
	delete(c.pool.conns, c)
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

// heldBody is an answer's body. Its request holds a slot until it is read or closed.
type heldBody struct {
	io.ReadCloser
	life    context.Context
	ctx     context.Context
	release func()
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	b.release()
	if !errors.Is(err, io.EOF) && b.life.Err() != nil && b.ctx.Err() == nil {
		err = errors.Join(errClosed, err)
	}
	return n, err
}

func (b *heldBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// cutBody ends after so many bytes.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
