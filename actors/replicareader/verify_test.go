package replicareader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/segment"
)

// fragmentOf is a fragment of whole chunks, with its bytes.
func fragmentOf(chunks ...[]byte) (*fragment.Fragment, []byte) {
	f := &fragment.Fragment{Chunks: len(chunks)}
	for i, c := range chunks {
		h, err := chunk.ParseHeader(c)
		if err != nil {
			panic(err)
		}
		if i == 0 {
			f.First = h.ID
		}
		f.Next = h.Next()
		f.Index = append(f.Index, fragment.IndexRecord{Offset: h.ID, Position: fragment.DataStart + f.Size})
		f.Headers = append(f.Headers, h.Sum())
		f.Size += h.Size()
	}
	f.Spans = []fragment.Span{{Segment: f.First, Start: segment.FileHeaderSize, End: segment.FileHeaderSize + f.Size}}
	return f, slices.Concat(chunks...)
}

func verify(f *fragment.Fragment, data []byte, piece func() int) error {
	v := newVerifier(f)
	for len(data) > 0 {
		n := min(piece(), len(data))
		if err := v.pass(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return v.whole()
}

// A flipped bit of a header, but for its reserved bytes, or of the data is found, however the
// bytes come in pieces.
func TestTheVerifierFindsEveryFlippedBitThatIsCovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, data := fragmentOf(chunkOf(10, 3, 5), chunkOf(13, 1, 200), chunkOf(14, 7, 1))
		piece := func() int { return rapid.IntRange(1, 300).Draw(t, "piece") }
		if err := verify(f, data, piece); err != nil {
			t.Fatalf("whole chunks: %v", err)
		}
		i := rapid.IntRange(0, 2).Draw(t, "chunk")
		start := int(f.Index[i].Position) - fragment.DataStart
		h, err := chunk.ParseHeader(data[start:])
		if err != nil {
			t.Fatal(err)
		}
		ranges := [][2]int{{0, 44}, {int(h.DataStart()), int(h.DataStart()) + int(h.DataSize) - 1}}
		r := ranges[rapid.IntRange(0, len(ranges)-1).Draw(t, "part")]
		at := start + rapid.IntRange(r[0], r[1]).Draw(t, "byte")
		bad := bytes.Clone(data)
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := verify(f, bad, piece); err == nil {
			t.Fatalf("byte %d of chunk %d is damaged, and nothing is said", at-start, i)
		}
	})
	f, data := fragmentOf(chunkOf(10, 3, 5))
	all := func() int { return 1 << 20 }
	if verify(f, data[:len(data)-1], all) == nil || verify(f, append(bytes.Clone(data), 0), all) == nil {
		t.Error("a byte less or more is not seen")
	}
}

// Each field of a header is compared, also where the format lets several values pass: a bit of
// its type, its entries, its timestamp, its epoch.
func TestEachByteOfAHeaderIsCompared(t *testing.T) {
	all := func() int { return 1 << 20 }
	for at := range 45 {
		f, data := fragmentOf(chunkOf(10, 3, 5), chunkOf(13, 7, 5))
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[at] ^= 1 << bit
			if err := verify(f, bad, all); err == nil || !strings.Contains(err.Error(), segment.FileName(10)+" at 8: ") {
				t.Errorf("bit %d of byte %d is damaged: %v", bit, at, err)
			}
		}
	}
	f, data := fragmentOf(chunkOf(10, 3, 5))
	for at := 45; at < chunk.HeaderSize; at++ {
		data[at] = 1
	}
	if err := verify(f, data, all); err != nil {
		t.Errorf("bytes that mean nothing: %v", err)
	}
}

// A fragment whose parts do not fit each other is not uploaded either.
func TestAFragmentThatIsPutTogetherWrongly(t *testing.T) {
	for what, change := range map[string]func(f *fragment.Fragment){
		"it begins before its first chunk": func(f *fragment.Fragment) { f.First-- },
		"it ends behind its last chunk":    func(f *fragment.Fragment) { f.Next++ },
		"a chunk is elsewhere":             func(f *fragment.Fragment) { f.Index[1].Position++ },
		"it is larger than its chunks":     func(f *fragment.Fragment) { f.Size++ },
	} {
		f, data := fragmentOf(chunkOf(10, 3, 5), chunkOf(13, 7, 5))
		change(f)
		err := verify(f, data, func() int { return 1 << 20 })
		if err == nil || !strings.Contains(err.Error(), "was committed; the disk") || !strings.Contains(err.Error(), "stands where") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A chunk that is larger than what is read at once is verified to its last byte.
func TestAChunkLargerThanTheReadBufferIsVerified(t *testing.T) {
	inBubble(t, func(b *bench) {
		big := chunkOf(0, 3, maxRead)
		f, data := fragmentOf(big)
		file, err := b.disk.Create(string(streamID), segment.FileName(0))
		b.must(err)
		b.write(file, slices.Concat(segment.FileHeader(), data), 0)
		read := func() error {
			o := newBody(context.Background(), b.disk, string(streamID), f)
			_, err := io.ReadAll(o)
			b.must(o.Close())
			return err
		}
		b.must(read())
		at := int64(len(data)) - 15 // the last bytes of the data, before the trailer
		b.flip(0, segment.FileHeaderSize+at)
		if err := read(); err == nil {
			t.Fatal("the damage is not seen")
		}
	})
}

// flip damages a byte of a segment file, or undoes that.
func (b *bench) flip(first pos.Offset, at int64) {
	b.t.Helper()
	f, err := b.disk.Open(string(streamID), segment.FileName(first), true)
	b.must(err)
	p := make([]byte, 1)
	_, err = f.ReadAt(p, at)
	b.must(err)
	b.write(f, []byte{p[0] ^ 1}, at)
}

// Bit rot in a closed segment stalls the upload there: what is damaged is never in the
// store, and no seam lets the local file be trimmed. It heals with the bytes. Once it is
// known nothing of the fragment is sent before it was read through.
func TestBitRotIsNotUploadedAndHeals(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.grow(12) // segments of 50 records: 0, 50, 100
		damage := int64(segment.FileHeaderSize) + b.sizeOfChunk() + chunk.HeaderSize + 9
		b.flip(50, damage) // in the chunk of 60
		tried := 0
		b.store.Fault = func(op, what string) error {
			if op == "put" && strings.Contains(what, fmt.Sprintf("%020d", 60)) {
				tried++
			}
			return nil
		}
		h := b.start()
		b.pass(300 * time.Millisecond)
		if why := b.status(h).Pipeline.StalledWhy; !strings.Contains(why, segment.FileName(50)) || strings.Contains(why, "object store") {
			t.Fatalf("after the first try: %q", why)
		}
		b.pass(10 * time.Minute)
		s := b.status(h)
		if s.Remote.PersistedNext != 60 || s.Pipeline.Stalled != 60 || !strings.Contains(s.Pipeline.StalledWhy, segment.FileName(50)) {
			t.Fatalf("persisted up to %s, stalled at %s: %s", s.Remote.PersistedNext, s.Pipeline.Stalled, s.Pipeline.StalledWhy)
		}
		if tried != 1 {
			t.Fatalf("the store was asked %d times to take it", tried)
		}
		if why := s.Trouble(); !strings.Contains(why, "stalled at offset 60") {
			t.Fatalf("trouble %q", why)
		}
		if b.lastSeam() != 60 {
			t.Fatalf("the seam is %s: local retention would trim the only good copy there may be", b.lastSeam())
		}
		b.verify()
		b.flip(50, damage)
		b.until(120)
		b.verify()
		if s := b.status(h); s.Trouble() != "" || s.Pipeline.Stalled != pos.NoOffset {
			t.Fatalf("after the repair: %+v", s.Pipeline)
		}
	})
}

// A header that is damaged after it was read is met when the chunk is uploaded, also in what
// readers are told of it and nothing else depends on: its timestamp.
func TestAHeaderThatIsDamagedLaterIsNotUploaded(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.grow(12)
		damage := int64(segment.FileHeaderSize) + b.sizeOfChunk() + 15
		var flipped atomic.Bool
		b.store.Fault = func(op, what string) error {
			if op == "put" && strings.Contains(what, fmt.Sprintf("%020d", 60)) && !flipped.Swap(true) {
				b.flip(50, damage)
				return port.Unavailable
			}
			return nil
		}
		h := b.start()
		b.pass(10 * time.Minute)
		if s := b.status(h); s.Remote.PersistedNext != 60 || !strings.Contains(s.Pipeline.StalledWhy, "the header of the chunk 60 is not the one") {
			t.Fatalf("persisted up to %s, stalled at %s: %s", s.Remote.PersistedNext, s.Pipeline.Stalled, s.Pipeline.StalledWhy)
		}
		b.flip(50, damage)
		b.until(120)
		b.verify()
	})
}

// A damaged header is met when the log is read, before anything is cut.
func TestADamagedHeaderStallsVisibly(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.grow(12)
		damage := int64(segment.FileHeaderSize) + b.sizeOfChunk()
		b.flip(50, damage)
		h := b.start()
		b.pass(10 * time.Minute)
		s := b.status(h)
		if s.Pipeline.Stalled != 60 || s.Pipeline.StalledWhy == "" || s.Trouble() == "" || b.lastSeam() > 60 {
			t.Fatalf("seam %s, %+v", b.lastSeam(), s.Pipeline)
		}
		b.flip(50, damage)
		b.until(120)
		b.verify()
		if why := b.status(h).Trouble(); why != "" {
			t.Fatalf("after the repair: %s", why)
		}
	})
}
