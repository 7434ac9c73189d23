package pgtest

import (
	"encoding/json"
	"fmt"
	"strings"

	"millrace/core/pgout"
)

// Fold is what a consumer holds after the records it applied.
type Fold struct {
	keys   func(table string) []string
	tables map[string]*foldTable
	last   pgout.Position
	began  bool
	open   *pgout.Event // the last record, when its transaction goes on

	Records, Voids, Messages, Loaded int
}

type foldTable struct {
	rows    map[string]foldRow
	loading bool
}

type foldRow map[string]json.RawMessage

// NewFold returns an empty fold. keys names a table's key columns ("schema.table").
func NewFold(keys func(table string) []string) *Fold {
	return &Fold{keys: keys, tables: map[string]*foldTable{}}
}

// Apply takes the next record of the stream.
func (f *Fold) Apply(body []byte) error {
	e, err := pgout.DecodeRecord(body)
	if err != nil {
		return err
	}
	name := e.Source.Schema + "." + e.Source.Table
	if err := f.order(e); err != nil {
		return fmt.Errorf("record %d (%c of %s at %s, snapshot %s): %w", f.Records, e.Op, name, e.Position(), e.Source.Snapshot, err)
	}
	t := f.tables[name]
	if t == nil {
		t = &foldTable{rows: map[string]foldRow{}}
		f.tables[name] = t
	}
	if err := f.change(t, name, e); err != nil {
		return fmt.Errorf("record %d (%c of %s at %s, snapshot %s): %w", f.Records, e.Op, name, e.Position(), e.Source.Snapshot, err)
	}
	f.Records++
	return nil
}

func (f *Fold) order(e *pgout.Event) error {
	void := e.Source.Snapshot == pgout.SnapshotFirst
	at := e.Position()
	if f.began && !void && at.Compare(f.last) <= 0 {
		return fmt.Errorf("does not come after %s", f.last)
	}
	if f.open != nil && !void && (e.Source.LSN != f.open.Source.LSN || e.Source.Snapshot != pgout.SnapshotNo) {
		return fmt.Errorf("comes inside the transaction at %s", f.open.Source.LSN)
	}
	f.last, f.began, f.open = at, true, nil
	if e.Source.Snapshot == pgout.SnapshotNo && !e.Source.Last {
		f.open = e
	}
	return nil
}

func (f *Fold) change(t *foldTable, name string, e *pgout.Event) error {
	switch e.Op {
	case pgout.OpTruncate:
		clear(t.rows)
		if e.Source.Snapshot == pgout.SnapshotFirst {
			f.Voids++
			t.loading = true
		}
		return nil
	case pgout.OpMessage:
		f.Messages++
		if e.Source.Snapshot == pgout.SnapshotLast {
			f.Loaded++
			t.loading = false
		}
		return nil
	case pgout.OpRead:
		if !t.loading {
			return fmt.Errorf("a loaded row outside a load")
		}
		return f.put(t, name, e.After, nil)
	case pgout.OpCreate, pgout.OpUpdate, pgout.OpDelete:
		if t.loading {
			return fmt.Errorf("a change inside the load of its table")
		}
		return f.write(t, name, e)
	}
	return fmt.Errorf("op %q", e.Op)
}

// write does what one row's change says.
func (f *Fold) write(t *foldTable, name string, e *pgout.Event) error {
	if e.Op == pgout.OpCreate {
		return f.put(t, name, e.After, nil)
	}
	if e.Op == pgout.OpDelete {
		_, err := f.take(t, name, e.Before)
		return err
	}
	image := e.Before
	if image == nil {
		image = e.After
	}
	old, err := f.take(t, name, image)
	if err != nil {
		return err
	}
	kept := foldRow{}
	for _, c := range e.Unchanged {
		kept[c] = old[c]
	}
	return f.put(t, name, e.After, kept)
}

func (f *Fold) key(name string, r foldRow) string {
	var parts []string
	for _, c := range f.keys(name) {
		parts = append(parts, Text(r[c]))
	}
	return strings.Join(parts, "|")
}

func (f *Fold) put(t *foldTable, name string, image json.RawMessage, kept foldRow) error {
	r := foldRow{}
	if err := json.Unmarshal(image, &r); err != nil {
		return fmt.Errorf("its image: %w", err)
	}
	for c, v := range kept {
		r[c] = v
	}
	key := f.key(name, r)
	if _, twice := t.rows[key]; twice {
		return fmt.Errorf("row %q is there already", key)
	}
	t.rows[key] = r
	return nil
}

func (f *Fold) take(t *foldTable, name string, image json.RawMessage) (foldRow, error) {
	r := foldRow{}
	if err := json.Unmarshal(image, &r); err != nil {
		return nil, fmt.Errorf("its image: %w", err)
	}
	key := f.key(name, r)
	old, ok := t.rows[key]
	if !ok {
		return nil, fmt.Errorf("row %q is not there", key)
	}
	delete(t.rows, key)
	return old, nil
}

// Rows returns a table's rows by the text of their key, each as the text of the given
// columns in COPY's format. A column a row does not have is NULL.
func (f *Fold) Rows(name string, columns []string) map[string]string {
	out := map[string]string{}
	t := f.tables[name]
	if t == nil {
		return out
	}
	for key, r := range t.rows {
		var tuple pgout.Tuple
		for _, c := range columns {
			v, ok := r[c]
			if !ok || string(v) == "null" {
				tuple = append(tuple, pgout.Value{Kind: pgout.Null})
				continue
			}
			tuple = append(tuple, pgout.Value{Kind: pgout.Text, Text: []byte(Text(v))})
		}
		out[key] = string(pgout.AppendCopyLine(nil, tuple))
	}
	return out
}

// Text is PostgreSQL's text of a JSON value.
func Text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	switch string(v) {
	case "true":
		return "t"
	case "false":
		return "f"
	}
	return string(v)
}
