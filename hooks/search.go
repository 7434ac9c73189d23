package hooks

import (
	"errors"
	"io"

	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
)

// OpenCursorAtTime returns a cursor at the first committed chunk whose timestamp is t or
// later: the log's first chunk if all are later, the end of the log if none is. It takes
// timestamps to grow along the log. Errors are those of OpenCursor.
func OpenCursorAtTime(disk port.Disk, l *Log, t pos.Millis) (*Cursor, error) {
	segments := l.Segments()
	for i := len(segments) - 1; i >= 0; i-- {
		if segments[i] >= l.Committed() {
			continue
		}
		c := &Cursor{disk: disk, log: l}
		if err := c.enter(segments[i]); err != nil {
			return nil, err
		}
		ref, err := c.peek()
		if err == nil && ref.Header.Timestamp < t {
			err = c.seekTime(t)
			if err == nil {
				return c, nil
			}
		}
		c.Close()
		if err != nil {
			return nil, err
		}
	}
	return OpenCursor(disk, l, l.First())
}

// seekTime moves to the first chunk of this segment that is at t or later, or to its
// end. Precondition: its first chunk is earlier.
func (c *Cursor) seekTime(t pos.Millis) error {
	if i := OpenIndex(c.disk, c.log.Stream, c.at.Segment); i != nil {
		if r, ok := i.before(func(r segment.IndexRecord) bool { return r.Timestamp >= t }); ok && c.confirms(r) {
			c.at.Position, c.at.Next = r.Position, r.ID
		}
		i.Close()
	}
	for {
		here := c.at.Segment
		if err := c.ahead(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		ref, err := c.peek()
		if err != nil || c.at.Segment != here || ref.Header.Timestamp >= t {
			return err
		}
		c.at.Pass(ref)
	}
}

// TailBackwards reads the user chunks of [First, Committed), newest first, and hands
// each whole chunk, its CRC verified, to visit until that returns false. The bytes are
// lent. What retention deletes meanwhile is left out.
func TailBackwards(disk port.Disk, l *Log, visit func(ref segment.ChunkRef, chunk []byte) (more bool)) error {
	t := backwards{cursor: Cursor{disk: disk, log: l}, end: l.Committed(), visit: visit}
	defer t.cursor.Close()
	segments := l.Segments()
	for i := len(segments) - 1; i >= 0 && !t.stopped; i-- {
		if segments[i] >= t.end {
			continue
		}
		err := t.segment(segments[i])
		var trimmed *Trimmed
		if errors.As(err, &trimmed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// backwards visits chunks from the log's end. Invariant: every user chunk of [end,
// Committed) was visited.
type backwards struct {
	cursor  Cursor
	end     pos.Offset
	visit   func(segment.ChunkRef, []byte) bool
	stopped bool
	buf     []byte
}

// segment visits one segment's chunks below end: along the index as far as it agrees
// with the chunks, then along a list of what stands in the file.
func (t *backwards) segment(first pos.Offset) error {
	if err := t.cursor.enter(first); err != nil {
		return err
	}
	if err := t.alongIndex(first); err != nil || t.stopped || t.end == first {
		return err
	}
	refs, err := t.chunks(first)
	if err != nil {
		return err
	}
	for i := len(refs) - 1; i >= 0 && !t.stopped; i-- {
		if err := t.chunk(refs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *backwards) alongIndex(first pos.Offset) error {
	i := OpenIndex(t.cursor.disk, t.cursor.log.Stream, first)
	if i == nil {
		return nil
	}
	defer i.Close()
	for k := i.Len() - 1; k >= 0 && !t.stopped && t.end > first; k-- {
		r, ok := i.Record(k)
		if ok && r.ID >= t.end {
			continue
		}
		h, err := t.cursor.headerAt(r.Position)
		if !ok || err != nil || h.ID != r.ID || h.Next() != t.end {
			return nil
		}
		if err := t.chunk(segment.ChunkRef{Header: h, Segment: first, Position: r.Position, Size: h.Size()}); err != nil {
			return err
		}
	}
	return nil
}

// chunks lists the segment's chunks below end.
func (t *backwards) chunks(first pos.Offset) (refs []segment.ChunkRef, err error) {
	size, err := t.cursor.file.Size()
	if err != nil {
		return nil, err
	}
	err = Walk(t.cursor.file, segment.NewWalk(first, size, false), func(r segment.ChunkRef) bool {
		if r.Header.ID >= t.end {
			return false
		}
		refs = append(refs, r)
		return true
	})
	if err == nil && (len(refs) == 0 || refs[len(refs)-1].Header.Next() != t.end) {
		return nil, t.cursor.fault(errShortSegment)
	}
	return refs, err
}

var errShortSegment = &chunk.FormatError{Part: "header", Detail: "the chunks do not reach the end of the segment"}

// chunk visits one chunk if it is a user's.
func (t *backwards) chunk(ref segment.ChunkRef) error {
	t.end = ref.Header.ID
	if ref.Header.Type != chunk.User {
		return nil
	}
	t.cursor.at.Position, t.cursor.at.Next = ref.Position, ref.Header.ID
	b, err := t.cursor.body(ref, t.buf)
	if err != nil {
		return t.cursor.fault(err)
	}
	t.buf = b
	t.stopped = !t.visit(ref, b)
	return nil
}
