package hooks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
)

// Trimmed says that retention has deleted what was asked for: the log begins at First
// now. Whoever gets it opens another cursor, there or in the object store.
type Trimmed struct{ First pos.Offset }

// Error says where the log begins.
func (e *Trimmed) Error() string { return fmt.Sprintf("the local log begins at %s now", e.First) }

// CorruptError says that a committed chunk on disk is not what was written.
type CorruptError struct {
	Stream   pos.StreamID
	Segment  pos.Offset
	Position int64
	Err      error
}

// Error names the file, the position and what is wrong there.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("stream %s, %s at %d: %v; the disk has damaged it, restore the file or read this range from the object store",
		e.Stream, segment.FileName(e.Segment), e.Position, e.Err)
}

// Unwrap returns what is wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// hugeChunk is the size from which a chunk's header is compared with the file before
// memory is taken for it.
const hugeChunk = 4 << 20

// Cursor goes over the committed chunks of a local log, tracking chunks included. It
// holds one file open: close it, also before a long wait. It is for one goroutine.
type Cursor struct {
	disk port.Disk
	log  *Log
	at   segment.Place
	file port.File
	head [chunk.HeaderSize]byte
}

// OpenCursor returns a cursor whose next chunk is the one that holds the record at;
// with at == Committed the one that will. It fails with *Trimmed below First, with
// *CorruptError, or with the disk's error.
func OpenCursor(disk port.Disk, l *Log, at pos.Offset) (*Cursor, error) {
	if first := l.First(); at < first {
		return nil, &Trimmed{First: first}
	}
	if committed := l.Committed(); at > committed {
		return nil, fmt.Errorf("stream %s ends at %s: there is no record %s to read from", l.Stream, committed, at)
	}
	segments := l.Segments()
	i, found := slices.BinarySearch(segments, at)
	if !found {
		i--
	}
	if i < 0 {
		return nil, &Trimmed{First: l.First()}
	}
	c := &Cursor{disk: disk, log: l}
	if err := c.enter(segments[i]); err != nil {
		return nil, err
	}
	if err := c.seek(at); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// enter opens a segment file and stands at its first chunk.
func (c *Cursor) enter(first pos.Offset) error {
	f, err := c.disk.Open(string(c.log.Stream), segment.FileName(first), false)
	if errors.Is(err, fs.ErrNotExist) {
		return &Trimmed{First: max(c.log.First(), first+1)}
	}
	if err != nil {
		return err
	}
	c.Close()
	c.file, c.at = f, segment.PlaceOf(first)
	return nil
}

// seek moves within the segment to the chunk that holds at. The index saves reading
// headers; where it is wrong or lags behind, headers are read.
func (c *Cursor) seek(at pos.Offset) error {
	i := OpenIndex(c.disk, c.log.Stream, c.at.Segment)
	if i != nil {
		if r, ok := i.before(func(r segment.IndexRecord) bool { return r.ID > at }); ok && c.confirms(r) {
			c.at.Position, c.at.Next = r.Position, r.ID
		}
		i.Close()
	}
	for c.at.Next < at {
		ref, err := c.peek()
		if err != nil {
			return err
		}
		if ref.Header.Next() > at {
			return nil
		}
		c.at.Pass(ref)
	}
	return nil
}

// confirms reports whether the chunk that the index record names stands there.
func (c *Cursor) confirms(r segment.IndexRecord) bool {
	h, err := c.headerAt(r.Position)
	return err == nil && h.ID == r.ID
}

func (c *Cursor) headerAt(position int64) (chunk.Header, error) {
	if n, err := c.file.ReadAt(c.head[:], position); n < chunk.HeaderSize {
		if err == nil || errors.Is(err, io.EOF) {
			err = chunk.ErrShort
		}
		return chunk.Header{}, err
	}
	return chunk.ParseHeader(c.head[:])
}

// peek reads the header of the chunk at the cursor's place.
func (c *Cursor) peek() (segment.ChunkRef, error) {
	h, err := c.headerAt(c.at.Position)
	if err == nil && h.ID != c.at.Next {
		err = &chunk.FormatError{Part: "header", Detail: fmt.Sprintf("chunk %s stands where %s should", h.ID, c.at.Next)}
	}
	if err == nil {
		return segment.ChunkRef{Header: h, Segment: c.at.Segment, Position: c.at.Position, Size: h.Size()}, nil
	}
	return segment.ChunkRef{}, c.fault(err)
}

// fault tells damage from what the disk refused, and both from retention.
func (c *Cursor) fault(err error) error {
	var format *chunk.FormatError
	var sum *chunk.ChecksumError
	switch {
	case c.at.Next < c.log.First():
		return &Trimmed{First: c.log.First()}
	case errors.Is(err, chunk.ErrShort), errors.As(err, &format), errors.As(err, &sum):
		return &CorruptError{Stream: c.log.Stream, Segment: c.at.Segment, Position: c.at.Position, Err: err}
	}
	return err
}

// ahead stands at the next committed chunk, in the next segment if this one has ended.
func (c *Cursor) ahead() error {
	if c.at.Next >= c.log.Committed() {
		return io.EOF
	}
	if c.file == nil {
		return fs.ErrClosed
	}
	if c.at.Next == c.at.Segment {
		return nil
	}
	if _, here := slices.BinarySearch(c.log.Segments(), c.at.Next); here {
		return c.enter(c.at.Next)
	}
	return nil
}

// Header returns where the next chunk lies and moves past it, without reading its body.
// It fails with io.EOF at Committed, with *Trimmed when the chunk's segment is gone,
// with *CorruptError, or with the disk's error; then the cursor stays where it is.
func (c *Cursor) Header() (segment.ChunkRef, error) {
	if err := c.ahead(); err != nil {
		return segment.ChunkRef{}, err
	}
	ref, err := c.peek()
	if err == nil {
		c.at.Pass(ref)
	}
	return ref, err
}

// Read returns the next chunk, whole as on disk and with its CRC verified, and moves
// past it. The bytes are in buf if it is large enough, else in a new array. Errors are
// those of Header.
func (c *Cursor) Read(buf []byte) (segment.ChunkRef, []byte, error) {
	if err := c.ahead(); err != nil {
		return segment.ChunkRef{}, nil, err
	}
	ref, err := c.peek()
	if err != nil {
		return ref, nil, err
	}
	b, err := c.body(ref, buf)
	if err != nil {
		return segment.ChunkRef{}, nil, c.fault(err)
	}
	c.at.Pass(ref)
	return ref, b, nil
}

// body reads and verifies the chunk.
func (c *Cursor) body(ref segment.ChunkRef, buf []byte) ([]byte, error) {
	if ref.Size > hugeChunk {
		if size, err := c.file.Size(); err != nil || size < ref.End() {
			return nil, errors.Join(err, chunk.ErrShort)
		}
	}
	b := slices.Grow(buf[:0], int(ref.Size))[:ref.Size]
	n, err := c.file.ReadAt(b, ref.Position)
	if n < len(b) {
		if errors.Is(err, io.EOF) {
			err = chunk.ErrShort
		}
		return nil, err
	}
	return b, chunk.Verify(b)
}

// Offset is the id of the cursor's next chunk.
func (c *Cursor) Offset() pos.Offset { return c.at.Next }

// Close gives the file back. A closed cursor stays closed.
func (c *Cursor) Close() {
	if c.file != nil {
		giveBack(c.file)
		c.file = nil
	}
}
