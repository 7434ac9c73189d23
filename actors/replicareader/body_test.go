package replicareader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/test/fake/fakedisk"
)

// chunkOf returns a chunk with a filter, data of about size bytes a record, and a trailer.
func chunkOf(first pos.Offset, records, size int) []byte {
	b := chunk.NewBuilder(16)
	for range records {
		b.Add(bytes.Repeat([]byte{byte(first)}, size), []byte("f"))
	}
	return bytes.Clone(b.Seal(first, 1, 1, []byte{0, 1, 'p', 0, 0, 0, 0, 0, 0, 0, 9}))
}

// threeSpans is a fragment over three segment files of the given contents.
func threeSpans(t *testing.T) (*counted, *fragment.Fragment, []byte) {
	t.Helper()
	disk := &counted{Disk: fakedisk.New()}
	release, err := disk.Lease(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	f := &fragment.Fragment{First: 10, Next: 40, Chunks: 3}
	want := slices.Clone(fragment.Header())
	for i, start := range []int64{8, 8, 20} {
		first := pos.Offset(10 * (i + 1))
		c := chunkOf(first, 10, 20+100*i)
		file, err := disk.Create("s", segment.FileName(first))
		if err != nil {
			t.Fatal(err)
		}
		content := slices.Concat(bytes.Repeat([]byte{'<'}, int(start)), c, bytes.Repeat([]byte{'>'}, 30))
		if _, err := file.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		s := fragment.Span{Segment: first, Start: start, End: start + int64(len(c))}
		f.Index = append(f.Index, fragment.IndexRecord{Offset: first, Position: fragment.DataStart + f.Size})
		h, err := chunk.ParseHeader(c)
		if err != nil {
			t.Fatal(err)
		}
		f.Headers = append(f.Headers, h.Sum())
		f.Spans = append(f.Spans, s)
		f.Size += s.Size()
		want = append(want, c...)
	}
	return disk, f, want
}

// The object comes out in one pass, each byte taken from the disk once, and again after a
// rewind wherever that comes.
func TestBodyIsTheWholeObject(t *testing.T) {
	disk, f, data := threeSpans(t)
	tail, object := fragment.Tail(f, fragment.Checksum(0, data))
	want := append(data, tail...)
	if _, _, err := fragment.Verify(bytes.Clone(want)); err != nil || int64(len(want)) != fragment.ObjectSize(f) {
		t.Fatalf("%d bytes, want %d: %v", len(want), fragment.ObjectSize(f), err)
	}
	taken := 0
	disk.read = func(_ string, p []byte, _ int64) (int, bool, error) {
		taken += len(p)
		return 0, false, nil
	}
	b := newBody(context.Background(), disk, "s", f)
	for _, stop := range []int{0, 5, 60, len(data) - 1, len(want), len(want)} {
		if err := b.Rewind(); err != nil {
			t.Fatal(err)
		}
		if _, known := b.Sum(); known {
			t.Fatal("its checksum is known before it was read")
		}
		if _, err := io.CopyN(io.Discard, b, int64(stop)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Rewind(); err != nil {
		t.Fatal(err)
	}
	taken = 0
	if err := iotest.TestReader(reader{b}, want); err != nil {
		t.Fatal(err)
	}
	if got, known := b.Sum(); !known || got != object || got != fragment.Checksum(0, want) {
		t.Fatalf("checksum %08x, want %08x", got, object)
	}
	if taken != int(f.Size) {
		t.Fatalf("%d bytes were taken from the disk, of %d", taken, f.Size)
	}
	if err := b.Close(); err != nil || disk.opened() != 0 {
		t.Fatalf("%d files are open, %v", disk.opened(), err)
	}
}

// reader hides all methods but Read.
type reader struct{ io.Reader }

// Item 25: fewer bytes than asked, then none.
func TestItem25ShortReads(t *testing.T) {
	disk, f, want := threeSpans(t)
	disk.read = func(name string, p []byte, off int64) (int, bool, error) {
		if len(p) <= 7 {
			return 0, false, nil
		}
		file, err := disk.Disk.Open("s", name, false)
		if err != nil {
			return 0, true, err
		}
		n, err := file.ReadAt(p[:7], off)
		return n, true, errors.Join(err, file.Close())
	}
	got, err := io.ReadAll(newBody(context.Background(), disk, "s", f))
	if err != nil || !bytes.HasPrefix(got, want) || int64(len(got)) != fragment.ObjectSize(f) {
		t.Fatalf("read %d bytes, want %d: %v", len(got), fragment.ObjectSize(f), err)
	}
	disk.read = func(_ string, _ []byte, off int64) (int, bool, error) { return 0, off >= 20, nil }
	if _, err = io.ReadAll(newBody(context.Background(), disk, "s", f)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("nothing to read gives %v", err)
	}
}

func TestBodyEndsWithItsContextAndItsSegment(t *testing.T) {
	disk, f, _ := threeSpans(t)
	ctx, cancel := context.WithCancel(context.Background())
	b := newBody(ctx, disk, "s", f)
	if _, err := b.Read(make([]byte, 50)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := b.Read(make([]byte, 50)); !errors.Is(err, context.Canceled) {
		t.Fatalf("goes on: %v", err)
	}
	if err := disk.Remove("s", segment.FileName(20)); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadAll(newBody(context.Background(), disk, "s", f))
	if !errors.Is(err, fs.ErrNotExist) || resultOf(err).Fault != upload.FaultMissing {
		t.Fatalf("a segment that is gone gives %v", err)
	}
}

// A read into nothing is no failure, wherever the body stands.
func TestABodyIsReadIntoNothing(t *testing.T) {
	disk, f, data := threeSpans(t)
	b := newBody(context.Background(), disk, "s", f)
	for _, step := range []int{0, 8, 60, len(data) - 68, 10} {
		if _, err := io.CopyN(io.Discard, b, int64(step)); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Read(nil); n != 0 || err != nil {
			t.Fatalf("at %d: %d, %v", b.at, n, err)
		}
	}
	if rest, err := io.ReadAll(b); err != nil || int64(len(rest)) != fragment.ObjectSize(f)-int64(len(data))-10 {
		t.Fatalf("then %d bytes, %v", len(rest), err)
	}
}

// A fragment whose bytes end in the middle of a chunk gets no tail.
func TestABodyDoesNotEndWithinAChunk(t *testing.T) {
	disk, f, _ := threeSpans(t)
	f.Spans[2].End -= 5
	b := newBody(context.Background(), disk, "s", f)
	if got, err := io.ReadAll(b); err == nil || !strings.Contains(err.Error(), "the chunk is cut short") {
		t.Fatalf("%d bytes came out, %v", len(got), err)
	}
	if _, known := b.Sum(); known {
		t.Error("its checksum is known")
	}
}

// However much a reader asks for, so much is taken from the disk at once.
func TestABodyTakesNoMoreAtOnce(t *testing.T) {
	disk := &counted{Disk: fakedisk.New()}
	release, err := disk.Lease(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	f, data := fragmentOf(chunkOf(0, 3, maxRead))
	file, err := disk.Create("s", segment.FileName(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(data, segment.FileHeaderSize); err != nil {
		t.Fatal(err)
	}
	most := 0
	disk.read = func(_ string, p []byte, _ int64) (int, bool, error) {
		most = max(most, len(p))
		return 0, false, nil
	}
	b := newBody(context.Background(), disk, "s", f)
	into, total := make([]byte, 4*maxRead), int64(0)
	for err == nil {
		var n int
		n, err = b.Read(into)
		total += int64(n)
	}
	if !errors.Is(err, io.EOF) || total != fragment.ObjectSize(f) || most != maxRead {
		t.Fatalf("%d bytes of %d came out, %d at once: %v", total, fragment.ObjectSize(f), most, err)
	}
}

// Items 24 and 25: a body that fails in the middle leaves nothing open.
func TestItem24AnUploadThatFailsInTheMiddleClosesItsFile(t *testing.T) {
	inBubble(t, func(b *bench) {
		var fail bool
		b.files.read = func(_ string, p []byte, off int64) (int, bool, error) {
			return 0, fail && off > 100, errors.New("disk on fire")
		}
		h := b.start()
		b.grow(2)
		b.until(20)
		fail = true
		b.grow(2)
		b.pass(1e9 * 60)
		if s := b.status(h); s.Remote.PersistedNext != 20 || b.files.opened() != 0 {
			t.Fatalf("%d files are open, status %+v", b.files.opened(), s)
		}
		fail = false
		b.until(40)
		b.verify()
	})
}

func TestFaultsOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want upload.Fault
	}{
		{nil, upload.FaultNone},
		{&port.StoreError{Op: "put", Class: port.Throttled}, upload.FaultTransient},
		{&port.StoreError{Op: "put", Class: port.Unavailable}, upload.FaultTransient},
		{&port.StoreError{Op: "put", Class: port.Timeout}, upload.FaultTransient},
		{context.DeadlineExceeded, upload.FaultTransient},
		{&port.StoreError{Op: "put", Class: port.Denied}, upload.FaultLasting},
		{&port.StoreError{Op: "put", Class: port.Checksum}, upload.FaultLasting},
		{&port.StoreError{Op: "put", Class: port.Full}, upload.FaultLasting},
		{&port.StoreError{Op: "put", Err: errors.New("odd")}, upload.FaultLasting},
		{&port.StoreError{Op: "get", Class: port.NotFound}, upload.FaultMissing},
		{fs.ErrNotExist, upload.FaultMissing},
		{&port.MetadataError{Op: "swap pointer", Class: port.Conflict}, upload.FaultConflict},
		{&port.MetadataError{Op: "swap pointer", Class: port.UnknownOutcome}, upload.FaultUnknown},
	} {
		if got := resultOf(c.err).Fault; got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

func TestEpochsOf(t *testing.T) {
	asked := 0
	at := func(o pos.Offset) (pos.Epoch, error) {
		asked++
		switch {
		case o < 300:
			return 2, nil
		case o < 301:
			return 5, nil
		}
		return 9, nil
	}
	got, err := epochsOf(at, 100, 1_000_000)
	want := []segment.EpochEnd{{Epoch: 2, End: 300}, {Epoch: 5, End: 301}, {Epoch: 9, End: 1_000_000}}
	if err != nil || !slices.Equal(got, want) || asked > 50 {
		t.Fatalf("got %v, %v after %d questions", got, err, asked)
	}
	if got, err := epochsOf(at, 400, 400); got != nil || err != nil {
		t.Fatalf("nothing has %v, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := epochsOf(func(o pos.Offset) (pos.Epoch, error) {
		if o > 500 && o < 900_000 {
			return 0, broken
		}
		return at(o)
	}, 100, 1_000_000); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}
