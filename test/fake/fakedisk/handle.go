package fakedisk

import (
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"millrace/actors/port"
)

// handle is an open file.
type handle struct {
	disk   *Disk
	node   *node
	what   string
	write  bool
	closed bool // under the disk's lock
}

// do runs one operation of the handle. n is what it had done before it failed.
func (h *handle) do(op string, f func() error) error {
	return h.disk.do(op, h.what, func() error {
		if h.closed {
			return fs.ErrClosed
		}
		return f()
	})
}

// ReadAt implements port.File.
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	n, short := 0, false
	err := h.do("readat", func() error {
		if off < 0 {
			return fmt.Errorf("negative offset %d", off)
		}
		if off < int64(len(h.node.content)) {
			n = copy(p, h.node.content[off:])
		}
		short = n < len(p)
		return nil
	})
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// WriteAt implements port.File.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	err := h.do("writeat", func() error {
		if err := h.writable(off); err != nil {
			return err
		}
		growth := off + int64(len(p)) - int64(len(h.node.content))
		lacking := max(growth-h.disk.room(), 0)
		if n = max(len(p)-int(lacking), 0); n > 0 {
			h.node.write(p[:n], off)
		}
		if lacking > 0 {
			return syscall.ENOSPC
		}
		return nil
	})
	return n, err
}

// Truncate implements port.File.
func (h *handle) Truncate(size int64) error {
	return h.do("truncate", func() error {
		if err := h.writable(size); err != nil {
			return err
		}
		if size-int64(len(h.node.content)) > h.disk.room() {
			return syscall.ENOSPC
		}
		h.node.truncate(size)
		return nil
	})
}

func (h *handle) writable(off int64) error {
	if off < 0 {
		return fmt.Errorf("negative offset %d", off)
	}
	if !h.write {
		return fmt.Errorf("opened for reading only: %w", fs.ErrPermission)
	}
	return nil
}

// Sync implements port.File.
func (h *handle) Sync() error {
	if h.disk.Fault != nil {
		if err := h.disk.Fault("sync", h.what); err != nil {
			return h.failSync(err)
		}
	}
	err := h.disk.locked(func() error {
		if h.closed {
			return fs.ErrClosed
		}
		h.node.sync()
		return nil
	})
	if err == nil && h.disk.After != nil {
		err = h.disk.After("sync", h.what)
	}
	if err != nil {
		return diskError("sync", h.what, err)
	}
	return nil
}

// failSync returns err and forgets what was not synced.
func (h *handle) failSync(err error) error {
	gone := h.disk.locked(func() error {
		h.node.dropOps()
		return nil
	})
	if gone != nil {
		err = gone
	}
	return diskError("sync", h.what, err)
}

// Size implements port.File.
func (h *handle) Size() (int64, error) {
	var size int64
	err := h.do("size", func() error {
		size = int64(len(h.node.content))
		return nil
	})
	return size, err
}

// Close implements port.File.
func (h *handle) Close() error {
	return h.do("close", func() error {
		h.closed = true
		return nil
	})
}

var (
	_ port.Disk = (*Disk)(nil)
	_ port.File = (*handle)(nil)
)
