package actors

import (
	"iter"
	"sync/atomic"
)

// Ref names one request of Context.Request.
type Ref uint64

// Request is a question on its way: the message a process gets from Handle.Call and
// Context.Request. It may be kept and answered later, from any goroutine. The first
// answer counts, the others are ignored; when the process ends first, that is the answer.
type Request struct {
	Body any

	ref      Ref
	to, from *Handle
	answer   chan Reply // of a Call; from is nil then
	answered atomic.Bool

	prev, next *Request // in to's list of open requests
	listed     bool
}

// Reply is the answer to Context.Request. Err is a *DeadError when the process asked
// ended before it answered.
type Reply struct {
	Ref  Ref
	Body any
	Err  error
}

// Request sends *Request to the process and returns at once. Exactly one Reply with this
// reference arrives, unless the asking process ends first. It comes behind whatever the
// other process sent before it answered.
func (c *Context) Request(to *Handle, body any) Ref {
	r := &Request{Body: body, ref: Ref(c.h.sys.next()), to: to, from: c.h}
	switch {
	case !c.h.Alive(): // a zombie: it asks nobody any more
	case to == nil:
		r.fail(to.deadError())
	case !to.openRequest(r), !to.Send(r):
		r.Fail(to.deadError())
	}
	return r.ref
}

// Reply answers the request.
func (r *Request) Reply(body any) { r.conclude(Reply{Ref: r.ref, Body: body}) }

// Fail answers the request with an error.
func (r *Request) Fail(err error) { r.conclude(Reply{Ref: r.ref, Err: err}) }

func (r *Request) conclude(a Reply) {
	if r.deliver(a) && r.from != nil {
		r.to.closeRequest(r)
	}
}

// fail is Fail for a request that is no longer in a list.
func (r *Request) fail(err error) { r.deliver(Reply{Ref: r.ref, Err: err}) }

func (r *Request) deliver(a Reply) bool {
	if r.answered.Swap(true) {
		return false
	}
	if r.from == nil {
		r.answer <- a // holds one; only the first answer comes here
		return true
	}
	r.from.Send(a)
	return true
}

// openRequests lists what a process was asked and has not answered, oldest first, so
// that its end answers each. The list is threaded through the requests.
type openRequests struct{ first, last *Request }

func (o *openRequests) add(r *Request) {
	r.prev, r.listed = o.last, true
	if o.last != nil {
		o.last.next = r
	} else {
		o.first = r
	}
	o.last = r
}

func (o *openRequests) remove(r *Request) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		o.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		o.last = r.prev
	}
	r.prev, r.next, r.listed = nil, nil, false
}

func (o *openRequests) all() iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for r := o.first; r != nil; r = r.next {
			if !yield(r) {
				return
			}
		}
	}
}

// openRequest lists r; false if h has ended.
func (h *Handle) openRequest(r *Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() == phaseEnded {
		return false
	}
	h.life.open.add(r)
	return true
}

// closeRequest takes r off the list. Once h has ended the list belongs to end.
func (h *Handle) closeRequest(r *Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase.Load() != phaseEnded && r.listed {
		h.life.open.remove(r)
	}
}
