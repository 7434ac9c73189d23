package s3store

import (
	"crypto/tls"
	"maps"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"millrace/core/answertime"
)

// bound returns how long an answer is waited for.
func (p *pool) bound() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times.Bound()
}

// answered learns that an answer began after a time. What hangs since before is not waited for
// much longer.
func (p *pool) answered(after time.Duration) {
	p.mu.Lock()
	ended := p.times.Answered(after)
	p.mu.Unlock()
	if ended {
		p.hurry()
	}
}

// lost learns that an answer was waited for in vain.
func (p *pool) lost(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times.Lost(after)
}

// hurry bounds anew what waits for an answer since a spell: what would long have been answered
// is given up at once.
func (p *pool) hurry() {
	p.mu.Lock()
	waiting, bound := slices.Collect(maps.Keys(p.conns)), p.times.Bound()
	p.mu.Unlock()
	for _, c := range waiting {
		c.hurry(bound)
	}
}

// patient gives the store its time for a request of some bytes that it has been sent whole.
func patient(size int64) *httptrace.ClientTrace {
	var on atomic.Pointer[conn]
	return &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			raw := got.Conn
			if over, ok := raw.(*tls.Conn); ok {
				raw = over.NetConn()
			}
			if c, ok := raw.(*conn); ok {
				c.asked.Store(sending)
				on.Store(c)
			}
		},
		WroteRequest: func(wrote httptrace.WroteRequestInfo) {
			c := on.Load()
			if c == nil || wrote.Err != nil {
				return
			}
			// The last bytes of a request without a body are written after this is called.
			c.extra.Store(int64(answertime.Allowance(size)))
			if !c.asked.CompareAndSwap(sending, time.Now().UnixNano()) {
				return // its answer came before it counted as written
			}
			if c.moved() != nil {
				return // it is closed, as whoever reads it is told
			}
		},
	}
}
