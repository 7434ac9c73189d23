package fold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"millrace/core/pos"
)

// Event is one record of a captured stream.
type Event struct {
	Op        string           // c, u, d, r, t or m
	Before    map[string]Value // the old row or its key, where PostgreSQL sent one
	After     map[string]Value // the new row without what Unchanged and Omitted name
	Unchanged []string         // columns whose large value the change left as it was
	Omitted   map[string]int64 // columns left out of a row for their size, and that size in bytes
	Source    Source
	Millis    int64 `json:"ts_ms"` // when the record was made
}

// Source says where an event comes from.
type Source struct {
	LSN      LSN `json:"lsn"` // of the commit; with Seq the event's position
	Seq      int64
	Last     bool  // the last event of its transaction
	TxID     int64 `json:"txId"`
	Micros   int64 `json:"ts_us"` // when it was committed
	Schema   string
	Table    string
	Snapshot string // "no": streamed; "first": a void; "yes" and "last": of a load
}

// Position orders the events of one capture.
type Position struct {
	LSN pos.LSN
	Seq int64
}

// String prints p as lsn/seq.
func (p Position) String() string { return p.LSN.String() + "+" + strconv.FormatInt(p.Seq, 10) }

// Less reports whether p comes before o.
func (p Position) Less(o Position) bool { return p.LSN < o.LSN || p.LSN == o.LSN && p.Seq < o.Seq }

// ParseEvent reads a record.
func ParseEvent(record []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(record, &e); err != nil {
		return Event{}, fmt.Errorf("record %.200q: %w", record, err)
	}
	return e, nil
}

// Table is the event's table as schema.table.
func (e *Event) Table() string { return e.Source.Schema + "." + e.Source.Table }

// Position is the event's position.
func (e *Event) Position() Position { return Position{pos.LSN(e.Source.LSN), e.Source.Seq} }

// Streamed tells an event of a commit from what a load or a void wrote.
func (e *Event) Streamed() bool { return e.Source.Snapshot == "no" }

// void reports whether the event says that its table's history begins anew.
func (e *Event) void() bool { return e.Op == "t" && e.Source.Snapshot == "first" }

// String names the event in a message.
func (e *Event) String() string {
	return fmt.Sprintf("%s %s at %s", e.Op, e.Table(), e.Position())
}

// LSN reads PostgreSQL's notation.
type LSN pos.LSN

// UnmarshalJSON reads "1/A3000028".
func (l *LSN) UnmarshalJSON(b []byte) error {
	var s string
	if err := unquote(b, &s); err != nil {
		return err
	}
	v, err := pos.ParseLSN(s)
	*l = LSN(v)
	return err
}

// unquote reads a JSON string. Most have nothing to unescape, and reading a stream
// back spends half of its time here otherwise.
func unquote(b []byte, s *string) error {
	if n := len(b); n >= 2 && b[0] == '"' && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		*s = string(b[1 : n-1])
		return nil
	}
	return json.Unmarshal(b, s)
}

// Value is one column of one row as PostgreSQL's text, NULL, or a value that was
// left out for its size. The zero Value is an empty text.
type Value struct {
	Text string
	Null bool
	Size int64 // of a value left out: at least 1, and Text is empty
}

// UnmarshalJSON takes null, a string, a number as it is written, and true and
// false as PostgreSQL prints them.
func (v *Value) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n':
		*v = Value{Null: true}
	case 't', 'f':
		*v = Value{Text: string(b[:1])}
	case '"':
		*v = Value{}
		return unquote(b, &v.Text)
	case '{', '[':
		return fmt.Errorf("column value %.40s: want null, a boolean, a number or a string", b)
	default:
		*v = Value{Text: string(b)}
	}
	return nil
}

// String prints v in a message.
func (v Value) String() string {
	switch {
	case v.Null:
		return "NULL"
	case v.Size > 0:
		return fmt.Sprintf("(%d bytes left out)", v.Size)
	case len(v.Text) > 60:
		return fmt.Sprintf("%q... (%d bytes)", v.Text[:60], len(v.Text))
	}
	return strconv.Quote(v.Text)
}

// agrees reports whether v and o may be the same value: one left out agrees with
// any text of its size.
func (v Value) agrees(o Value) bool {
	switch {
	case v.Size > 0 && o.Size == 0:
		return !o.Null && v.Size == int64(len(o.Text))
	case o.Size > 0 && v.Size == 0:
		return o.agrees(v)
	}
	return v == o
}
