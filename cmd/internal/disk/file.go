package disk

import (
	"io"
	"os"

	"millrace/actors/port"
)

// file is a port.File on a file of the operating system.
type file struct {
	os   *os.File
	what string
}

// ReadAt implements port.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.os.ReadAt(p, off)
	if err == io.EOF {
		return n, io.EOF
	}
	return n, diskError("read", f.what, err)
}

// WriteAt implements port.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.os.WriteAt(p, off)
	return n, diskError("write", f.what, err)
}

// Truncate implements port.File.
func (f *file) Truncate(size int64) error { return diskError("truncate", f.what, f.os.Truncate(size)) }

// Sync implements port.File.
func (f *file) Sync() error { return diskError("sync", f.what, f.os.Sync()) }

// Size implements port.File.
func (f *file) Size() (int64, error) {
	info, err := f.os.Stat()
	if err != nil {
		return 0, diskError("size", f.what, err)
	}
	return info.Size(), nil
}

// Close implements port.File.
func (f *file) Close() error { return diskError("close", f.what, f.os.Close()) }

var _ port.File = (*file)(nil)
