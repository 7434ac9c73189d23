package pgout

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"millrace/core/pos"
)

var regenerate = flag.Bool("regenerate", false, "write the golden files")

func text(s string) Value { return Value{Kind: Text, Text: []byte(s)} }

var null = Value{Kind: Null}

var orders = &Relation{OID: 16384, Schema: "public", Name: "orders", Identity: IdentityDefault, Columns: []Column{
	{Name: "id", Key: true, Type: oidInt8, Mod: -1}, {Name: "status", Type: 25, Mod: -1}, {Name: "note", Type: 25, Mod: -1}, {Name: "photo", Type: 17, Mod: -1}}}

func goldenSource(seq int64, s Snapshot) source {
	return source{at: Position{LSN: 0x1A3000028, Seq: seq}, xid: 771, micros: 1772452804118000, snapshot: s}
}

// TestGoldenRecords writes every kind of record; the file is reviewed as a diff.
func TestGoldenRecords(t *testing.T) {
	const now = pos.Millis(1772452804131)
	p := &pen{maxValue: 100, room: maxRecord}
	kinds := &Relation{Schema: "odd \"schema\"", Name: "täble", Identity: IdentityFull, Columns: []Column{
		{Name: "i2", Type: oidInt2, Mod: -1}, {Name: "i4", Type: oidInt4, Mod: -1}, {Name: "f4", Type: oidFloat4, Mod: -1}, {Name: "f8", Type: oidFloat8, Mod: -1},
		{Name: "b", Type: oidBool, Mod: -1}, {Name: "n", Type: 1700, Mod: -1}, {Name: "a\"b", Type: 25, Mod: -1}}}
	var out strings.Builder
	add := func(d *draft, last bool) {
		payload, err := Section(d.seal(nil, last))
		if err != nil || !json.Valid(payload) {
			t.Fatalf("%s: %v", payload, err)
		}
		fmt.Fprintf(&out, "%s\n", payload)
	}
	row := Tuple{text("7"), text("new"), null, text(`\x00ff`)}
	add(p.row(OpCreate, orders, OldNone, nil, row, goldenSource(0, SnapshotNo), now), false)
	add(p.row(OpUpdate, orders, OldNone, nil, Tuple{text("7"), text("paid"), null, {Kind: Unchanged}}, goldenSource(1, SnapshotNo), now), false)
	add(p.row(OpUpdate, orders, OldKey, Tuple{text("7"), null, null, null}, Tuple{text("8"), text("paid"), null, {Kind: Unchanged}}, goldenSource(2, SnapshotNo), now), false)
	add(p.row(OpUpdate, orders, OldFull, row, Tuple{text("8"), text(strings.Repeat("x", 101)), null, text("y")}, goldenSource(3, SnapshotNo), now), false)
	add(p.row(OpUpdate, orders, OldFull, Tuple{text("8"), text(strings.Repeat("x", 101)), null, text("y")},
		Tuple{text("8"), text(strings.Repeat("x", 300)), text(strings.Repeat("z", 101)), text("y")}, goldenSource(4, SnapshotNo), now), false)
	add(p.row(OpDelete, orders, OldKey, Tuple{text("8"), null, null, null}, nil, goldenSource(5, SnapshotNo), now), false)
	add(p.truncate(orders, goldenSource(6, SnapshotNo), now), true)
	add(p.row(OpCreate, kinds, OldNone, nil, Tuple{text("-32768"), text("0"), text("NaN"), text("-Infinity"), text("t"), text("1.00"), text("\"\\\n\r\t\x01é\xff😀")}, goldenSource(0, SnapshotNo), now), false)
	add(p.row(OpCreate, kinds, OldNone, nil, Tuple{text("1"), text("2"), text("1e-05"), text("1e+308"), text("f"), text("NaN"), text("")}, goldenSource(1, SnapshotNo), now), true)
	add(p.truncate(orders, goldenSource(0, SnapshotFirst), now), false)
	add(p.row(OpRead, orders, OldNone, nil, row, goldenSource(1, SnapshotYes), now), false)
	add(p.loaded(orders, 1, 0x1A3000029, goldenSource(2, SnapshotLast), now), true)
	add(p.schema(orders, goldenSource(7, SnapshotNo), now), false)
	add(p.end(orders, goldenSource(8, SnapshotNo), now), true)
	golden(t, "records.txt", out.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *regenerate {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (%v); run go test -regenerate and review the diff. Got:\n%s", path, err, got)
	}
}

// The last record of a transaction is one byte shorter: over the border of the short
// AMQP form too.
func TestSealDecidesLast(t *testing.T) {
	for n := range 300 {
		for _, last := range []bool{false, true} {
			p := &pen{maxValue: 1 << 20, room: maxRecord}
			body := p.row(OpCreate, orders, OldNone, nil, Tuple{text("1"), text(strings.Repeat("x", n)), null, null}, goldenSource(3, SnapshotNo), 5).seal(nil, last)
			e, err := DecodeRecord(body)
			if err != nil || e.Source.Last != last || e.Position() != (Position{LSN: 0x1A3000028, Seq: 3}) || e.Source.TxID != 771 || e.Made != 5 {
				t.Fatalf("%d %v: %+v, %v", n, last, e, err)
			}
		}
	}
}

// A value that would make the record too long is omitted like one that is too long.
func TestRecordIsBounded(t *testing.T) {
	p := &pen{maxValue: 1000, room: 2000}
	huge := make([]byte, 1000) // each byte takes six as \u0000
	d := p.row(OpCreate, orders, OldNone, nil, Tuple{text("1"), text("before"), {Text, huge}, text("after")}, goldenSource(0, SnapshotNo), 1)
	if len(d.json) > 1000 || !strings.Contains(string(d.json), `"omitted":{"note":`) || !strings.Contains(string(d.json), `"photo":"after"`) {
		t.Fatalf("%d bytes", len(d.json))
	}
}

func TestDigestIgnoresLastAndTime(t *testing.T) {
	p := &pen{maxValue: 100, room: maxRecord}
	digest := func(status string, seq int64, last bool, now pos.Millis) Digest {
		body := p.row(OpCreate, orders, OldNone, nil, Tuple{text("1"), text(status), null, null}, goldenSource(seq, SnapshotNo), now).seal(nil, last)
		e, err := DecodeRecord(body)
		if err != nil {
			t.Fatal(err)
		}
		return e.digest(body)
	}
	base := digest(`,"ts_ms":1,"source":{"last":true}`, 0, false, 1)
	for what, c := range map[string]struct {
		other Digest
		same  bool
	}{
		"last":           {digest(`,"ts_ms":1,"source":{"last":true}`, 0, true, 1), true},
		"time":           {digest(`,"ts_ms":1,"source":{"last":true}`, 0, false, 99999), true},
		"seq":            {digest(`,"ts_ms":1,"source":{"last":true}`, 1, false, 1), false},
		"image":          {digest("x", 0, false, 1), false},
		"omitted image":  {digest(strings.Repeat("x", 101), 0, false, 1), true},
		"omitted source": {digest(strings.Repeat("x", 101), 2, false, 1), false},
	} {
		if base.agrees(c.other) != c.same || c.other.agrees(base) != c.same {
			t.Errorf("%s: agrees %v, want %v", what, !c.same, c.same)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, s := range []string{"0", "-0", "1", "-9223372036854775808", "0.1", "-1.5e+20", "1e-05", "12E3", "NaN", "Infinity", "", "-", "01", "1.", ".5", "1e", "1e+", "0x1", "1 ", "--1"} {
		var n json.Number
		valid := json.Unmarshal([]byte(s), &n) == nil && s != `""`
		if isNumber([]byte(s)) != (valid && strings.TrimSpace(s) == s) {
			t.Errorf("%q: isNumber %v, JSON says %v", s, isNumber([]byte(s)), valid)
		}
	}
}

func FuzzString(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\x00\x1f\u2028é😀\xff\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want || !utf8.ValidString(got) {
			t.Fatalf("%q became %q", s, got)
		}
		if b := appendString(nil, []byte(s)); string(b) != string(appendString(nil, s)) {
			t.Fatalf("bytes and string differ: %q", b)
		}
	})
}

func TestAppendLSN(t *testing.T) {
	for _, l := range []pos.LSN{0, 1, 0xf, 0x10, 0xffffffff, 1 << 32, 0x1A3000028, 1<<64 - 1} {
		if got := string(appendLSN(nil, l)); got != l.String() {
			t.Errorf("%d: %s, want %s", l, got, l)
		}
	}
}
