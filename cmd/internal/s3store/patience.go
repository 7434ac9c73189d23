package s3store

import (
	"crypto/tls"
	"maps"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/core/answertime"
)

// patience is what the pools of a store have learned together of how long its answers take.
type patience struct {
	pools []*pool

	mu     sync.Mutex
	reads  answertime.Times
	writes answertime.Times
}

// share has the pools learn together.
func share(pools ...*pool) {
	a := &patience{pools: pools}
	for _, p := range pools {
		p.patience = a
	}
}

// times returns what is known of a sort of requests, and of the other one.
func (a *patience) times(write bool) (of, other *answertime.Times) {
	if write {
		return &a.writes, &a.reads
	}
	return &a.reads, &a.writes
}

// bound returns how long an answer is waited for. What writes takes no less than what reads.
func (a *patience) bound(write bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if write {
		return max(a.reads.Bound(), a.writes.Bound())
	}
	return a.reads.Bound()
}

// answered learns that an answer began after a time. One that ends a spell bounds anew what
// waits in all pools: what would long have been answered is given up at once.
func (a *patience) answered(write bool, after time.Duration) {
	a.mu.Lock()
	of, other := a.times(write)
	ended := of.Answered(after)
	if ended {
		other.Back()
	}
	a.mu.Unlock()
	if !ended {
		return
	}
	for _, p := range a.pools {
		p.mu.Lock()
		waiting := slices.Collect(maps.Keys(p.conns))
		p.mu.Unlock()
		for _, c := range waiting {
			c.hurry()
		}
	}
}

// lost learns that an answer was waited for in vain.
func (a *patience) lost(write bool, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, _ := a.times(write)
	of.Lost(after)
}

// patient gives the store its time for a request of some bytes that it has been sent whole, and
// that writes or not.
func patient(size int64, write bool) *httptrace.ClientTrace {
	var on atomic.Pointer[conn]
	return &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			raw := got.Conn
			if over, ok := raw.(*tls.Conn); ok {
				raw = over.NetConn()
			}
			if c, ok := raw.(*conn); ok {
				c.write.Store(write)
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
