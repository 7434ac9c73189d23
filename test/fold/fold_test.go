package fold

import (
	"fmt"
	"strings"
	"testing"

	"millrace/core/pos"
)

// record writes a streamed record of public.t; rest is its op and rows.
func record(lsn, seq int, last bool, rest string) string {
	return fmt.Sprintf(`{%s,"source":{"lsn":"0/%X","seq":%d,"last":%v,"txId":771,"ts_us":1,"schema":"public","table":"t","snapshot":"no"},"ts_ms":2}`,
		rest, lsn, seq, last)
}

// apply folds records, given without their source, and gives the first error.
func apply(tables *Tables, records ...string) error {
	for i, r := range records {
		e, err := ParseEvent([]byte(record(16, i, false, r)))
		if err != nil {
			return err
		}
		if err := tables.Apply(pos.Offset(i), &e); err != nil {
			return err
		}
	}
	return nil
}

// same compares public.t with rows of "column=value" pairs; NULL is null.
func same(tables *Tables, rows ...string) error {
	c := tables.Compare("public.t")
	for _, r := range rows {
		var columns []string
		var values []Value
		for pair := range strings.FieldsSeq(r) {
			name, text, _ := strings.Cut(pair, "=")
			columns, values = append(columns, name), append(values, Value{Text: text, Null: text == "NULL"})
			if text == "NULL" {
				values[len(values)-1].Text = ""
			}
		}
		if err := c.Row(columns, values); err != nil {
			return err
		}
	}
	_, err := c.End()
	return err
}

func says(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got error %q, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want one that says %q", err, want)
	}
}

func TestFold(t *testing.T) {
	keyed := map[string][]string{"public.t": {"id"}}
	for name, c := range map[string]struct {
		keys    map[string][]string
		records []string
		rows    []string
		applyTo string // what the error of Apply says
		differ  string // what the error of the comparison says
	}{
		"insert, update, delete": {
			keys: keyed,
			records: []string{
				`"op":"r","after":{"id":1,"a":"x","b":null}`,
				`"op":"c","after":{"id":2,"a":"","b":true}`,
				`"op":"c","after":{"id":3,"a":"z","b":false}`,
				`"op":"u","after":{"id":1,"a":"y","b":"w"}`,
				`"op":"d","before":{"id":3}`,
			},
			rows: []string{"id=2 a= b=t", "id=1 a=y b=w"},
		},
		"a number keeps its digits": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":9223372036854775807,"a":1e+308}`, `"op":"c","after":{"id":-0,"a":0.1}`},
			rows:    []string{"id=9223372036854775807 a=1e+308", "id=-0 a=0.1"},
		},
		"an unchanged value stays": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"photo":"big","a":1}`, `"op":"u","after":{"id":1,"a":2},"unchanged":["photo"]`},
			rows:    []string{"id=1 photo=big a=2"},
		},
		"a key that changes": {
			keys: keyed,
			records: []string{
				`"op":"c","after":{"id":1,"photo":"big","a":1}`,
				`"op":"u","before":{"id":1},"after":{"id":2,"a":1},"unchanged":["photo"]`,
				`"op":"c","after":{"id":1,"photo":"new","a":3}`,
			},
			rows: []string{"id=1 photo=new a=3", "id=2 photo=big a=1"},
		},
		"an old row that is whole": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"a":"x"}`, `"op":"u","before":{"id":1,"a":"x"},"after":{"id":1,"a":"y"}`, `"op":"d","before":{"id":1,"a":"y"}`},
		},
		"a bag of rows": {
			records: []string{
				`"op":"c","after":{"a":1,"b":"x"}`, `"op":"c","after":{"a":1,"b":"x"}`, `"op":"c","after":{"a":1,"b":null}`,
				`"op":"u","before":{"a":1,"b":"x"},"after":{"a":2},"unchanged":["b"]`,
				`"op":"d","before":{"a":1,"b":null}`,
			},
			rows: []string{"a=1 b=x", "a=2 b=x"},
		},
		"truncate, then anew": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1}`, `"op":"t"`, `"op":"c","after":{"id":1}`},
			rows:    []string{"id=1"},
		},
		"a message changes nothing": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1}`, `"op":"m"`},
			rows:    []string{"id=1"},
		},
		"a value left out agrees with its size": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1},"omitted":{"a":5}`},
			rows:    []string{"id=1 a=12345"},
		},
		"values left out of old and new rows of a bag": {
			records: []string{
				`"op":"c","after":{"a":1},"omitted":{"b":5}`,
				`"op":"u","before":{"a":1},"after":{"a":2},"unchanged":["b"],"omitted":{"b":5}`,
				`"op":"u","before":{"a":2},"after":{"a":2,"b":"x"},"omitted":{"b":5}`,
				`"op":"u","before":{"a":2,"b":"x"},"after":{"a":3},"omitted":{"b":4}`,
				`"op":"d","before":{"a":3},"after":null,"omitted":{"b":4}`,
				`"op":"c","before":null,"after":{"a":9,"b":""}`,
			},
			rows: []string{"a=9 b="},
		},
		"a value left out of another size": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1},"omitted":{"a":5}`},
			rows:    []string{"id=1 a=1234"},
			differ:  `column a: PostgreSQL has "1234", the stream has (5 bytes left out) since offset 0`,
		},
		"an insert twice": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1}`, `"op":"c","after":{"id":1}`},
			applyTo: `offset 1, c public.t at 0/10+1: the row (id="1") is there already, since offset 0`,
		},
		"an update of nothing": {
			keys:    keyed,
			records: []string{`"op":"u","after":{"id":1}`},
			applyTo: `the row (id="1") is not there`,
		},
		"a delete of nothing": {
			records: []string{`"op":"c","after":{"a":1}`, `"op":"d","before":{"a":2}`},
			applyTo: `the row (a="2") is not there`,
		},
		"a delete twice of one of two": {
			records: []string{`"op":"c","after":{"a":1}`, `"op":"c","after":{"a":1}`, `"op":"d","before":{"a":1}`},
			rows:    []string{"a=1"},
		},
		"an old row that differs": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"a":"x"}`, `"op":"u","before":{"id":1,"a":"w"},"after":{"id":1,"a":"y"}`},
			applyTo: `column a of the old row is "w", but since offset 0 it is "x"`,
		},
		"a column that is lost": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"a":"x"}`, `"op":"u","after":{"id":1}`},
			applyTo: "column a is missing, and neither unchanged nor omitted",
		},
		"unchanged since never": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1}`, `"op":"u","after":{"id":1},"unchanged":["a"]`},
			applyTo: "column a is unchanged, but the row",
		},
		"unchanged and there": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"a":1}`, `"op":"u","after":{"id":1,"a":1},"unchanged":["a"]`},
			applyTo: "column a is both unchanged and there",
		},
		"no key":         {keys: keyed, records: []string{`"op":"d","before":{"a":1}`}, applyTo: "key column id is missing"},
		"an unknown op":  {records: []string{`"op":"x"`}, applyTo: `unknown op "x"`},
		"a column value": {records: []string{`"op":"c","after":{"a":[1]}`}, applyTo: "want null, a boolean"},
		"NULL is not the empty text": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"a":null}`},
			rows:    []string{"id=1 a="},
			differ:  `row (id="1"), column a: PostgreSQL has "", the stream has NULL since offset 0`,
		},
		"a row too few": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1}`},
			rows:    []string{"id=1", "id=2"},
			differ:  `the stream lacks the row (id="2")`,
		},
		"a row too many": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1}`, `"op":"c","after":{"id":2}`},
			rows:    []string{"id=1"},
			differ:  `the stream has the row (id="2") 1 times since offset 1, PostgreSQL 0 times`,
		},
		"an equal row too few": {
			records: []string{`"op":"c","after":{"a":1}`},
			rows:    []string{"a=1", "a=1"},
			differ:  `PostgreSQL has the row (a="1") 2 times, the stream 1`,
		},
		"a column too many": {
			keys:    keyed,
			records: []string{`"op":"c","after":{"id":1,"b":2}`},
			rows:    []string{"id=1"},
			differ:  `column b: PostgreSQL has no such column, the stream has "2"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tables := New(c.keys)
			err := apply(tables, c.records...)
			says(t, err, c.applyTo)
			if c.applyTo == "" {
				says(t, same(tables, c.rows...), c.differ)
			}
		})
	}
}

func TestLedger(t *testing.T) {
	const row = `"op":"c","after":{"id":1}`
	loaded := func(lsn, seq int, op string) string {
		return strings.Replace(record(lsn, seq, false, op), `"snapshot":"no"`, `"snapshot":"first"`, 1)
	}
	for name, c := range map[string]struct {
		records []string
		says    string
		want    Ledger
	}{
		"two transactions": {
			[]string{record(16, 0, false, row), record(16, 1, true, row), record(32, 0, true, row)},
			"", Ledger{Events: 3, Commits: 2},
		},
		"a load before them": {
			[]string{loaded(8, 0, `"op":"t"`), loaded(8, 1, `"op":"r"`), loaded(8, 2, `"op":"m"`), record(16, 0, true, row)},
			"", Ledger{Events: 2, Commits: 1},
		},
		"a void within one": {
			[]string{record(16, 0, false, row), loaded(17, 0, `"op":"t"`), record(32, 0, true, row)},
			"", Ledger{Events: 2, Commits: 1},
		},
		"a schema message before its change": {
			[]string{record(16, 0, false, row), record(16, 1, false, `"op":"m"`), record(16, 1, false, `"op":"m"`), record(16, 1, true, row)},
			"", Ledger{Events: 2, Commits: 1},
		},
		"a schema message too late": {
			[]string{record(16, 0, false, row), record(16, 1, true, row), record(16, 1, true, `"op":"m"`)},
			"duplicated", Ledger{Events: 2, Commits: 1, Duplicated: 1},
		},
		"a void that goes back": {
			[]string{record(32, 0, true, row), loaded(8, 0, `"op":"t"`), loaded(8, 1, `"op":"t"`), loaded(8, 2, `"op":"r"`), record(16, 0, true, row)},
			"", Ledger{Events: 3, Commits: 2},
		},
		"a loaded row twice": {
			[]string{loaded(8, 0, `"op":"t"`), loaded(8, 1, `"op":"r"`), loaded(8, 1, `"op":"r"`)},
			"duplicated", Ledger{Events: 1, Duplicated: 1},
		},
		"an event twice": {
			[]string{record(16, 0, false, row), record(16, 0, false, row), record(16, 1, true, row)},
			"duplicated", Ledger{Events: 2, Commits: 1, Duplicated: 1},
		},
		"a transaction twice": {
			[]string{record(16, 0, true, row), record(32, 0, true, row), record(16, 0, true, row)},
			"duplicated", Ledger{Events: 2, Commits: 2, Duplicated: 1},
		},
		"a transaction late": {
			[]string{record(16, 0, true, row), record(48, 0, true, row), record(32, 0, true, row)},
			"out of order, it belongs before 0/30+0", Ledger{Events: 2, Commits: 2, OutOfOrder: 1},
		},
		"an event missing in the middle": {
			[]string{record(16, 0, false, row), record(16, 3, true, row)},
			"events 1 up to it are missing", Ledger{Events: 2, Commits: 1, Missing: 2},
		},
		"an event missing at the start": {
			[]string{record(16, 1, true, row)},
			"events 0 up to it are missing", Ledger{Events: 1, Commits: 1, Missing: 1},
		},
		"an event missing at the end": {
			[]string{record(16, 0, false, row), record(32, 0, true, row)},
			"the transaction at 0/10+0 lacks its last event", Ledger{Events: 2, Commits: 1, Missing: 1},
		},
		"a transaction that never ends": {
			[]string{record(16, 0, false, row)},
			"the stream ends within the transaction at 0/10+0", Ledger{Events: 1, Missing: 1},
		},
		"an event behind the last": {
			[]string{record(16, 0, true, row), record(16, 1, true, row)},
			"events 0 up to it are missing", Ledger{Events: 2, Commits: 2, Missing: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			var first error
			for i, r := range c.records {
				e, err := ParseEvent([]byte(r))
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Apply(pos.Offset(i), &e); err != nil && first == nil {
					first = err
				}
			}
			if err := l.End(); err != nil && first == nil {
				first = err
			}
			says(t, first, c.says)
			l.positions, l.open = nil, false
			if fmt.Sprint(l) != fmt.Sprint(c.want) {
				t.Errorf("counted %+v, want %+v", l, c.want)
			}
		})
	}
}
