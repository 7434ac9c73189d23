package faultproxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// Faults is what a proxy does to a connection. The zero value does nothing.
type Faults struct {
	// Delay is added to each turn of the conversation: to the first bytes of a request and
	// to the first of its answer.
	Delay time.Duration
	// Rate is how many bytes pass in a second, each way; 0 = all.
	Rate int64
	// CutRequest and CutAnswer end a connection when it has carried so many bytes from the
	// client, or to it; 0 = never.
	CutRequest, CutAnswer int64
	// Reset ends connections with RST instead of FIN: where a cut says, and if none does, at once.
	Reset bool
	// Refuse closes the listening socket, so that new connections are refused. Open ones stay.
	Refuse bool
	// BlackHole swallows what it is sent and answers nothing. A connection that fell in
	// does not come out again.
	BlackHole bool
}

// Proxy is one listening address. Its methods are safe from any goroutine.
type Proxy struct {
	addr   string
	target string
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	faults   Faults
	next     []Faults
	links    map[*link]struct{}
	accepted int64
	closed   bool
}

// Start starts a proxy for a host and port.
func Start(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{addr: l.Addr().String(), target: target, links: map[*link]struct{}{}}
	p.listen(l)
	return p, nil
}

// Addr is the proxy's host and port; it stays while connections are refused.
func (p *Proxy) Addr() string { return p.addr }

// URL is Addr as an endpoint for HTTP.
func (p *Proxy) URL() string { return "http://" + p.addr }

// Accepted counts the connections there ever were.
func (p *Proxy) Accepted() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open counts the connections that the client has not closed, nor the proxy.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Next makes the next connection that comes have faults of its own, whatever Set says; of
// several calls each is for one connection.
func (p *Proxy) Next(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = append(p.next, f)
}

// Set changes the faults of every connection that has none of its own.
func (p *Proxy) Set(f Faults) error {
	p.mu.Lock()
	p.faults = f
	links := p.all()
	var err error
	switch l := p.listener; {
	case f.Refuse && l != nil:
		p.listener = nil
		err = l.Close()
	case !f.Refuse && l == nil && !p.closed:
		if l, err = net.Listen("tcp", p.addr); err == nil {
			p.listen(l)
		}
	}
	p.mu.Unlock()
	for _, k := range links {
		k.changed()
	}
	return err
}

// all returns the open links; the caller holds the lock.
func (p *Proxy) all() []*link {
	links := make([]*link, 0, len(p.links))
	for k := range p.links {
		links = append(links, k)
	}
	return links
}

// Close ends all connections and waits for the proxy's goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	links := p.all()
	var err error
	if p.listener != nil {
		err = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	for _, k := range links {
		k.end(false)
	}
	p.wg.Wait()
	return err
}

// listen accepts from l until it is closed; the caller holds the lock, or is alone.
func (p *Proxy) listen(l net.Listener) {
	p.listener = l
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				p.accept(c.(*net.TCPConn))
			}
		}
	})
}

func (p *Proxy) accept(client *net.TCPConn) {
	k := &link{proxy: p, client: client, done: make(chan struct{})}
	p.mu.Lock()
	p.accepted++
	if len(p.next) > 0 {
		k.own, p.next = &p.next[0], p.next[1:]
	}
	p.links[k] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		k.end(false)
		return
	}
	p.wg.Go(k.run)
}

func (p *Proxy) forget(k *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, k)
}

func (p *Proxy) current(k *link) Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.own != nil {
		return *k.own
	}
	return p.faults
}
