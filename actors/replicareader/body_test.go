package replicareader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"
	"testing/iotest"

	"millrace/actors/port"
	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/test/fake/fakedisk"
)

// threeSpans is a fragment over three segment files of the given contents.
func threeSpans(t *testing.T) (*counted, *fragment.Fragment, []byte) {
	t.Helper()
	disk := &counted{Disk: fakedisk.New()}
	release, err := disk.Lease(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	f := &fragment.Fragment{First: 10, Next: 40, Chunks: 3, Index: []fragment.IndexRecord{{Offset: 10, Position: 8}, {Offset: 20, Position: 107}, {Offset: 30, Position: 308}}}
	want := slices.Clone(fragment.Header())
	for i, s := range []fragment.Span{{Segment: 10, Start: 8, End: 107}, {Segment: 20, Start: 8, End: 209}, {Segment: 30, Start: 20, End: 50}} {
		file, err := disk.Create("s", segment.FileName(s.Segment))
		if err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte{byte('a' + i)}, 300)
		if _, err := file.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		f.Spans = append(f.Spans, s)
		f.Size += s.Size()
		want = append(want, content[s.Start:s.End]...)
	}
	return disk, f, want
}

func TestBodyIsTheWholeObjectAndSeekable(t *testing.T) {
	disk, f, data := threeSpans(t)
	b := newBody(context.Background(), disk, "s", f)
	crc, err := b.sum()
	if err != nil || crc != fragment.Checksum(0, data) {
		t.Fatalf("sum %08x, %v", crc, err)
	}
	tail, object := fragment.Tail(f, crc)
	want := append(data, tail...)
	if got := b.addTail(crc); got != object || got != fragment.Checksum(0, want) {
		t.Fatalf("object's checksum %08x, want %08x", got, object)
	}
	if b.size != fragment.ObjectSize(f) {
		t.Fatalf("size %d, want %d", b.size, fragment.ObjectSize(f))
	}
	if _, err := b.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(b, want); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Seek(-1, io.SeekStart); err == nil {
		t.Fatal("seeks to -1")
	}
	if err := b.Close(); err != nil || disk.opened() != 0 {
		t.Fatalf("%d files are open, %v", disk.opened(), err)
	}
	if _, _, err := fragment.Verify(want[:len(want):len(want)]); err != nil {
		t.Fatal(err)
	}
}

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
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes, want %d: %v", len(got), len(want), err)
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
	_, err := newBody(context.Background(), disk, "s", f).sum()
	if !errors.Is(err, fs.ErrNotExist) || resultOf(err).Fault != upload.FaultMissing {
		t.Fatalf("a segment that is gone gives %v", err)
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
