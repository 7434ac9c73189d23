package hooks

import (
	"errors"
	"io"

	"millrace/actors/port"
	"millrace/core/segment"
)

// walkWindow is how much of a file a walk reads at a time.
const walkWindow = 256 << 10

// Walk drives a walk over an open segment file and hands every chunk to visit, until
// that returns false or the walk is over. An error is the disk's.
func Walk(f port.File, w *segment.Walk, visit func(segment.ChunkRef) (more bool)) error {
	win := window{f: f}
	for {
		off, n := w.Want()
		if n == 0 {
			return nil
		}
		b, err := win.read(off, n)
		if err != nil {
			return err
		}
		if ref, ok := w.Give(b); ok && !visit(ref) {
			return nil
		}
	}
}

// window is a piece of a file in memory.
type window struct {
	f   port.File
	buf []byte
	at  int64 // of buf[0] in the file
}

// read returns n bytes at off, fewer where the file ends. They are lent until the next
// read.
func (w *window) read(off int64, n int) ([]byte, error) {
	if off < w.at || off+int64(n) > w.at+int64(len(w.buf)) {
		w.buf = append(w.buf[:0], make([]byte, max(n, walkWindow)-len(w.buf[:0]))...)
		got, err := w.f.ReadAt(w.buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.buf, w.at = w.buf[:got], off
	}
	from := off - w.at
	return w.buf[from:min(from+int64(n), int64(len(w.buf)))], nil
}
