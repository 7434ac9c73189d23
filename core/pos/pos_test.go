package pos_test

import (
	"path"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

func TestParseAcceptsWhatStringPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := pos.Offset(rapid.Int64Min(-1).Draw(t, "offset"))
		if got, err := pos.ParseOffset(o.String()); err != nil || got != o {
			t.Fatalf("offset %d: got %d, %v", int64(o), int64(got), err)
		}
		e := pos.Epoch(rapid.Uint64().Draw(t, "epoch"))
		if got, err := pos.ParseEpoch(e.String()); err != nil || got != e {
			t.Fatalf("epoch %v: got %v, %v", e, got, err)
		}
		r := pos.Revision(rapid.Uint64().Draw(t, "revision"))
		if got, err := pos.ParseRevision(r.String()); err != nil || got != r {
			t.Fatalf("revision %v: got %v, %v", r, got, err)
		}
		l := pos.LSN(rapid.Uint64().Draw(t, "lsn"))
		if got, err := pos.ParseLSN(l.String()); err != nil || got != l {
			t.Fatalf("LSN %v: got %v, %v", l, got, err)
		}
		u := pos.UID(rapid.Uint64().Draw(t, "uid"))
		if got, err := pos.ParseUID(u.String()); err != nil || got != u {
			t.Fatalf("uid %v: got %v, %v", u, got, err)
		}
		m := pos.Millis(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "millis"))
		if got, err := pos.ParseMillis(m.String()); err != nil || got != m {
			t.Fatalf("millis %v: got %v, %v", m, got, err)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	refused := func(what, in string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s %q was accepted", what, in)
		} else if !strings.Contains(err.Error(), what) {
			t.Errorf("%s %q: the error does not say what was read: %v", what, in, err)
		}
	}
	for _, in := range []string{"", "-1", "+1", " 1", "1 ", "01", "0x1", "9223372036854775808", "None"} {
		_, err := pos.ParseOffset(in)
		refused("offset", in, err)
	}
	for _, in := range []string{"", "-1", "18446744073709551616", "1.0"} {
		_, err := pos.ParseEpoch(in)
		refused("epoch", in, err)
		_, err = pos.ParseRevision(in)
		refused("revision", in, err)
	}
	for _, in := range []string{"", "/", "1", "1/", "/1", "1/2/3", "G/0", "123456789/0", "0/123456789", "-1/0"} {
		_, err := pos.ParseLSN(in)
		refused("LSN", in, err)
	}
	for _, in := range []string{"", "1", "00000000000000AB", "000000000000000g", "00000000000000000"} {
		_, err := pos.ParseUID(in)
		refused("uid", in, err)
	}
	for _, in := range []string{"", "yesterday", "2026-03-01", "1772452804"} {
		_, err := pos.ParseMillis(in)
		refused("time", in, err)
	}
	for _, in := range []string{"", "a/b", "a.b", "..", "ä", strings.Repeat("x", 256)} {
		_, err := pos.ParseStreamID(in)
		refused("stream id", in, err)
		_, err = pos.ParseNodeID(in)
		refused("node id", in, err)
	}
}

func TestZeroAndNone(t *testing.T) {
	if pos.NoOffset.Valid() || !pos.Offset(0).Valid() {
		t.Error("0 is a valid offset and NoOffset is not")
	}
	zeros := []interface{ IsZero() bool }{
		pos.Epoch(0), pos.Revision(0), pos.LSN(0), pos.Millis(0), pos.UID(0), pos.StreamID(""), pos.NodeID(""),
	}
	for _, z := range zeros {
		if !z.IsZero() {
			t.Errorf("%T: the zero value is not zero", z)
		}
	}
	ones := []interface{ IsZero() bool }{
		pos.Epoch(1), pos.Revision(1), pos.LSN(1), pos.NoMillis, pos.UID(1), pos.StreamID("s"), pos.NodeID("n"),
	}
	for _, o := range ones {
		if o.IsZero() {
			t.Errorf("%T %v counts as zero", o, o)
		}
	}
}

func TestMillis(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_999_999, time.FixedZone("CET", 3600))
	m := pos.MillisOf(at)
	if got, want := m.String(), "2026-03-01T11:00:00.123Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := m.Add(1500 * time.Millisecond).Sub(m); got != 1500*time.Millisecond {
		t.Errorf("got %v apart", got)
	}
}

func TestNewStreamID(t *testing.T) {
	if got, want := pos.NewStreamID("my stream", 17), pos.StreamID("__my_stream_17"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 300, 600).Draw(t, "name")
		id := pos.NewStreamID(name, rapid.Int64Min(0).Draw(t, "nanos"))
		if _, err := pos.ParseStreamID(id.String()); err != nil {
			t.Fatalf("the id made of %q is not one: %v", name, err)
		}
	})
	long := strings.Repeat("x", 255)
	if pos.NewStreamID(long, 1) == pos.NewStreamID(long, 2) {
		t.Error("a long name pushed the time out of the id")
	}
}

func TestCheckStreamName(t *testing.T) {
	for _, name := range []string{
		"shop", "a.b", "日本", strings.Repeat("x", 255), "with  spaces", "a/b", "a/..b/.c", "''", "-", "é", "e\u0301", "שלום", "50%", "a:b?c#d&e", `"`, "💧",
	} {
		if err := pos.CheckStreamName(name); err != nil {
			t.Errorf("%q was refused: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"": "empty", "amq.x": "reserved", strings.Repeat("x", 256): "256 bytes",
		" ab": "at byte 0", "ab ": "at byte 2",
		"ab\nc": "U+000A at byte 2", "a\x00b": "U+0000 at byte 1", "a\x1b[31m": "U+001B at byte 1", "a\u0085": "U+0085 at byte 1", "a\x7f": "U+007F",
		"日\u202eb": "U+202E at byte 3", "a\u2066b": "U+2066", "a\u200bb": "U+200B", "\ufeffa": "U+FEFF at byte 0", "a\u00adb": "U+00AD", "a\u2028b": "U+2028",
		"a\u00a0b": "U+00A0", "\u3000a": "U+3000", "a\ue000": "U+E000",
		"a\xffb": "not UTF-8 at byte 1", "a\xe6\x97": "not UTF-8 at byte 1", "a\ufffdb": "not UTF-8 at byte 1",
		"/a": "at byte 0", "a/": "at byte 2", "a//b": "at byte 2", ".": "at byte 0", "..": "at byte 0", "a/../b": "at byte 2", "日/./b": "at byte 4",
	} {
		err := pos.CheckStreamName(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gave %v, want %q in it", name, err, want)
			continue
		}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Errorf("%q: the refusal prints it raw: %q", name, err)
		}
	}
}

// A name that is accepted is one line without surprises, and the parts of it are a path's.
func TestStreamNamesArePaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a./ \x{202e}\x{a0}é-]{1,8}`)).Draw(t, "name")
		if pos.CheckStreamName(name) != nil {
			return
		}
		if !utf8.ValidString(name) || strings.TrimSpace(name) != name || strconv.Quote(name) != `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"` {
			t.Errorf("%q is accepted", name)
		}
		if path.Clean("/"+name) != "/"+name {
			t.Errorf("%q as a path is %q", name, path.Clean("/"+name))
		}
	})
}
