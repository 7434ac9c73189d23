package hooks_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/test/fake/fakedisk"
)

const stream = pos.StreamID("s")

// fixture is a log on disk: segments of four chunks of two records, chunk i at time 10*i.
// Every third chunk is a tracking chunk of one record.
type fixture struct {
	t    *testing.T
	disk *fakedisk.Disk
	log  *hooks.Log
	refs []segment.ChunkRef
	view segment.Publish
}

func newFixture(t *testing.T, chunks int) *fixture {
	f := &fixture{t: t, disk: fakedisk.New(), log: hooks.NewLog(hooks.LogSpec{Stream: stream})}
	if _, err := f.disk.Lease(context.Background(), string(stream)); err != nil {
		t.Fatal(err)
	}
	f.view.LastChunk = pos.NoOffset
	next := pos.Offset(100)
	f.view.First = next
	for i := range chunks {
		if i%4 == 0 {
			f.roll(next)
		}
		next = f.add(i, next)
	}
	f.view.Committed, f.view.Synced, f.view.Last = next, next, next
	f.log.Publish(&f.view)
	return f
}

func (f *fixture) roll(first pos.Offset) {
	f.write(segment.FileName(first), segment.FileHeader())
	f.write(segment.IndexName(first), segment.IndexHeader())
	f.view.Segments = append(slices.Clone(f.view.Segments), first)
}

func (f *fixture) add(i int, id pos.Offset) pos.Offset {
	b := chunk.NewBuilder(16)
	b.Add([]byte{byte(i)}, nil)
	if i%3 != 2 {
		b.Add([]byte("second"), nil)
	}
	c := b.Seal(id, 1, pos.Millis(10*i), nil)
	if i%3 == 2 {
		c[1] = byte(chunk.TrackingDelta)
	}
	h, err := chunk.ParseHeader(c)
	if err != nil {
		f.t.Fatal(err)
	}
	first := f.view.Segments[len(f.view.Segments)-1]
	ref := segment.ChunkRef{Header: h, Segment: first, Position: f.write(segment.FileName(first), c), Size: int64(len(c))}
	f.write(segment.IndexName(first), ref.Record().Append(nil))
	f.refs = append(f.refs, ref)
	f.view.LastChunk = id
	return h.Next()
}

// write appends to a file and returns where.
func (f *fixture) write(name string, b []byte) int64 {
	f.t.Helper()
	file, err := f.disk.Open(string(stream), name, true)
	if errors.Is(err, port.NotFound) {
		file, err = f.disk.Create(string(stream), name)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	at, err := file.Size()
	if err == nil {
		_, err = file.WriteAt(b, at)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return at
}

// spoil overwrites a part of a file.
func (f *fixture) spoil(name string, at int64, b []byte) {
	f.t.Helper()
	file, err := f.disk.Open(string(stream), name, true)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(b, at); err != nil {
		f.t.Fatal(err)
	}
}

// without lets each test run with indexes as they should be, and without any help of them.
func without(t *testing.T, chunks int, test func(t *testing.T, f *fixture)) {
	for name, harm := range map[string]func(f *fixture, first pos.Offset){
		"whole index":   func(*fixture, pos.Offset) {},
		"no index":      func(f *fixture, first pos.Offset) { f.remove(segment.IndexName(first)) },
		"zeros":         func(f *fixture, first pos.Offset) { f.spoil(segment.IndexName(first), 8, make([]byte, 200)) },
		"a wrong place": func(f *fixture, first pos.Offset) { f.spoil(segment.IndexName(first), 8+29+24, []byte{0, 0, 0, 99}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, chunks)
			for _, first := range f.view.Segments {
				harm(f, first)
			}
			test(t, f)
		})
	}
}

func (f *fixture) remove(name string) {
	f.t.Helper()
	if err := f.disk.Remove(string(stream), name); err != nil {
		f.t.Fatal(err)
	}
}

func TestCursorFromAnyOffset(t *testing.T) {
	without(t, 10, func(t *testing.T, f *fixture) {
		for at := f.view.First; at <= f.view.Committed; at++ {
			c, err := hooks.OpenCursor(f.disk, f.log, at)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.IndexFunc(f.refs, func(r segment.ChunkRef) bool { return r.Header.Next() > at })
			if want < 0 {
				want = len(f.refs)
			}
			for i := want; i < len(f.refs); i++ {
				ref, err := c.Header()
				if err != nil || ref != f.refs[i] {
					t.Fatalf("from %s: %+v, %v, want %+v", at, ref, err, f.refs[i])
				}
			}
			if _, err := c.Header(); !errors.Is(err, io.EOF) {
				t.Errorf("from %s: %v at the end", at, err)
			}
			c.Close()
		}
	})
}

func TestCursorReadsWholeChunks(t *testing.T) {
	f := newFixture(t, 6)
	c, err := hooks.OpenCursor(f.disk, f.log, f.view.First)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 0, 4096)
	for _, want := range f.refs {
		ref, b, err := c.Read(buf)
		if err != nil || ref != want || int64(len(b)) != ref.Size || chunk.Verify(b) != nil || &b[0] != &buf[:1][0] {
			t.Fatalf("%+v, %d bytes, %v", ref, len(b), err)
		}
	}
}

func TestCursorOutsideOfTheLog(t *testing.T) {
	f := newFixture(t, 6)
	var trimmed *hooks.Trimmed
	if _, err := hooks.OpenCursor(f.disk, f.log, f.view.First-1); !errors.As(err, &trimmed) || trimmed.First != f.view.First {
		t.Errorf("below the log: %v", err)
	}
	if _, err := hooks.OpenCursor(f.disk, f.log, f.view.Committed+1); err == nil || errors.As(err, &trimmed) {
		t.Errorf("above the log: %v", err)
	}
}

func TestCursorMeetsRetention(t *testing.T) {
	f := newFixture(t, 12)
	c, err := hooks.OpenCursor(f.disk, f.log, f.view.First)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, first := range f.view.Segments[:2] {
		f.remove(segment.FileName(first))
	}
	f.view.Segments = f.view.Segments[2:]
	f.view.First = f.view.Segments[0]
	f.log.Publish(&f.view)
	for i := range 4 {
		if ref, err := c.Header(); err != nil || ref != f.refs[i] {
			t.Fatalf("an open file is read to its end: %+v, %v", ref, err)
		}
	}
	var trimmed *hooks.Trimmed
	if _, err := c.Header(); !errors.As(err, &trimmed) || trimmed.First != f.view.First {
		t.Errorf("then: %v", err)
	}
	if _, err := hooks.OpenCursor(f.disk, f.log, f.view.First); err != nil {
		t.Error(err)
	}
}

func TestCursorNoticesDamage(t *testing.T) {
	f := newFixture(t, 4)
	f.spoil(segment.FileName(100), f.refs[1].End()-1, []byte{0xee})
	f.spoil(segment.FileName(100), f.refs[2].Position, []byte{0xee})
	c, err := hooks.OpenCursor(f.disk, f.log, f.view.First)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Read(nil); err != nil {
		t.Fatal(err)
	}
	var damage *hooks.CorruptError
	if _, b, err := c.Read(nil); !errors.As(err, &damage) || b != nil || damage.Position != f.refs[1].Position {
		t.Errorf("data: %v", err)
	}
	if ref, err := c.Header(); err != nil || ref != f.refs[1] {
		t.Errorf("the cursor moved past a chunk it could not read: %+v, %v", ref, err)
	}
	if _, err := c.Header(); !errors.As(err, &damage) || damage.Position != f.refs[2].Position {
		t.Errorf("header: %v", err)
	}
}

func TestCursorStopsAtCommitted(t *testing.T) {
	f := newFixture(t, 6)
	f.view.Committed, f.view.Synced = f.refs[3].Header.ID, f.refs[3].Header.ID
	l := hooks.NewLog(hooks.LogSpec{Stream: stream})
	l.Publish(&f.view)
	c, err := hooks.OpenCursor(f.disk, l, l.Committed())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Read(nil); !errors.Is(err, io.EOF) || c.Offset() != l.Committed() {
		t.Errorf("at the end: %v, offset %s", err, c.Offset())
	}
	f.view.Committed = f.view.Last
	l.Publish(&f.view)
	for _, want := range f.refs[3:] {
		if ref, err := c.Header(); err != nil || ref != want {
			t.Errorf("%+v, %v, want %+v", ref, err, want)
		}
	}
}

func TestCursorAtTime(t *testing.T) {
	without(t, 11, func(t *testing.T, f *fixture) {
		for at := pos.Millis(-5); at < 120; at += 5 {
			c, err := hooks.OpenCursorAtTime(f.disk, f.log, at)
			if err != nil {
				t.Fatal(err)
			}
			want := f.view.Committed
			if i := slices.IndexFunc(f.refs, func(r segment.ChunkRef) bool { return r.Header.Timestamp >= at }); i >= 0 {
				want = f.refs[i].Header.ID
			}
			if c.Offset() != want {
				t.Errorf("at %d: %s, want %s", int64(at), c.Offset(), want)
			}
			c.Close()
		}
	})
}

func TestTailBackwards(t *testing.T) {
	without(t, 11, func(t *testing.T, f *fixture) {
		var got []segment.ChunkRef
		err := hooks.TailBackwards(f.disk, f.log, func(ref segment.ChunkRef, b []byte) bool {
			if chunk.Verify(b) != nil || int64(len(b)) != ref.Size {
				t.Errorf("chunk %s has %d bytes", ref.Header.ID, len(b))
			}
			got = append(got, ref)
			return len(got) < 6
		})
		var want []segment.ChunkRef
		for _, r := range slices.Backward(f.refs) {
			if r.Header.Type == chunk.User && len(want) < 6 {
				want = append(want, r)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestTailBackwardsWhenTheIndexLagsBehind(t *testing.T) {
	f := newFixture(t, 3)
	name := segment.IndexName(100)
	f.remove(name)
	f.write(name, segment.IndexHeader())
	f.write(name, f.refs[0].Record().Append(nil))
	var got []pos.Offset
	err := hooks.TailBackwards(f.disk, f.log, func(ref segment.ChunkRef, _ []byte) bool {
		got = append(got, ref.Header.ID)
		return true
	})
	if err != nil || !slices.Equal(got, []pos.Offset{102, 100}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAnEmptyLog(t *testing.T) {
	f := newFixture(t, 0)
	f.roll(100)
	f.log.Publish(&f.view)
	for _, open := range []func() (*hooks.Cursor, error){
		func() (*hooks.Cursor, error) { return hooks.OpenCursor(f.disk, f.log, 100) },
		func() (*hooks.Cursor, error) { return hooks.OpenCursorAtTime(f.disk, f.log, 7) },
	} {
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Header(); !errors.Is(err, io.EOF) || c.Offset() != 100 {
			t.Errorf("offset %s, %v", c.Offset(), err)
		}
		c.Close()
	}
	err := hooks.TailBackwards(f.disk, f.log, func(segment.ChunkRef, []byte) bool { t.Error("visited"); return true })
	if err != nil {
		t.Error(err)
	}
}
