package s3store

import (
	"crypto/tls"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// How long the store may take to begin with its answer to a request that it was sent whole.
// One that works through a backlog has nothing to say for a minute. A connection that is gone
// without a word says nothing either, and what waits for its answer holds up a whole stream.
const (
	leastAnswerTime = 15 * time.Second
	mostAnswerTime  = time.Minute
)

// answerTimes is what a pool has learned of how long answers take: it waits for some times the
// longest of late, and for twice as long after it has given up too early, for all it knows.
type answerTimes struct {
	mu  sync.Mutex
	now time.Duration
}

// bound returns how long an answer is waited for.
func (a *answerTimes) bound() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.now, leastAnswerTime)
}

// answered learns that an answer began after a time.
func (a *answerTimes) answered(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = min(max(4*after, a.now-a.now/16), mostAnswerTime)
}

// lost learns that an answer was waited for in vain.
func (a *answerTimes) lost(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = min(max(2*after, a.now), mostAnswerTime)
}

// patient gives the store its time for a request that it has been sent whole.
func patient() *httptrace.ClientTrace {
	var on atomic.Pointer[conn]
	return &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			raw := got.Conn
			if over, ok := raw.(*tls.Conn); ok {
				raw = over.NetConn()
			}
			if c, ok := raw.(*conn); ok {
				c.asked.Store(0) // an answer may come before a request counts as written
				on.Store(c)
			}
		},
		WroteRequest: func(wrote httptrace.WroteRequestInfo) {
			c := on.Load()
			if c == nil || wrote.Err != nil {
				return
			}
			// The last bytes of a request without a body are written after this is called.
			c.asked.Store(time.Now().UnixNano())
			if c.moved() != nil {
				return // it is closed, as whoever reads it is told
			}
		},
	}
}
