package pgout

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// samples has one message of each kind.
func samples() []Message {
	row := Tuple{{Kind: Text, Text: []byte("7")}, {Kind: Null}, {Kind: Unchanged}, {Kind: Text, Text: []byte{}}}
	return []Message{
		&Begin{Final: 0x1A3000028, Micros: 1772452804118000, XID: 771},
		&Commit{Flags: 0, Final: 0x1A3000028, End: 0x1A3000058, Micros: 1772452804118000},
		&Origin{Final: 5, Name: "elsewhere"},
		&TypeName{OID: 16400, Schema: "public", Name: "mood"},
		&Logical{Transactional: true, LSN: 9, Prefix: "app", Content: []byte("hi")},
		&Relation{OID: 16384, Schema: "public", Name: "orders", Identity: IdentityFull, Columns: []Column{{Name: "id", Key: true, Type: 20, Mod: -1}, {Name: "price", Type: 1700, Mod: 655366}}},
		&Relation{OID: 1, Schema: "pg_catalog", Name: "x", Identity: IdentityNothing, Columns: []Column{}},
		&Insert{Relation: 16384, New: row},
		&Update{Relation: 16384, New: row},
		&Update{Relation: 16384, OldKind: OldKey, Old: row, New: row},
		&Update{Relation: 16384, OldKind: OldFull, Old: row, New: row},
		&Delete{Relation: 16384, OldKind: OldKey, Old: row},
		&Truncate{Options: 3, Relations: []uint32{16384, 16390}},
	}
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	var d Decoder
	for _, want := range samples() {
		got, err := d.Decode(Encode(nil, want))
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%T: got %+v, %v, want %+v", want, got, err, want)
		}
	}
}

// Bytes laid out by PostgreSQL's own documentation of the formats.
func TestDecodeBytes(t *testing.T) {
	for text, want := range map[string]Message{
		"42 00000001a3000028 0002eecb7b42ef00 00000303":                                                       &Begin{Final: 0x1A3000028, Micros: epoch2000 + 0x2eecb7b42ef00, XID: 771},
		"52 00004001 7075626c696300 7400 64 0002 01 696400 00000014 ffffffff 00 7465787400 00000019 ffffffff": &Relation{OID: 16385, Schema: "public", Name: "t", Identity: 'd', Columns: []Column{{"id", true, 20, -1}, {"text", false, 25, -1}}},
		"55 00004001 4b 0002 74 00000001 31 6e 4e 0002 74 00000001 32 75":                                     &Update{Relation: 16385, OldKind: OldKey, Old: Tuple{{Text, []byte("1")}, {Kind: Null}}, New: Tuple{{Text, []byte("2")}, {Kind: Unchanged}}},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var d Decoder
		got, err := d.Decode(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestEveryTruncationAndEveryExtraByteIsAnError(t *testing.T) {
	for _, m := range samples() {
		b := Encode(nil, m)
		for n := range b {
			var d Decoder
			if got, err := d.Decode(b[:n]); err == nil {
				t.Errorf("%T cut to %d of %d bytes: %+v", m, n, len(b), got)
			}
		}
		var d Decoder
		if got, err := d.Decode(append(b, 0)); err == nil {
			t.Errorf("%T with a byte too many: %+v", m, got)
		}
	}
	var d Decoder
	for _, text := range []string{"", "Z", "I\x00\x00\x00\x01N\x00\x01b\x00\x00\x00\x01x", "S\x00\x00\x00\x01\x01"} {
		if m, err := d.Decode([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(Encode(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d, again Decoder
		m, err := d.Decode(b)
		if err != nil {
			return
		}
		text := fmt.Sprintf("%+v", m)
		n, err := again.Decode(Encode(nil, m))
		if err != nil || fmt.Sprintf("%+v", n) != text {
			t.Fatalf("%s\nencoded and decoded again: %+v, %v", text, n, err)
		}
	})
}

func TestSection(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 70000} {
		payload := bytes.Repeat([]byte{'x'}, n)
		b := AppendSection(nil, payload)
		got, err := Section(b)
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes: %d, %v", n, len(got), err)
		}
		for cut := range min(len(b), 20) {
			if _, err := Section(b[:cut]); err == nil {
				t.Errorf("%d bytes cut to %d pass", n, cut)
			}
		}
		if _, err := Section(append(b, 'x')); err == nil {
			t.Errorf("%d bytes and one pass", n)
		}
	}
	if b := AppendSection(nil, []byte("hi")); !bytes.Equal(b, []byte("\x00\x53\x75\xa0\x02hi")) {
		t.Errorf("short: %x", b)
	}
	if b := AppendSection(nil, make([]byte, 256)); !bytes.Equal(b[:8], []byte("\x00\x53\x75\xb0\x00\x00\x01\x00")) {
		t.Errorf("long: %x", b[:8])
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(AppendSection(nil, []byte(`{"op":"c","source":{"lsn":"1/2","seq":0}}`)))
	f.Add([]byte("\x00\x53\x75\xb0\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeRecord(b)
		if (e == nil) == (err == nil) {
			t.Fatalf("%+v, %v", e, err)
		}
	})
}

func TestCopyLineRoundTrip(t *testing.T) {
	for _, row := range []Tuple{
		{{Kind: Null}},
		{{Text, []byte("")}, {Kind: Null}, {Text, []byte("plain")}},
		{{Text, []byte("\b\f\n\r\t\v\\")}, {Text, []byte("\\N")}, {Text, []byte("é😀")}},
	} {
		line := AppendCopyLine(nil, row)
		for _, end := range []string{"", "\n"} {
			got, _, err := ParseCopyLine(append(line, end...), len(row), nil, nil)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(row) {
				t.Errorf("%q: %q, %v", line, got, err)
			}
		}
		for _, n := range []int{len(row) - 1, len(row) + 1} {
			if _, _, err := ParseCopyLine(line, n, nil, nil); err == nil {
				t.Errorf("%q passes for %d columns", line, n)
			}
		}
	}
	if _, _, err := ParseCopyLine([]byte(`a\`), 1, nil, nil); err == nil {
		t.Error("a lonely backslash passes")
	}
}
