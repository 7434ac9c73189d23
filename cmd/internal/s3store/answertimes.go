package s3store

import (
	"crypto/tls"
	"maps"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How long the store may take to begin with its answer to a request that it was sent whole,
// beside what it takes to make what it was sent durable. One that works through a backlog has
// nothing to say for a minute. A connection that is gone without a word says nothing either, and
// what waits for its answer holds up a whole stream.
const (
	leastAnswerTime = 15 * time.Second
	mostAnswerTime  = time.Minute
)

// storeRate is at how many bytes a second a store is taken to make things durable, at least.
const storeRate = 4 << 20

// answerTimes is what a pool has learned of how long answers take: it waits for some times the
// longest of late. While answers are waited for in vain it waits twice as long each time, for
// all it knows too short a time; the first answer tells, and ends that.
type answerTimes struct {
	mu    sync.Mutex
	slow  time.Duration // the longest of late
	spell time.Duration // of answers that did not come; 0: the last one did
}

// bound returns how long an answer is waited for.
func (a *answerTimes) bound() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(leastAnswerTime, 4*a.slow, a.spell), mostAnswerTime)
}

// answered learns that an answer began after a time. It reports whether that ended a spell.
func (a *answerTimes) answered(after time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ended := a.spell > 0
	a.slow, a.spell = min(max(after, a.slow-a.slow/16), mostAnswerTime), 0
	return ended
}

// lost learns that an answer was waited for in vain.
func (a *answerTimes) lost(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spell = min(max(2*after, a.spell), mostAnswerTime)
}

// hurry bounds anew what waits for an answer since a spell: what would long have been answered
// is given up at once.
func (p *pool) hurry() {
	p.mu.Lock()
	waiting := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	for _, c := range waiting {
		c.hurry(p.answers.bound())
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
			c.extra.Store(max(0, size) / storeRate)
			if !c.asked.CompareAndSwap(sending, time.Now().UnixNano()) {
				return // its answer came before it counted as written
			}
			if c.moved() != nil {
				return // it is closed, as whoever reads it is told
			}
		},
	}
}
