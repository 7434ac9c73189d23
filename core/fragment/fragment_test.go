package fragment

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
)

var update = flag.Bool("update", false, "write the golden files anew")

// ref is a chunk of n records and size bytes that lies at position of a segment.
func ref(first pos.Offset, n uint32, at pos.Millis, seg pos.Offset, position, size int64) segment.ChunkRef {
	return segment.ChunkRef{
		Header:  chunk.Header{ID: first, Records: n, Timestamp: at, Epoch: 3},
		Segment: seg, Position: position, Size: size,
	}
}

// check reports which invariant of Fragment does not hold.
func check(t interface{ Fatalf(string, ...any) }, f *Fragment) {
	var spans int64
	for _, s := range f.Spans {
		spans += s.Size()
	}
	if f.First >= f.Next {
		t.Fatalf("invariant 1: [%d, %d)", f.First, f.Next)
	}
	if len(f.Index) != f.Chunks || f.Index[0].Offset != f.First || f.Index[0].Position != DataStart {
		t.Fatalf("invariant 2: %d records for %d chunks, first %+v", len(f.Index), f.Chunks, f.Index[0])
	}
	for i := 1; i < len(f.Index); i++ {
		if f.Index[i].Offset <= f.Index[i-1].Offset || f.Index[i].Position <= f.Index[i-1].Position {
			t.Fatalf("invariant 2: record %d does not rise", i)
		}
	}
	if len(f.Headers) != f.Chunks {
		t.Fatalf("invariant 4: %d headers for %d chunks", len(f.Headers), f.Chunks)
	}
	if spans != f.Size {
		t.Fatalf("invariant 3: spans have %d bytes, size is %d", spans, f.Size)
	}
}

func TestTheChunkThatCrossesTheTargetIsIncluded(t *testing.T) {
	a := New(Config{TargetBytes: 100})
	if !a.Empty() || a.Next() != pos.NoOffset || a.First() != pos.NoOffset || a.Full(1e12) {
		t.Fatal("a new assembly is not empty")
	}
	add(t, a, ref(10, 5, 1000, 0, 8, 60), 0)
	if a.Full(0) || a.Next() != 15 || a.First() != 10 || a.Bytes() != 60 {
		t.Fatalf("after 60 of 100 bytes: full %v, [%d, %d)", a.Full(0), a.First(), a.Next())
	}
	add(t, a, ref(15, 1, 900, 0, 68, 90), 0)
	if !a.Full(0) {
		t.Fatal("150 of 100 bytes are not full")
	}
	f := a.Cut()
	check(t, &f)
	want := Fragment{First: 10, Next: 16, FirstTime: 1000, LastTime: 1000, Epoch: 3, Size: 150, Chunks: 2,
		Spans: []Span{{Segment: 0, Start: 8, End: 158}}}
	got := f
	got.Index = nil
	if !equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !a.Empty() {
		t.Error("the assembly is not empty after the cut")
	}
}

func equal(a, b Fragment) bool {
	return a.First == b.First && a.Next == b.Next && a.FirstTime == b.FirstTime && a.LastTime == b.LastTime &&
		a.Epoch == b.Epoch && a.Size == b.Size && a.Chunks == b.Chunks && len(a.Spans) == len(b.Spans) && a.Spans[0] == b.Spans[0]
}

func TestExactlyTheTargetIsFull(t *testing.T) {
	a := New(Config{TargetBytes: 100})
	add(t, a, ref(0, 1, 0, 0, 8, 99), 0)
	if a.Full(0) {
		t.Error("99 of 100 bytes are full")
	}
	add(t, a, ref(1, 1, 0, 0, 107, 1), 0)
	if !a.Full(0) {
		t.Error("100 of 100 bytes are not full")
	}
}

func TestAgeCutsFromTheFirstChunkOn(t *testing.T) {
	a := New(Config{TargetBytes: 1000, MaxAge: time.Minute})
	if _, ok := a.Due(); ok {
		t.Error("an empty assembly is due")
	}
	// The chunk's own timestamp is old: an upload of a backlog must not cut at each.
	add(t, a, ref(0, 1, 5, 0, 8, 10), 100_000)
	add(t, a, ref(1, 1, 6, 0, 18, 10), 150_000)
	if at, ok := a.Due(); !ok || at != 160_000 {
		t.Errorf("due at %d, %v, want 160000", at, ok)
	}
	if a.Full(159_999) || !a.Full(160_000) {
		t.Error("the age does not cut at 160000")
	}
	a.Cut()
	if _, ok := a.Due(); ok {
		t.Error("due after the cut")
	}
}

func TestSegmentsDoNotCut(t *testing.T) {
	a := New(Config{TargetBytes: 1000})
	add(t, a, ref(0, 1, 0, 0, 8, 10), 0)
	add(t, a, ref(1, 1, 0, 0, 18, 10), 0)
	add(t, a, ref(2, 1, 0, 2, 8, 10), 0)
	add(t, a, ref(3, 1, 0, 2, 18, 10), 0)
	f := a.Cut()
	check(t, &f)
	if n := len(extend([]Span{{0, 8, 28}}, Span{0, 30, 40})); n != 2 {
		t.Errorf("spans that do not touch became %d", n)
	}
	if len(f.Spans) != 2 || f.Spans[0] != (Span{0, 8, 28}) || f.Spans[1] != (Span{2, 8, 28}) {
		t.Errorf("spans %+v", f.Spans)
	}
}

func TestChunksThatDoNotFollowAreRefused(t *testing.T) {
	a := New(Config{})
	add(t, a, ref(5, 5, 0, 0, 8, 10), 0)
	for _, r := range []segment.ChunkRef{ref(11, 1, 0, 0, 18, 10), ref(5, 5, 0, 0, 8, 10), ref(10, 0, 0, 0, 18, 10), ref(10, 1, 0, 0, 18, 0)} {
		if err := a.Add(r, 0); err == nil {
			t.Errorf("chunk %d of %d records was taken", r.Header.ID, r.Header.Records)
		}
	}
	if a.Next() != 10 || a.Bytes() != 10 {
		t.Errorf("a refused chunk changed the assembly: next %d, %d bytes", a.Next(), a.Bytes())
	}
	a.Reset()
	add(t, a, ref(100, 1, 0, 0, 8, 10), 0)
}

// Item 52: chunks of tracking data at the edges of a fragment count with their records,
// so that what follows is contiguous.
func TestItem52TrackingChunksAtTheEdges(t *testing.T) {
	a := New(Config{TargetBytes: 1 << 20})
	next := pos.Offset(100)
	for _, c := range []struct {
		kind    chunk.Type
		records uint32
	}{{chunk.TrackingSnapshot, 1}, {chunk.User, 10}, {chunk.TrackingDelta, 1}} {
		ref := segment.ChunkRef{
			Header: chunk.Header{Type: c.kind, Entries: 1, Records: c.records, Timestamp: 1, Epoch: 1, ID: next}, Segment: 100, Position: int64(next), Size: 1,
		}
		if err := a.Add(ref, 0); err != nil {
			t.Fatal(err)
		}
		next += pos.Offset(c.records)
	}
	f := a.Cut()
	if f.First != 100 || f.Next != 112 || f.Chunks != 3 {
		t.Fatalf("cut %+v", f)
	}
}

func TestManySmallChunksAreCutByNumber(t *testing.T) {
	a := New(Config{})
	for i := range MaxChunks {
		if a.Full(0) {
			t.Fatalf("full after %d chunks", i)
		}
		add(t, a, ref(pos.Offset(i), 1, 0, 0, 8+int64(i)*60, 60), 0)
	}
	if !a.Full(0) {
		t.Error("not full")
	}
}

func add(t *testing.T, a *Assembly, r segment.ChunkRef, now pos.Millis) {
	t.Helper()
	if err := a.Add(r, now); err != nil {
		t.Fatal(err)
	}
}

// object builds a fragment of n chunks and the object that holds it.
func object(t interface{ Fatal(...any) }, sizes []int) (Fragment, []byte) {
	a := New(Config{TargetBytes: 1 << 30})
	var data []byte
	first, at := pos.Offset(40), int64(8)
	for i, size := range sizes {
		if err := a.Add(ref(first, uint32(i+1), pos.Millis(1000+10*i), 0, at, int64(size)), 0); err != nil {
			t.Fatal(err)
		}
		data = append(data, bytes.Repeat([]byte{byte('a' + i%26)}, size)...)
		first, at = first+pos.Offset(i+1), at+int64(size)
	}
	f := a.Cut()
	b := append(Header(), data...)
	tail, crc := Tail(&f, Checksum(0, b))
	b = append(b, tail...)
	if crc != Checksum(0, b) {
		t.Fatal("the object's checksum is not what the store will see")
	}
	if int64(len(b)) != ObjectSize(&f) {
		t.Fatal("the object's size was not known up front")
	}
	return f, b
}

func TestObjectGolden(t *testing.T) {
	_, b := object(t, []int{4, 7, 1})
	golden(t, "fragment.hex", b)
}

func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	var lines strings.Builder
	for i := 0; i < len(b); i += 16 {
		lines.WriteString(hex.EncodeToString(b[i:min(i+16, len(b))]) + "\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != lines.String() {
		t.Errorf("the format changed: objects in the field could not be read any more. got\n%s\nwant\n%s", &lines, want)
	}
}

func TestObjectReadsBack(t *testing.T) {
	f, b := object(t, []int{100, 1, 33})
	index, size, err := Verify(b)
	if err != nil {
		t.Fatal(err)
	}
	if size != f.Size || len(index) != 3 || index[2] != f.Index[2] {
		t.Errorf("size %d, index %+v", size, index)
	}
	again, err := ParseIndex(b[DataStart+f.Size:], f.Size)
	if err != nil || len(again) != 3 || again[1] != f.Index[1] {
		t.Errorf("index alone: %+v, %v", again, err)
	}
}

func TestEveryFlippedBitAndEveryCutIsFound(t *testing.T) {
	f, b := object(t, []int{9, 5})
	for bit := range len(b) * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := Verify(b); err == nil {
			t.Errorf("bit %d flipped: not found", bit)
		}
		if at := DataStart + int(f.Size); bit/8 >= at && bit/8 < len(b)-4 {
			if _, err := ParseIndex(b[at:], f.Size); err == nil {
				t.Errorf("bit %d of the index flipped: not found", bit)
			}
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	for n := range len(b) {
		if _, _, err := Verify(b[:n]); err == nil {
			t.Errorf("cut to %d bytes: not found", n)
		}
	}
	if _, err := ParseIndex(b[DataStart+f.Size:], f.Size+1); err == nil {
		t.Error("another size in the manifest: not found")
	}
}

func TestAnIndexThatPointsOutsideTheDataIsRefused(t *testing.T) {
	f, _ := object(t, []int{9, 5})
	for name, do := range map[string]func(x []IndexRecord){
		"behind the data": func(x []IndexRecord) { x[1].Position = DataStart + 14 },
		"not at the data": func(x []IndexRecord) { x[0].Position++ },
		"in the header":   func(x []IndexRecord) { x[0].Position = 0 },
		"same offset":     func(x []IndexRecord) { x[1].Offset = x[0].Offset },
		"same position":   func(x []IndexRecord) { x[1].Position = x[0].Position },
	} {
		bad := f
		bad.Index = append([]IndexRecord(nil), f.Index...)
		do(bad.Index)
		tail, _ := Tail(&bad, 0)
		if _, err := ParseIndex(tail, f.Size); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestIndexSearchAgreesWithALinearOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Index
		o := pos.Offset(0)
		for i := range rapid.IntRange(1, 20).Draw(t, "chunks") {
			x = append(x, IndexRecord{Offset: o, Time: pos.Millis(rapid.IntRange(0, 30).Draw(t, "time")), Position: DataStart + int64(i)})
			o += pos.Offset(rapid.IntRange(1, 5).Draw(t, "records"))
		}
		want := pos.Offset(rapid.IntRange(-1, int(o)+1).Draw(t, "offset"))
		linear := x[0]
		for _, r := range x {
			if r.Offset <= want {
				linear = r
			}
		}
		if got := x.Find(want); got != linear {
			t.Fatalf("Find(%d) = %+v, want %+v", want, got, linear)
		}
		at := pos.Millis(rapid.IntRange(0, 31).Draw(t, "at"))
		got := x.FindTime(at)
		for _, r := range x {
			if r.Time >= at {
				if got != r {
					t.Fatalf("FindTime(%d) = %+v, want %+v", at, got, r)
				}
				return
			}
		}
		if got != x[len(x)-1] {
			t.Fatalf("FindTime(%d) = %+v, want the last", at, got)
		}
	})
}

func TestKeys(t *testing.T) {
	key := Key("mill/race", "__s_1", 42, 0xabc)
	if want := "mill/race/__s_1/data/00000000000000000042.0000000000000abc.fragment"; key != want {
		t.Errorf("got %s, want %s", key, want)
	}
	stream, first, uid, ok := ParseKey("mill/race", key)
	if !ok || stream != "__s_1" || first != 42 || uid != 0xabc {
		t.Errorf("parsed %s %d %s %v", stream, first, uid, ok)
	}
	if got := StreamPrefix("", "s"); got != "s/" {
		t.Errorf("without a prefix: %q", got)
	}
	if _, _, _, ok := ParseKey("", Key("", "s", 1, 2)); !ok {
		t.Error("a key without a prefix does not parse")
	}
	for _, bad := range []string{
		"", "x", "other/__s_1/data/00000000000000000042.0000000000000abc.fragment",
		"mill/race__s_1/data/00000000000000000042.0000000000000abc.fragment",
		"mill/race/__s_1/data/0000000000000000042.0000000000000abc.fragment",
		"mill/race/__s_1/data/+0000000000000000042.0000000000000abc.fragment",
		"mill/race/__s_1/data/99999999999999999999.0000000000000abc.fragment",
		"mill/race/__s_1/data/00000000000000000042.0000000000000ABC.fragment",
		"mill/race/__s_1/data/00000000000000000042.0000000000000abc.fragment.tmp",
		"mill/race/__s_1/data/00000000000000000042.fragment",
		"mill/race/__s_1/metadata/00000000000000000042.0000000000000abc.fragment",
		"mill/race/__s.1/data/00000000000000000042.0000000000000abc.fragment",
	} {
		if _, _, _, ok := ParseKey("mill/race", bad); ok {
			t.Errorf("%q was taken for a fragment", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	_, b := object(f, []int{4, 7})
	f.Add(b, int64(11))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		if index, n, err := Verify(b); err == nil && (len(index) == 0 || n <= 0) {
			t.Errorf("an empty object verified")
		}
		if index, err := ParseIndex(b, size); err == nil && len(index) == 0 {
			t.Errorf("an empty index parsed")
		}
	})
}
