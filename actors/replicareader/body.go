package replicareader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"millrace/actors/port"
	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/segment"
)

// maxRead bounds what is read from a file at once: a store's client may ask for more
// than is good for the memory of a node with many uploads.
const maxRead = 1 << 20

// body is a fragment's object as a stream of bytes, put together from the segment
// files while it is read. It holds at most one file open.
type body struct {
	ctx    context.Context // ends the reading
	disk   port.Disk
	folder string
	frag   *fragment.Fragment
	ends   []int64 // where the spans end in the object
	tail   []byte
	size   int64 // of the object; of what precedes the tail, before addTail
	at     int64

	file    port.File
	segment pos.Offset // whose file is open
}

func newBody(ctx context.Context, disk port.Disk, folder string, f *fragment.Fragment) *body {
	b := &body{ctx: ctx, disk: disk, folder: folder, frag: f, size: fragment.DataStart}
	for _, s := range f.Spans {
		b.size += s.Size()
		b.ends = append(b.ends, b.size)
	}
	return b
}

// addTail adds what follows the chunks, and returns the whole object's checksum. crc
// is what sum returned.
func (b *body) addTail(crc uint32) uint32 {
	tail, object := fragment.Tail(b.frag, crc)
	b.tail = tail
	b.size += int64(len(tail))
	return object
}

// sum reads header and chunks once and returns their CRC-32C. It fails where the
// chunks are not what was written.
func (b *body) sum() (uint32, error) {
	buf, crc, v := make([]byte, min(b.size, maxRead)), uint32(0), newVerifier(b.frag)
	for {
		from := b.at
		n, err := b.Read(buf)
		crc = fragment.Checksum(crc, buf[:n])
		if errors.Is(err, io.EOF) {
			return crc, v.whole()
		}
		if err == nil && from >= fragment.DataStart {
			err = v.pass(buf[:n])
		}
		if err != nil {
			return 0, err
		}
	}
}

// Read implements io.Reader. A segment that is shorter than the fragment says is an
// error: what was committed must be there.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.at >= b.size {
		return 0, io.EOF
	}
	p = p[:min(len(p), maxRead)]
	i := sort.Search(len(b.ends), func(i int) bool { return b.ends[i] > b.at })
	n, err := 0, error(nil)
	switch {
	case b.at < fragment.DataStart:
		n = copy(p, fragment.Header()[b.at:])
	case i < len(b.ends):
		n, err = b.readSpan(p, i)
	default:
		n = copy(p, b.tail[b.at-b.dataEnd():])
	}
	b.at += int64(n)
	return n, err
}

func (b *body) dataEnd() int64 { return b.ends[len(b.ends)-1] }

// readSpan reads from span i at b.at, up to the span's end at most.
func (b *body) readSpan(p []byte, i int) (int, error) {
	s := b.frag.Spans[i]
	left := b.ends[i] - b.at
	p = p[:min(int64(len(p)), left)]
	if err := b.open(s.Segment); err != nil {
		return 0, err
	}
	n, err := b.file.ReadAt(p, s.End-left)
	if n > 0 {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, fmt.Errorf("%s/%s at %d: %w", b.folder, segment.FileName(s.Segment), s.End-left, err)
}

func (b *body) open(first pos.Offset) error {
	if b.file != nil && b.segment == first {
		return nil
	}
	if err := b.Close(); err != nil {
		return err
	}
	f, err := b.disk.Open(b.folder, segment.FileName(first), false)
	if err != nil {
		return err
	}
	b.file, b.segment = f, first
	return nil
}

// Seek implements io.Seeker.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 {
		return b.at, fmt.Errorf("seek to %d", offset)
	}
	b.at = offset
	return offset, nil
}

// Close gives the file back. Reading goes on after it.
func (b *body) Close() error {
	f := b.file
	b.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}
