package segment_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
)

// build makes a segment file at offset first: each of sizes is a chunk of so many
// records.
func build(first pos.Offset, trailer []byte, sizes ...int) ([]byte, []segment.ChunkRef) {
	b, refs := segment.FileHeader(), []segment.ChunkRef(nil)
	builder := chunk.NewBuilder(16)
	for i, n := range sizes {
		for range n {
			builder.Add([]byte{'r', byte(i)}, nil)
		}
		c := builder.Seal(first, pos.Epoch(1+i/3), pos.Millis(i), trailer)
		h, err := chunk.ParseHeader(c)
		if err != nil {
			panic(err)
		}
		refs = append(refs, segment.ChunkRef{Header: h, Segment: refs0(refs, first), Position: int64(len(b)), Size: int64(len(c))})
		b = append(b, c...)
		first = h.Next()
	}
	return b, refs
}

func refs0(refs []segment.ChunkRef, first pos.Offset) pos.Offset {
	if len(refs) == 0 {
		return first
	}
	return refs[0].Segment
}

// drive walks file as a shell would and returns the chunks that count.
func drive(w *segment.Walk, file []byte) ([]segment.ChunkRef, segment.WalkEnd) {
	var refs []segment.ChunkRef
	for {
		off, n := w.Want()
		if n == 0 {
			break
		}
		piece := file[min(off, int64(len(file))):min(off+int64(n), int64(len(file)))]
		if ref, ok := w.Give(piece); ok {
			refs = append(refs, ref)
		}
	}
	end := w.End()
	for len(refs) > 0 && refs[len(refs)-1].Position >= end.Bytes {
		refs = refs[:len(refs)-1]
	}
	return refs, end
}

func TestWalkFindsEveryChunk(t *testing.T) {
	file, want := build(100, nil, 3, 1, 5, 2)
	for _, verify := range []bool{true, false} {
		refs, end := drive(segment.NewWalk(100, int64(len(file)), verify), file)
		if !slices.Equal(refs, want) || end.Torn != "" || end.Damaged || end.BadHeader || end.Bytes != int64(len(file)) || end.Next != 111 {
			t.Errorf("verify %v: %+v, %+v", verify, refs, end)
		}
	}
	from := segment.Place{Segment: 100, Position: want[2].Position, Next: want[2].Header.ID}
	refs, end := drive(segment.NewWalkFrom(from, int64(len(file)), true), file)
	if !slices.Equal(refs, want[2:]) || end.Bytes != int64(len(file)) {
		t.Errorf("from the third chunk: %+v, %+v", refs, end)
	}
}

func TestWalkKeepsTheLastWholeChunk(t *testing.T) {
	file, want := build(0, nil, 3, 1, 5)
	for cut := want[2].Position; cut < int64(len(file)); cut++ {
		refs, end := drive(segment.NewWalk(0, cut, true), file[:cut])
		torn := cut > want[2].Position
		if !slices.Equal(refs, want[:2]) || end.Bytes != want[2].Position || end.Next != 4 || (end.Torn != "") != torn || end.Damaged {
			t.Fatalf("cut at %d: %d chunks, %+v", cut, len(refs), end)
		}
	}
}

func TestWalkCutsAChunkWithABrokenTrailerAtTheEnd(t *testing.T) {
	good := []byte("\x00\x01p\x00\x00\x00\x00\x00\x00\x00\x07")
	file, want := build(0, good, 2, 2, 2)
	clear(file[len(file)-len(good):])
	refs, end := drive(segment.NewWalk(0, int64(len(file)), true), file)
	if !slices.Equal(refs, want[:2]) || !strings.Contains(end.Torn, "trailer") {
		t.Errorf("at the end: %d chunks, %+v", len(refs), end)
	}
	file, want = build(0, good, 2, 2, 2)
	clear(file[want[1].End()-int64(len(good)) : want[1].End()])
	refs, end = drive(segment.NewWalk(0, int64(len(file)), true), file)
	if !slices.Equal(refs, want) || end.Torn != "" {
		t.Errorf("before another chunk it is kept: %d chunks, %+v", len(refs), end)
	}
}

func TestWalkTellsDamageFromATornEnd(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(file []byte, refs []segment.ChunkRef) []byte
		damaged bool
	}{
		"data of the last":      {func(f []byte, r []segment.ChunkRef) []byte { f[len(f)-1]++; return f }, false},
		"data in the middle":    {func(f []byte, r []segment.ChunkRef) []byte { f[r[1].End()-1]++; return f }, true},
		"header in the middle":  {func(f []byte, r []segment.ChunkRef) []byte { f[r[1].Position]++; return f }, true},
		"zeros in the middle":   {func(f []byte, r []segment.ChunkRef) []byte { clear(f[r[1].Position:r[1].End()]); return f }, true},
		"id in the middle":      {func(f []byte, r []segment.ChunkRef) []byte { f[r[1].Position+31] += 9; return f }, true},
		"zeros from the middle": {func(f []byte, r []segment.ChunkRef) []byte { clear(f[r[1].Position:]); return f }, false},
		"two broken, one whole": {func(f []byte, r []segment.ChunkRef) []byte { f[r[1].End()-1]++; f[r[2].End()-1]++; return f }, true},
		"all broken": {func(f []byte, r []segment.ChunkRef) []byte {
			f[r[1].End()-1]++
			f[r[2].End()-1]++
			return f[:r[3].Position]
		}, false},
		"rubbish behind": {func(f []byte, r []segment.ChunkRef) []byte {
			return append(f[:r[1].Position], bytes.Repeat([]byte{0x50}, 500)...)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			file, want := build(0, nil, 2, 3, 4, 5)
			file = c.spoil(file, want)
			refs, end := drive(segment.NewWalk(0, int64(len(file)), true), file)
			if end.Damaged != c.damaged || end.Torn == "" || !slices.Equal(refs, want[:len(refs)]) {
				t.Errorf("%d chunks, %+v", len(refs), end)
			}
		})
	}
}

func TestWalkLooksPastABrokenFileHeader(t *testing.T) {
	file, want := build(0, nil, 2, 2)
	clear(file[:8])
	refs, end := drive(segment.NewWalk(0, int64(len(file)), true), file)
	if !end.BadHeader || !slices.Equal(refs, want) {
		t.Errorf("%d chunks, %+v", len(refs), end)
	}
	if _, end := drive(segment.NewWalk(7, 3, true), []byte("OSI")); !end.BadHeader || end.Next != 7 || end.Bytes != 3 {
		t.Errorf("a file of three bytes: %+v", end)
	}
}

// FuzzWalk: whatever stands in a file, the walk ends, reads within it, and what counts
// is a chain of chunks from the segment's first offset.
func FuzzWalk(f *testing.F) {
	file, _ := build(0, []byte("\x00\x01p\x00\x00\x00\x00\x00\x00\x00\x07"), 2, 3, 4)
	f.Add(file, uint16(len(file)), true)
	f.Add(file[:70], uint16(200), true)
	f.Add(bytes.Repeat([]byte{0x50}, 300), uint16(300), true)
	f.Fuzz(func(t *testing.T, file []byte, size uint16, verify bool) {
		w := segment.NewWalk(0, int64(size), verify)
		at, next, steps := int64(segment.FileHeaderSize), pos.Offset(0), 0
		for {
			off, n := w.Want()
			if n == 0 {
				break
			}
			if off < 0 || n < 0 || steps > 10*(int(size)+10) {
				t.Fatalf("step %d wants %d bytes at %d", steps, n, off)
			}
			steps++
			ref, ok := w.Give(file[min(off, int64(len(file))):min(off+int64(n), int64(len(file)))])
			if !ok {
				continue
			}
			if ref.Position != at || ref.Header.ID != next || ref.End() > int64(size) {
				t.Fatalf("chunk %+v, want one at %d with id %s", ref, at, next)
			}
			at, next = ref.End(), ref.Header.Next()
			if verify && ref.End() <= int64(len(file)) {
				if err := chunk.Verify(file[ref.Position:ref.End()]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if e := w.End(); e.Bytes > max(at, int64(size)) || e.Next > next {
			t.Fatalf("end %+v after %d, %s", e, at, next)
		}
	})
}

func TestFilesByteForByte(t *testing.T) {
	if got := string(segment.FileHeader()) + string(segment.IndexHeader()); got != "OSIL\x00\x00\x00\x01OSII\x00\x00\x00\x01" {
		t.Errorf("file headers %q", got)
	}
	r := segment.IndexRecord{ID: 0x0102, Timestamp: 0x0304, Epoch: 5, Position: 0xfffefdfc, Type: chunk.TrackingSnapshot}
	want := "\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x03\x04\x00\x00\x00\x00\x00\x00\x00\x05\xff\xfe\xfd\xfc\x02"
	if got := string(r.Append(nil)); got != want {
		t.Errorf("record %x, want %x", got, want)
	}
	if got, err := segment.ParseIndexRecord([]byte(want)); err != nil || got != r {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, bad := range []string{want[:28], strings.Repeat("\x00", 29), "\xff" + want[1:], want[:28] + "\x03"} {
		if got, err := segment.ParseIndexRecord([]byte(bad)); err == nil {
			t.Errorf("accepted %+v", got)
		}
	}
	if segment.FileName(5) != "00000000000000000005.segment" || segment.IndexName(5) != "00000000000000000005.index" {
		t.Error(segment.FileName(5), segment.IndexName(5))
	}
	if segment.IndexSize(2) != 66 || segment.IndexChunks(66) != 2 || segment.IndexChunks(65) != 1 || segment.IndexChunks(3) != 0 {
		t.Error("index sizes")
	}
}

func TestSurveyIgnoresWhatIsNotTheLogs(t *testing.T) {
	var s segment.Survey
	for _, f := range []string{
		"+0000000000000000001.segment", "00000000000000000000.index", "00000000000000000000.segment", "00000000000000000007.index",
		"00000000000000000009.segment", "0000000000000000000x.index", "1.segment", "99999999999999999999.segment", "lost+found", "notes.txt",
	} {
		s.Add(f, 5)
	}
	got := s.Folder()
	want := []segment.Pair{{First: 0, Bytes: 5, Index: 5}, {First: 9, Bytes: 5, Index: -1}}
	if !slices.Equal(got.Pairs, want) || !slices.Equal(got.Orphans, []pos.Offset{7}) {
		t.Errorf("%+v", got)
	}
}

func TestEpochsOfAnIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []segment.IndexRecord
		var want []segment.EpochEnd
		id, epoch := pos.Offset(0), pos.Epoch(1)
		for range rapid.IntRange(0, 30).Draw(t, "chunks") {
			if rapid.IntRange(0, 3).Draw(t, "next epoch") == 0 {
				epoch++
			}
			records = append(records, segment.IndexRecord{ID: id, Epoch: epoch})
			id += pos.Offset(rapid.IntRange(1, 3).Draw(t, "records"))
			if n := len(want); n > 0 && want[n-1].Epoch == epoch {
				want[n-1].End = id
			} else {
				want = append(want, segment.EpochEnd{Epoch: epoch, End: id})
			}
		}
		got, ok := segment.Epochs(int64(len(records)), id, func(i int64) (segment.IndexRecord, bool) { return records[i], true })
		if !ok || !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestResolve(t *testing.T) {
	none := pos.NoOffset
	for name, c := range map[string]struct {
		known segment.Known
		want  segment.Verdict
	}{
		"a new stream":                       {segment.Known{Own: 1, Kept: none}, segment.Verdict{}},
		"a lost folder starts at the seam":   {segment.Known{Own: 1, Kept: none, Seam: 500}, segment.Verdict{Start: 500, FromStore: true}},
		"no offset is given twice":           {segment.Known{Own: 1, Kept: 700, Seam: 500}, segment.Verdict{Start: 700, FromStore: true}},
		"as it was left":                     {segment.Known{Own: 2, Pair: true, Chunks: true, First: 0, Next: 9, Epoch: 1, Kept: 9}, segment.Verdict{Keep: true}},
		"longer than was noted":              {segment.Known{Own: 2, Pair: true, Chunks: true, Next: 12, Epoch: 1, Kept: 9, Seam: 12}, segment.Verdict{Keep: true}},
		"shorter than the store":             {segment.Known{Own: 2, Pair: true, Chunks: true, Next: 12, Epoch: 1, Kept: 9, Seam: 20}, segment.Verdict{Start: 20, FromStore: true}},
		"empty, left by retention":           {segment.Known{Own: 2, Pair: true, First: 40, Kept: 40}, segment.Verdict{Keep: true, Start: 40}},
		"empty, begun at the store's seam":   {segment.Known{Own: 2, Pair: true, First: 40, Kept: none, Seam: 40}, segment.Verdict{Keep: true, Start: 40, FromStore: true}},
		"empty and new":                      {segment.Known{Own: 2, Pair: true, First: 0, Kept: none}, segment.Verdict{Keep: true}},
		"empty, below the seam":              {segment.Known{Own: 2, Pair: true, First: 40, Kept: 40, Seam: 60}, segment.Verdict{Start: 60, FromStore: true}},
		"damaged after a power loss: is cut": {segment.Known{Own: 2, Pair: true, Chunks: true, Next: 9, Epoch: 1, Kept: 5, Damage: "x", Crash: true}, segment.Verdict{Keep: true}},
	} {
		if got := segment.Resolve(c.known); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	for name, known := range map[string]segment.Known{
		"a later epoch":                 {Own: 2, Pair: true, Chunks: true, Next: 9, Epoch: 3, Kept: none},
		"shorter than it was left":      {Own: 2, Pair: true, Chunks: true, Next: 8, Epoch: 1, Kept: 9},
		"damaged without a power loss":  {Own: 2, Pair: true, Chunks: true, Next: 8, Epoch: 1, Kept: 2, Damage: "x"},
		"damaged, and below the seam":   {Own: 2, Pair: true, Chunks: true, Next: 8, Epoch: 1, Kept: 2, Seam: 50, Damage: "x"},
		"damaged and nothing is whole":  {Own: 2, Pair: true, Kept: none, Damage: "x"},
		"both later and below the seam": {Own: 2, Pair: true, Chunks: true, Next: 9, Epoch: 3, Seam: 50, Kept: none},
	} {
		if got := segment.Resolve(known); got.Refuse == "" || got.Keep || got.FromStore {
			t.Errorf("%s: got %+v, want a refusal", name, got)
		}
	}
}

func TestLimitAdaptsAsOsirisDoes(t *testing.T) {
	var l segment.Limit
	var got []int
	for range 10 {
		got = append(got, l.Records())
		l.Filled()
	}
	for range 3 {
		got = append(got, l.Records())
		l.Drained()
	}
	if want := []int{32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 8192, 8192, 4096, 2048}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
