package s3store

import (
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/actors/port"
	"millrace/core/answertime"
)

// patience is what the pools of a store have learned together of how long its answers take.
type patience struct {
	pools []*pool // of the store; fixed once it is used

	mu      sync.Mutex
	answers answertime.Answers
}

// bound returns how long the answer to a question is waited for, from when it was sent whole.
func (p *patience) bound(q *question) time.Duration {
	return max(p.learned(q), answertime.After(q.tries)+q.allowance)
}

// learned returns how long the answer to a question is waited for by what other answers took,
// without what the question's own failures tell.
func (p *patience) learned(q *question) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answers.Bound(q.write) + q.allowance
}

// answered learns that an answer began after a time. If the store is back by that, what waits in
// all pools is bounded anew.
func (p *patience) answered(write bool, after time.Duration) {
	p.mu.Lock()
	back := p.answers.Answered(write, after)
	p.mu.Unlock()
	if !back {
		return
	}
	for _, pool := range p.pools {
		pool.mu.Lock()
		open := slices.Collect(maps.Keys(pool.conns))
		pool.mu.Unlock()
		for _, c := range open {
			c.hurry()
		}
	}
}

// lost learns that an answer was waited for in vain.
func (p *patience) lost(write bool, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers.Lost(write, after)
}

// question is a request, from when it has a connection until its answer begins.
type question struct {
	write     bool
	tries     int           // that have failed before
	allowance time.Duration // for what it sends
	conn      atomic.Pointer[conn]
	used      bool         // the connection was, before
	sent      atomic.Int64 // when it was sent whole, in nanoseconds since 1970; 0: it is not yet
	heard     atomic.Bool  // something of the answer came
}

func questionOf(r *http.Request) *question {
	return &question{write: writes(r), tries: port.Tries(r.Context()), allowance: answertime.Allowance(r.ContentLength)}
}

func writes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// trace has the connection that carries the question know it.
func (q *question) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			q.used = got.Reused
			q.sent.Store(0) // net/http gives another one to what it could send nothing of
			raw := got.Conn
			if over, ok := raw.(*tls.Conn); ok {
				raw = over.NetConn()
			}
			if c, ok := raw.(*conn); ok {
				q.conn.Store(c)
				c.asked.Store(q)
			}
		},
		WroteRequest: func(wrote httptrace.WroteRequestInfo) {
			c := q.conn.Load()
			if c == nil || wrote.Err != nil {
				return
			}
			// The last bytes of a request without a body are written after this is called.
			q.sent.Store(time.Now().UnixNano())
			if c.asked.Load() == q && c.moved() != nil {
				return // it is closed, as whoever reads it is told
			}
		},
		GotFirstResponseByte: func() { q.heard.Store(true) },
	}
}

// unheard reports whether a request that failed may never have been seen: it reads, and was sent
// into a connection that the server may have closed by then.
func (q *question) unheard() bool { return !q.write && q.used && !q.heard.Load() }

// waited is how long the answer has been waited for beside what its size allows; 0: not yet.
func (q *question) waited() time.Duration {
	sent := q.sent.Load()
	if sent == 0 {
		return 0
	}
	return max(0, time.Duration(time.Now().UnixNano()-sent)-q.allowance)
}

// tells reports whether an answer says something of how long others take. A write that was refused
// says nothing of one that the store makes durable; and what a gateway says in place of a store that is
// away, or one that has too much to do, is not that store's answer to a read.
func (q *question) tells(status int) bool {
	if q.write {
		return status < http.StatusMultipleChoices
	}
	return status < http.StatusInternalServerError && status != http.StatusTooManyRequests
}

// answered ends the waiting.
func (q *question) answered(status int) {
	c := q.conn.Load()
	if c == nil {
		return
	}
	waited := q.waited()
	if !c.asked.CompareAndSwap(q, nil) {
		return // it was given up
	}
	if q.tells(status) {
		c.pool.patience.answered(q.write, waited)
	}
	if c.expire(time.Now().Add(stall)) != nil {
		return // it is closed, as whoever reads it is told
	}
}
