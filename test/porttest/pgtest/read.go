package pgtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
)

// transaction is one received, its changes as text: "+1 a", "1>1 b", "1(1)>2 b", "-1",
// "truncate".
type transaction struct {
	final, end pos.LSN
	xid        uint32
	text       string
}

// reader puts received messages together.
type reader struct {
	s       *suite
	repl    port.Replication
	decoder pgout.Decoder
	open    *transaction
	got     []transaction
	ended   pos.LSN // the last keepalive's WAL end outside a transaction
	shapes  map[uint32]*pgout.Relation
}

func (s *suite) reader(at pos.LSN) *reader {
	s.Helper()
	return &reader{s: s, repl: s.stream(at), shapes: map[uint32]*pgout.Relation{}}
}

// texts reads until n transactions have come and returns their changes.
func (r *reader) texts(n int) []string {
	r.s.Helper()
	for len(r.got) < n {
		r.more(r.s.ctx)
	}
	var all []string
	for _, t := range r.got {
		all = append(all, t.text)
	}
	return all
}

// nothing reads until the server says that it sent all up to its present WAL end.
func (r *reader) nothing() {
	r.s.Helper()
	server, err := r.s.pg.Inspect(r.s.ctx, slot, "pub")
	r.s.must(err)
	for r.ended < server.Flush && len(r.got) == 0 {
		// An idle stream says where it is when it is asked, which a confirmation does not
		// do; more WAL makes it speak up.
		r.s.Noise()
		ctx, cancel := context.WithTimeout(r.s.ctx, 200*time.Millisecond)
		r.more(ctx)
		cancel()
	}
	if len(r.got) > 0 {
		r.s.Fatalf("got %+v", r.got)
	}
}

func (r *reader) more(ctx context.Context) {
	r.s.Helper()
	batch, err := r.repl.Receive(ctx)
	if err != nil && ctx.Err() != nil && r.s.ctx.Err() == nil {
		return
	}
	r.s.must(err)
	for _, w := range batch {
		if w.Data == nil {
			if r.open == nil {
				r.ended = max(r.ended, w.End)
			} else if w.End > r.open.final {
				r.s.Fatalf("a keepalive at %s inside the transaction at %s", w.End, r.open.final)
			}
			continue
		}
		m, err := r.decoder.Decode(w.Data)
		r.s.must(err)
		r.take(m)
	}
}

func (r *reader) take(m pgout.Message) {
	r.s.Helper()
	if b, ok := m.(*pgout.Begin); ok && r.open == nil {
		r.open = &transaction{final: b.Final, xid: b.XID}
		return
	}
	if r.open == nil {
		r.s.Fatalf("%T outside a transaction", m)
	}
	var text string
	switch m := m.(type) {
	case *pgout.Relation:
		r.shapes[m.OID] = m
		return
	case *pgout.Commit:
		r.open.end = m.End
		if m.Final != r.open.final || m.End <= m.Final {
			r.s.Fatalf("commit %+v of the transaction at %s", m, r.open.final)
		}
		r.open.text = strings.TrimSpace(r.open.text)
		r.got, r.open = append(r.got, *r.open), nil
		return
	case *pgout.Insert:
		text = fmt.Sprintf("+%s %s", m.New[0].Text, m.New[1].Text)
	case *pgout.Update:
		old := ""
		if m.OldKind != pgout.OldNone {
			old = fmt.Sprintf("%c%s", m.OldKind, m.Old[0].Text)
		}
		text = fmt.Sprintf("%s>%s %s", old, m.New[0].Text, m.New[1].Text)
	case *pgout.Delete:
		text = fmt.Sprintf("-%c%s", m.OldKind, m.Old[0].Text)
	case *pgout.Truncate:
		text = fmt.Sprintf("truncate %d", len(m.Relations))
	case *pgout.Begin, *pgout.Origin, *pgout.TypeName, *pgout.Logical, *pgout.Table:
		r.s.Fatalf("message %T", m)
	}
	r.open.text += " " + text
}
