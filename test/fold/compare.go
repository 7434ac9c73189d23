package fold

import (
	"fmt"
	"maps"
	"slices"
)

// Comparison holds one folded table against the rows that PostgreSQL has.
type Comparison struct {
	tab  *table
	rows int
}

// Compare begins the comparison of a table: call Row for each row of PostgreSQL's,
// then End. Only one comparison of a table runs at a time.
func (t *Tables) Compare(name string) *Comparison {
	tab := t.table(name)
	for _, r := range tab.rows {
		r.seen = 0
	}
	return &Comparison{tab: tab}
}

// Row takes one row of PostgreSQL's, read as text under the settings the capture
// pins. An error names the first difference, and the offset of the event that last
// wrote the row.
func (c *Comparison) Row(columns []string, values []Value) error {
	c.rows++
	var want []cell
	for i, name := range columns {
		want = c.tab.set(want, name, values[i])
	}
	r, err := c.find(want)
	if err != nil {
		return fmt.Errorf("table %s: %w", c.tab.name, err)
	}
	if r.seen++; r.seen > r.count {
		return fmt.Errorf("table %s: PostgreSQL has the row %s %d times, the stream %d", c.tab.name, c.tab.show(want), r.seen, r.count)
	}
	for i := range c.tab.columns {
		var w cell
		if i < len(want) {
			w = want[i]
		}
		var have cell
		if i < len(r.cells) {
			have = r.cells[i]
		}
		if w.there != have.there || !w.agrees(have.Value) {
			return fmt.Errorf("table %s, row %s, column %s: PostgreSQL has %s, the stream has %s since offset %s",
				c.tab.name, c.tab.show(want), c.tab.columns[i], shown(w), shown(have), r.last)
		}
	}
	return nil
}

// find gives the folded row that must equal want.
func (c *Comparison) find(want []cell) (*row, error) {
	id, err := c.tab.identify(want)
	if err != nil {
		return nil, err
	}
	if r := c.tab.rows[id]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("the stream lacks the row %s, which PostgreSQL has", c.tab.show(want))
}

// End reports a row that the stream has and PostgreSQL has not; otherwise it gives
// how many rows were equal.
func (c *Comparison) End() (int, error) {
	for _, id := range slices.Sorted(maps.Keys(c.tab.rows)) {
		if r := c.tab.rows[id]; r.seen < r.count {
			return c.rows, fmt.Errorf("table %s: the stream has the row %s %d times since offset %s, PostgreSQL %d times",
				c.tab.name, c.tab.show(r.cells), r.count, r.last, r.seen)
		}
	}
	return c.rows, nil
}

func shown(c cell) string {
	if !c.there {
		return "no such column"
	}
	return c.String()
}
