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

// body is a fragment's object as a stream of bytes, put together from the segment files
// while it is read. In the same pass the chunks are held to what was written and the
// checksums are computed, so that each byte is taken from the disk once. It holds at
// most one file open.
type body struct {
	ctx    context.Context // ends the reading
	disk   port.Disk
	folder string
	frag   *fragment.Fragment
	ends   []int64 // where the spans end in the object

	at     int64
	chunks *verifier
	crc    uint32 // of the header and the chunks, as far as they were read
	tail   []byte // nil: the chunks are not read yet
	object uint32 // checksum of all, once there is a tail

	failed error // why the chunks can't be read, or are not what was written

	file    port.File
	segment pos.Offset // whose file is open
}

var _ port.Body = (*body)(nil)

func newBody(ctx context.Context, disk port.Disk, folder string, f *fragment.Fragment) *body {
	b := &body{ctx: ctx, disk: disk, folder: folder, frag: f}
	end := int64(fragment.DataStart)
	for _, s := range f.Spans {
		end += s.Size()
		b.ends = append(b.ends, end)
	}
	b.begin()
	return b
}

func (b *body) begin() {
	b.at, b.crc, b.chunks, b.tail = 0, 0, newVerifier(b.frag), nil
}

// Rewind implements port.Body.
func (b *body) Rewind() error {
	b.begin()
	return nil
}

// Sum implements port.Body: it is known when the chunks have been read.
func (b *body) Sum() (uint32, bool) { return b.object, b.tail != nil }

// Read implements io.Reader. It fails where the chunks are not what was written, and
// where a segment is shorter than the fragment says: what was committed must be there.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil // a file that is asked for nothing gives what looks like its end
	}
	p = p[:min(len(p), maxRead)]
	switch i := sort.Search(len(b.ends), func(i int) bool { return b.ends[i] > b.at }); {
	case b.at < fragment.DataStart:
		n := copy(p, fragment.Header()[b.at:])
		b.pass(p[:n])
		return n, nil
	case i < len(b.ends):
		return b.readChunks(p, i)
	default:
		return b.readTail(p)
	}
}

// readChunks reads from span i and looks at what it got.
func (b *body) readChunks(p []byte, i int) (int, error) {
	n, err := b.readSpan(p, i)
	if err == nil {
		err = b.chunks.pass(p[:n])
	}
	if err != nil {
		b.failed = err
		return 0, err
	}
	b.pass(p[:n])
	return n, nil
}

// pass accounts for bytes before the tail.
func (b *body) pass(p []byte) {
	b.crc = fragment.Checksum(b.crc, p)
	b.at += int64(len(p))
}

func (b *body) readTail(p []byte) (int, error) {
	if b.tail == nil {
		if err := b.chunks.whole(); err != nil {
			return 0, err
		}
		b.tail, b.object = fragment.Tail(b.frag, b.crc)
	}
	in := b.at - b.ends[len(b.ends)-1]
	if in == int64(len(b.tail)) {
		return 0, io.EOF
	}
	n := copy(p, b.tail[in:])
	b.at += int64(n)
	return n, nil
}

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

// Close gives the file back. Reading goes on after it.
func (b *body) Close() error {
	f := b.file
	b.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}
