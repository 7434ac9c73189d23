package chunk_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/chunk"
	"millrace/core/pos"
)

// golden is a chunk derived by hand from the format: two records "a" and "bcd" at offset
// 5, epoch 3, timestamp 0x0102030405060708.
var golden = unhex(`
	50 00 0002 00000002
	0102030405060708
	0000000000000003
	0000000000000005
	` + crcOf("00000001 61 00000003 626364") + ` 0000000c
	0000000d 00 000000
	00000001 61 00000003 626364
	00 03 707562 0000000000000009`)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

func crcOf(s string) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(unhex(s))))
}

func TestSealWritesTheFormatByteForByte(t *testing.T) {
	b := chunk.NewBuilder(0)
	b.Add([]byte("a"), nil)
	b.Add([]byte("bcd"), nil)
	got := b.Seal(5, 3, 0x0102030405060708, unhex("00 03 707562 0000000000000009"))
	if !bytes.Equal(got, golden) {
		t.Errorf("sealed\n%x\nwant\n%x", got, golden)
	}
}

func TestCRCIsZlibs(t *testing.T) {
	// The check value every CRC-32/ISO-HDLC implementation agrees on.
	b := chunk.NewBuilder(0)
	b.Add(unhex("31323334 35363738 39")[0:9], nil)
	h, err := chunk.ParseHeader(b.Seal(0, 1, 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := crc32.Update(0, crc32.IEEETable, unhex("00000009 313233343536373839")); h.CRC != want {
		t.Errorf("CRC %08x, want %08x", h.CRC, want)
	}
	if crc32.ChecksumIEEE([]byte("123456789")) != 0xcbf43926 {
		t.Error("not the CRC of zlib")
	}
}

func TestParseHeaderReadsWhatStands(t *testing.T) {
	h, err := chunk.ParseHeader(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := chunk.Header{
		Type: chunk.User, Entries: 2, Records: 2, Timestamp: 0x0102030405060708, Epoch: 3, ID: 5,
		CRC: h.CRC, DataSize: 12, TrailerSize: 13,
	}
	if h != want || h.Next() != 7 || h.Size() != int64(len(golden)) || h.DataStart() != 48 {
		t.Errorf("got %+v, next %s, size %d", h, h.Next(), h.Size())
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"short":             func(b []byte) []byte { return b[:47] },
		"magic":             func(b []byte) []byte { b[0] = 0x60; return b },
		"version":           func(b []byte) []byte { b[0] = 0x51; return b },
		"type":              func(b []byte) []byte { b[1] = 3; return b },
		"no entries":        func(b []byte) []byte { b[3] = 0; return b },
		"fewer records":     func(b []byte) []byte { b[7] = 1; return b },
		"negative id":       func(b []byte) []byte { b[24] = 0x80; return b },
		"id overflow":       func(b []byte) []byte { copy(b[24:], unhex("7fffffffffffffff")); return b },
		"data too small":    func(b []byte) []byte { copy(b[36:], unhex("00000007")); return b },
		"nothing but zeros": func(b []byte) []byte { clear(b); return b },
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := chunk.ParseHeader(damage(bytes.Clone(golden))); err == nil {
				t.Errorf("accepted %+v", h)
			}
		})
	}
}

func TestParseHeaderIgnoresReservedBytes(t *testing.T) {
	b := bytes.Clone(golden)
	copy(b[45:], "xyz")
	if _, err := chunk.ParseHeader(b); err != nil {
		t.Error(err)
	}
}

func TestVerifyNoticesEveryBitOfTheData(t *testing.T) {
	if err := chunk.Verify(golden); err != nil {
		t.Fatal(err)
	}
	for at := 48; at < 60; at++ {
		b := bytes.Clone(golden)
		b[at] ^= 4
		var sum *chunk.ChecksumError
		if err := chunk.Verify(b); !errors.As(err, &sum) || sum.ID != 5 {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	for _, b := range [][]byte{golden[:len(golden)-1], append(bytes.Clone(golden), 0)} {
		if err := chunk.Verify(b); err == nil {
			t.Errorf("accepted %d bytes", len(b))
		}
	}
}

func TestRecordsOfMixedEntries(t *testing.T) {
	data := "00000001 61" +
		" 80 0002 0000000a 0000000a  00000001 62 00000001 63" + // uncompressed sub-batch
		" 90 0003 00000100 00000002 beef" + // gzip
		" 00000000"
	b := assemble(4, 7, data)
	type got struct {
		offset pos.Offset
		body   string
	}
	var all []got
	for r, err := range chunk.Records(b) {
		var packed *chunk.CompressedError
		if errors.As(err, &packed) {
			if packed.First != 103 || packed.Records != 3 || packed.Code != 1 || packed.Size != 256 || string(packed.Body) != "\xbe\xef" {
				t.Errorf("compressed: %+v", packed)
			}
			all = append(all, got{r.Offset, "<gzip>"})
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got{r.Offset, string(r.Body)})
	}
	want := []got{{100, "a"}, {101, "b"}, {102, "c"}, {103, "<gzip>"}, {106, ""}}
	if len(all) != len(want) {
		t.Fatalf("got %v, want %v", all, want)
	}
	for i := range want {
		if all[i] != want[i] {
			t.Errorf("record %d: got %v, want %v", i, all[i], want[i])
		}
	}
}

// assemble makes a chunk at offset 100 of hand-written data.
func assemble(entries uint16, records uint32, data string) []byte {
	d := unhex(data)
	h := chunk.Header{Entries: entries, Records: records, Epoch: 1, ID: 100, CRC: crc32.ChecksumIEEE(d), DataSize: uint32(len(d))}
	return append(h.Append(nil), d...)
}

func TestRecordsReportsBrokenData(t *testing.T) {
	for name, b := range map[string][]byte{
		"entry beyond the data":      assemble(1, 1, "00000005 61"),
		"entry cut":                  assemble(2, 2, "00000003 616263 00"),
		"bytes left":                 assemble(1, 1, "00000000 00000000"),
		"too few records":            assemble(1, 2, "00000000"),
		"too many records":           assemble(1, 1, "80 0002 00000008 00000008 00000000 00000000"),
		"sub-batch beyond the data":  assemble(1, 1, "80 0001 00000004 00000005 00000000"),
		"sub-batch header cut":       assemble(1, 1, "80 0001 000000"),
		"sub-batch of nothing":       assemble(1, 1, "80 0000 00000000 00000000"),
		"sub-batch with bytes left":  assemble(1, 1, "80 0001 00000008 00000008 00000000 00000000"),
		"sub-batch within sub-batch": assemble(1, 1, "80 0001 0000000b 0000000b 80 0001 00000000 00000000"),
		"cut chunk":                  golden[:50],
	} {
		t.Run(name, func(t *testing.T) {
			var last error
			for _, err := range chunk.Records(b) {
				if last != nil {
					t.Fatalf("went on after %v", last)
				}
				last = err
			}
			var format *chunk.FormatError
			if !errors.As(last, &format) {
				t.Errorf("got %v, want a FormatError", last)
			}
		})
	}
}

func TestCheckTrailer(t *testing.T) {
	for s, good := range map[string]bool{
		"":                              true,
		"00 03 707562 0000000000000009": true,
		"01 01 61 0000000000000009 02 01 62 0000000000000000": true,
		"00 03 707562 00000000000000":                         false,
		"03 01 61 0000000000000009":                           false,
		"00 00 0000000000000000":                              false,
		"01":                                                  false,
	} {
		if err := chunk.CheckTrailer(unhex(s)); (err == nil) != good {
			t.Errorf("trailer %q: %v", s, err)
		}
	}
}

func TestBuilderBounds(t *testing.T) {
	b := chunk.NewBuilder(16)
	if b.Full() || !b.Fits(3*chunk.MaxBytes) {
		t.Error("an empty builder takes anything")
	}
	b.Add(make([]byte, chunk.MaxBytes+1), nil)
	if !b.Full() || b.Fits(0) || b.Len() != 1 {
		t.Error("a large record is a chunk of its own")
	}
	b.Seal(0, 1, 0, nil)
	for range chunk.MaxEntries {
		if !b.Fits(1) {
			t.Fatal("full too early")
		}
		b.Add([]byte("x"), nil)
	}
	if !b.Full() || b.Len() != chunk.MaxEntries {
		t.Errorf("%d entries and not full", b.Len())
	}
	b.Reset()
	b.Add(make([]byte, chunk.MaxBytes-100), nil)
	if b.Full() || b.Fits(93) || !b.Fits(92) {
		t.Error("the data may have exactly MaxBytes")
	}
}

func TestFilterFindsWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 8), 1, 20).Draw(t, "values")
		size := rapid.IntRange(chunk.MinFilter, chunk.MaxFilter).Draw(t, "size")
		b := chunk.NewBuilder(size)
		plain, filtered := false, false
		for _, v := range values {
			b.Add([]byte("body"), v)
			plain, filtered = plain || len(v) == 0, filtered || len(v) > 0
		}
		c := b.Seal(1, 1, 1, nil)
		if err := chunk.Verify(c); err != nil {
			t.Fatal(err)
		}
		f, err := chunk.Filter(c)
		if err != nil || (len(f) > 0) != filtered || filtered && len(f) != size {
			t.Fatalf("filter of %d bytes, %v", len(f), err)
		}
		if chunk.MayMatch(f, nil, true) != plain {
			t.Errorf("unfiltered records: want %v", plain)
		}
		for _, v := range values {
			if len(v) > 0 && !chunk.MayMatch(f, [][]byte{v}, false) {
				t.Errorf("value %x was added and is not found", v)
			}
		}
	})
}

func TestFilterTellsValuesApart(t *testing.T) {
	b := chunk.NewBuilder(16)
	b.Add(nil, []byte("public.orders"))
	f, err := chunk.Filter(b.Seal(0, 1, 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	for i := range 1000 {
		if chunk.MayMatch(f, [][]byte{binary.BigEndian.AppendUint32(nil, uint32(i))}, false) {
			hits++
		}
	}
	if hits > 10 {
		t.Errorf("%d of 1000 other values seem to match", hits)
	}
	if want := unhex("00000040000000000000000000010000"); !bytes.Equal(f, want) {
		t.Errorf("filter %x, want %x: the hash is part of the format", f, want)
	}
}

func TestBuilderRoundTrip(t *testing.T) {
	b := chunk.NewBuilder(16)
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 50), 1, 40).Draw(t, "bodies")
		filter := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "filter")
		trailer := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "trailer")
		id := pos.Offset(rapid.Int64Range(0, 1<<40).Draw(t, "id"))
		for _, body := range bodies {
			b.Add(body, filter)
		}
		c := b.Seal(id, 9, 8, trailer)
		if err := chunk.Verify(c); err != nil {
			t.Fatal(err)
		}
		if got, err := chunk.Trailer(c); err != nil || !bytes.Equal(got, trailer) {
			t.Fatalf("trailer %x, %v", got, err)
		}
		n := 0
		for r, err := range chunk.Records(c) {
			if err != nil || r.Offset != id+pos.Offset(n) || !bytes.Equal(r.Body, bodies[n]) {
				t.Fatalf("record %d: %s %x, %v", n, r.Offset, r.Body, err)
			}
			n++
		}
		if n != len(bodies) {
			t.Fatalf("%d records, want %d", n, len(bodies))
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(golden)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := chunk.ParseHeader(b)
		if err != nil {
			return
		}
		if h.Next() <= h.ID || h.Size() < chunk.HeaderSize+4 {
			t.Errorf("accepted %+v", h)
		}
		again := h.Append(nil)
		if !bytes.Equal(again[:45], b[:45]) {
			t.Errorf("written again it is %x, was %x", again, b[:48])
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(golden)
	f.Add(assemble(4, 7, "00000001 61 80 0002 0000000a 0000000a 00000001 62 00000001 63 90 0003 00000100 00000002 beef 00000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := chunk.ParseHeader(b)
		if verified := chunk.Verify(b); err != nil && verified == nil {
			t.Fatalf("verified, but its header does not parse: %v", err)
		}
		next, clean := h.ID, true
		for r, err := range chunk.Records(b) {
			var packed *chunk.CompressedError
			switch {
			case errors.As(err, &packed):
				next = packed.First + pos.Offset(packed.Records)
			case err != nil:
				clean = false
			case r.Offset != next:
				t.Fatalf("record %s where %s should be", r.Offset, next)
			default:
				next++
			}
		}
		if clean && (err != nil || next != h.Next()) {
			t.Fatalf("ended at %s, want %s; the header: %v", next, h.Next(), err)
		}
	})
}

func BenchmarkBuilder(b *testing.B) {
	body := make([]byte, 1024)
	builder := chunk.NewBuilder(16)
	fill := func() {
		for !builder.Full() && builder.Fits(len(body)) {
			builder.Add(body, []byte("public.orders"))
		}
		builder.Seal(0, 1, 0, nil)
	}
	fill()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if !builder.Fits(len(body)) {
			builder.Seal(0, 1, 0, nil)
		}
		builder.Add(body, []byte("public.orders"))
	}
}
