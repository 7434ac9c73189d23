package fold

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/core/pos"
)

// Tables are the tables that a stream adds up to so far.
type Tables struct {
	keys   map[string][]string
	tables map[string]*table
}

// table holds one table's rows. Invariants:
//  1. a row's cells are as many as columns or fewer; a cell beyond or absent is a
//     column that the row's events never had.
//  2. rows are under identify(row); with a key each count is 1.
type table struct {
	name    string
	key     []string // columns of the replica identity; none: the whole row
	columns []string
	index   map[string]int // place of each column
	rows    map[string]*row
}

type row struct {
	cells []cell
	count int        // how many equal rows there are
	last  pos.Offset // of the last event that wrote it
	seen  int        // by a Comparison
}

type cell struct {
	Value
	there bool
}

// New makes empty tables. keys gives the columns of the replica identity of each
// schema.table that has one smaller than the whole row.
func New(keys map[string][]string) *Tables {
	return &Tables{keys: keys, tables: map[string]*table{}}
}

// Names lists the tables that any event named, sorted.
func (t *Tables) Names() []string { return slices.Sorted(maps.Keys(t.tables)) }

// Rows counts the rows of a table.
func (t *Tables) Rows(name string) int {
	n := 0
	if tab := t.tables[name]; tab != nil {
		for _, r := range tab.rows {
			n += r.count
		}
	}
	return n
}

// Apply folds one event, which stands at the given offset, into its table.
// An error means that it does not follow from what came before.
func (t *Tables) Apply(at pos.Offset, e *Event) error {
	if e.Op == "m" {
		return nil
	}
	tab := t.table(e.Table())
	var err error
	switch e.Op {
	case "c", "r":
		err = tab.insert(at, e)
	case "u":
		err = tab.update(at, e)
	case "d":
		err = tab.delete(e)
	case "t":
		clear(tab.rows)
	default:
		err = fmt.Errorf("unknown op %q", e.Op)
	}
	if err != nil {
		return fmt.Errorf("offset %s, %s: %w", at, e, err)
	}
	return nil
}

func (t *Tables) table(name string) *table {
	tab := t.tables[name]
	if tab == nil {
		tab = &table{name: name, key: t.keys[name], index: map[string]int{}, rows: map[string]*row{}}
		t.tables[name] = tab
	}
	return tab
}

func (t *table) insert(at pos.Offset, e *Event) error {
	if len(e.Before) > 0 || len(e.Unchanged) > 0 {
		return fmt.Errorf("an insert has no old row and leaves nothing unchanged")
	}
	return t.put(at, t.patch(nil, e))
}

// put adds a row with the given cells.
func (t *table) put(at pos.Offset, cells []cell) error {
	id, err := t.identify(cells)
	if err != nil {
		return err
	}
	old := t.rows[id]
	switch {
	case old == nil:
		t.rows[id] = &row{cells: cells, count: 1, last: at}
	case len(t.key) > 0:
		return fmt.Errorf("the row %s is there already, since offset %s", t.show(cells), old.last)
	default:
		old.count, old.last = old.count+1, at
	}
	return nil
}

func (t *table) update(at pos.Offset, e *Event) error {
	old, err := t.take(e, true)
	if err != nil {
		return err
	}
	for _, name := range e.Unchanged {
		if _, both := e.After[name]; both {
			return fmt.Errorf("column %s is both unchanged and there", name)
		}
		if i, ok := t.index[name]; !ok || i >= len(old) || !old[i].there {
			return fmt.Errorf("column %s is unchanged, but the row %s has none", name, t.show(old))
		}
	}
	cells := t.patch(old, e)
	for i, c := range old {
		name := t.columns[i]
		_, there := e.After[name]
		_, omitted := e.Omitted[name]
		if c.there && !there && !omitted && !slices.Contains(e.Unchanged, name) {
			return fmt.Errorf("column %s is missing, and neither unchanged nor omitted", name)
		}
	}
	return t.put(at, cells)
}

func (t *table) delete(e *Event) error {
	if len(e.After) > 0 {
		return fmt.Errorf("a delete has no new row")
	}
	_, err := t.take(e, false)
	return err
}

// take removes the row that e is about and gives its cells. PostgreSQL sends the
// old key only where it changed or nothing else tells it; so where there is none,
// the new row has it.
func (t *table) take(e *Event, update bool) ([]cell, error) {
	told := e.Before
	if len(told) == 0 && update && len(t.key) > 0 {
		told = e.After
	}
	cells := t.cells(told)
	if len(t.key) == 0 {
		cells = t.omit(cells, e.Omitted, told, nil)
	}
	id, err := t.identify(cells)
	if err != nil {
		return nil, err
	}
	r := t.rows[id]
	if r == nil {
		return nil, fmt.Errorf("the row %s is not there", t.show(cells))
	}
	for name, v := range e.Before {
		if i := t.index[name]; i >= len(r.cells) || !r.cells[i].agrees(v) {
			return nil, fmt.Errorf("column %s of the old row is %s, but since offset %s it is %s", name, v, r.last, t.at(r, i))
		}
	}
	if r.count--; r.count == 0 {
		delete(t.rows, id)
	}
	return r.cells, nil
}

// patch gives the cells of a row after e: what e tells over what was.
func (t *table) patch(old []cell, e *Event) []cell {
	cells := slices.Clone(old)
	for name, v := range e.After {
		cells = t.set(cells, name, v)
	}
	return t.omit(cells, e.Omitted, e.After, e.Unchanged)
}

// omit marks in cells the omitted columns that the row told lacks, unless they are
// missing there because they are unchanged.
func (t *table) omit(cells []cell, omitted map[string]int64, told map[string]Value, unchanged []string) []cell {
	for name, size := range omitted {
		if _, there := told[name]; !there && !slices.Contains(unchanged, name) {
			cells = t.set(cells, name, Value{Size: size})
		}
	}
	return cells
}

func (t *table) cells(values map[string]Value) []cell {
	var cells []cell
	for name, v := range values {
		cells = t.set(cells, name, v)
	}
	return cells
}

// set puts a value into cells, which may have to grow.
func (t *table) set(cells []cell, name string, v Value) []cell {
	i, ok := t.index[name]
	if !ok {
		i = len(t.columns)
		t.index[name] = i
		t.columns = append(t.columns, name)
	}
	if i >= len(cells) {
		grown := make([]cell, len(t.columns))
		copy(grown, cells)
		cells = grown
	}
	cells[i] = cell{v, true}
	return cells
}

// identify gives the string under which a row with these cells is found: its key's
// values, or all that are there, each behind its column's place.
func (t *table) identify(cells []cell) (string, error) {
	var id []byte
	if len(t.key) == 0 {
		for i, c := range cells {
			if c.there {
				id = appendCell(id, i, c.Value)
			}
		}
		return string(id), nil
	}
	for _, name := range t.key {
		i, ok := t.index[name]
		if !ok || i >= len(cells) || !cells[i].there {
			return "", fmt.Errorf("key column %s is missing", name)
		}
		id = appendCell(id, i, cells[i].Value)
	}
	return string(id), nil
}

func appendCell(id []byte, column int, v Value) []byte {
	id = binary.AppendUvarint(id, uint64(column))
	switch {
	case v.Null:
		return append(id, 'n')
	case v.Size > 0:
		return binary.AppendVarint(append(id, 'o'), v.Size)
	}
	id = binary.AppendUvarint(append(id, 't'), uint64(len(v.Text)))
	return append(id, v.Text...)
}

// show prints a row's key, or the whole row where there is none.
func (t *table) show(cells []cell) string {
	var parts []string
	for i, c := range cells {
		if c.there && (len(t.key) == 0 || slices.Contains(t.key, t.columns[i])) {
			parts = append(parts, t.columns[i]+"="+c.String())
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// at prints what a row has in a column.
func (t *table) at(r *row, column int) string {
	if column >= len(r.cells) || !r.cells[column].there {
		return "absent"
	}
	return r.cells[column].String()
}
