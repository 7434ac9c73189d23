package writer

import (
	"fmt"

	"millrace/actors"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
)

// pending is an append of which records wait to be written.
type pending struct {
	req     *actors.Request
	expect  pos.Offset
	records []segment.Record
	bytes   int64 // of the records
	done    int   // records that are written
	first   pos.Offset
}

// written is an append that waits for its commit.
type written struct {
	req         *actors.Request
	first, next pos.Offset
}

// queue holds appends in the order they came: first those that are written, then those
// that are not, the first of which may be written in part.
type queue struct {
	written []written
	waiting []*pending
	bytes   int64 // of the records in waiting
}

func newPending(req *actors.Request, a segment.Append) *pending {
	p := &pending{req: req, expect: a.ExpectNext, records: a.Records}
	for _, r := range a.Records {
		p.bytes += int64(len(r.Body) + len(r.Filter))
	}
	return p
}

func (q *queue) add(p *pending) {
	q.waiting = append(q.waiting, p)
	q.bytes += p.bytes
}

// refuse answers the appends at the head that cannot be taken at next. Only those of
// which nothing is written are looked at.
func (q *queue) refuse(next pos.Offset) {
	for len(q.waiting) > 0 && q.waiting[0].done == 0 {
		why := q.waiting[0].why(next)
		if why == "" {
			return
		}
		q.waiting[0].req.Reply(segment.Refused{Next: next, Why: why})
		q.drop(1)
	}
}

// why tells what keeps an append from being taken when its first record would get
// offset at; "" if nothing does.
func (p *pending) why(at pos.Offset) string {
	if p.expect != pos.NoOffset && p.expect != at {
		return fmt.Sprintf("the log's next offset is %s, not %s as expected", at, p.expect)
	}
	for i := range p.records {
		if n := len(p.records[i].Body); n > chunk.MaxRecord {
			return fmt.Sprintf("record %d has %d bytes, at most %d are allowed", i, n, chunk.MaxRecord)
		}
	}
	return ""
}

// fill adds records to the builder, at most limit and no more than fit. It changes
// nothing else, so that a chunk that could not be written is built again.
func (q *queue) fill(b *chunk.Builder, next pos.Offset, limit int) {
	for _, p := range q.waiting {
		if p.done == 0 && b.Len() > 0 && p.why(next+pos.Offset(b.Len())) != "" {
			return
		}
		for i := p.done; i < len(p.records); i++ {
			r := &p.records[i]
			if b.Len() == limit || !b.Fits(len(r.Body)) {
				return
			}
			b.Add(r.Body, r.Filter)
		}
	}
}

// took notes that n records are written from offset at, and moves the appends that are
// written as a whole, those without records at the head included.
func (q *queue) took(n int, at pos.Offset) {
	whole := 0
	for _, p := range q.waiting {
		if p.done == 0 {
			p.first = at
		}
		step := min(n, len(p.records)-p.done)
		p.done, n, at = p.done+step, n-step, at+pos.Offset(step)
		if p.done < len(p.records) || len(p.records) == 0 && p.why(at) != "" {
			break
		}
		q.written = append(q.written, written{req: p.req, first: p.first, next: at})
		whole++
	}
	q.drop(whole)
}

func (q *queue) drop(n int) {
	for _, p := range q.waiting[:n] {
		q.bytes -= p.bytes
	}
	clear(q.waiting[:n])
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
}

// answer answers the appends that are committed.
func (q *queue) answer(committed pos.Offset) {
	n := 0
	for n < len(q.written) && q.written[n].next <= committed {
		w := &q.written[n]
		w.req.Reply(segment.Appended{First: w.first, Next: w.next})
		*w = written{}
		n++
	}
	if q.written = q.written[n:]; len(q.written) == 0 {
		q.written = nil
	}
}
