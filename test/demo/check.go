package main

import (
	"context"
	"fmt"
	"strconv"

	"millrace/core/pos"
	"millrace/test/fold"
	"millrace/test/shop"
)

// check folds the whole stream and holds it against PostgreSQL. It keeps the first
// difference and goes on counting.
type check struct {
	tables *fold.Tables
	ledger fold.Ledger
	audit  audit
	next   pos.Offset // the offset that must come next
	voids  int        // of the table audit: how often a load began
	first  error      // the first difference
}

func newCheck(tables []shop.Table) *check {
	keys := map[string][]string{}
	for _, t := range tables {
		keys[t.Name] = t.Key
	}
	return &check{tables: fold.New(keys)}
}

// visit takes the stream's next record.
func (c *check) visit(at pos.Offset, e *fold.Event) error {
	if at != c.next {
		c.note(fmt.Errorf("offset %s follows offset %s", at, c.next-1))
	}
	c.next = at + 1
	if e.Op == "t" && e.Source.Snapshot == "first" && e.Table() == auditTable {
		c.voids++
	}
	if err := c.ledger.Apply(at, e); err != nil {
		c.note(err)
	}
	if c.first == nil {
		c.note(c.tables.Apply(at, e))
		c.note(c.audit.apply(at, e))
	}
	return nil
}

func (c *check) note(err error) {
	if c.first == nil {
		c.first = err
	}
}

// compare holds the folded tables against PostgreSQL's, and the transactions that
// were acknowledged to the writers against its table audit. It gives how many
// tables are equal.
func (c *check) compare(ctx context.Context, url string, tables []shop.Table, acked map[int][]int) (equal int, err error) {
	c.note(c.ledger.End())
	audited := map[string]bool{}
	for _, t := range tables {
		if c.first != nil {
			return equal, nil
		}
		comparison := c.tables.Compare(t.Name)
		err := shop.Rows(ctx, url, t, func(columns []string, row [][]byte) error {
			if t.Name == auditTable {
				audited[string(row[0])+" "+string(row[1])] = true
			}
			c.note(comparison.Row(columns, values(row)))
			return nil
		})
		if err != nil {
			return equal, fmt.Errorf("read %s: %w", t.Name, err)
		}
		_, err = comparison.End()
		c.note(err)
		equal++
	}
	for writer, numbers := range acked {
		for _, n := range numbers {
			if !audited[fmt.Sprintf("%d %d", writer, n)] {
				c.note(fmt.Errorf("transaction %d of writer %d was acknowledged, but PostgreSQL does not have it", n, writer))
			}
		}
	}
	return equal, nil
}

func values(row [][]byte) []fold.Value {
	out := make([]fold.Value, len(row))
	for i, text := range row {
		out[i] = fold.Value{Text: string(text), Null: text == nil}
	}
	return out
}

const auditTable = "public.audit"

// audit checks that each streamed transaction has the number of events that its own
// row in the table audit, its last event, says.
type audit struct {
	events int64
	done   bool // the row was seen
}

func (a *audit) apply(at pos.Offset, e *fold.Event) error {
	if e.Op == "m" {
		return nil
	}
	if !e.Streamed() || e.Source.Seq == 0 {
		*a = audit{}
	}
	if !e.Streamed() {
		return nil
	}
	if e.Table() == auditTable && e.Op == "c" {
		a.done = true
		if want := e.After["events"].Text; want != strconv.FormatInt(a.events, 10) {
			return fmt.Errorf("offset %s, %s: the transaction has %d events before its row in audit, which says %s", at, e, a.events, want)
		}
	}
	a.events++
	if e.Source.Last && !a.done {
		return fmt.Errorf("offset %s, %s: the transaction ends without its row in audit: events are missing", at, e)
	}
	return nil
}
