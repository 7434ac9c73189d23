package s3store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"millrace/actors/port"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errLetGo = errors.New("the request is over")

// body is what a Put sends: size bytes of src, each read once. The last bytes are handed
// out only if size and checksum are right. Seeking moves src only when reading goes on
// elsewhere, so that whoever asks for the size costs nothing.
type body struct {
	mu   sync.Mutex // the HTTP client may still read when Put has returned
	src  io.ReadSeeker
	size int64
	want uint32

	at     int64 // where reading goes on
	srcAt  int64 // where src stands; -1: not known
	summed int64 // bytes in sum, counted from the beginning
	sum    uint32
	err    error // what src failed with, or what is wrong with it
}

func newBody(src io.ReadSeeker, size int64, crc32c uint32) *body {
	return &body{src: src, size: size, want: crc32c, srcAt: -1}
}

// check verifies what can be said before a request: all of an empty body, which the
// HTTP client does not read.
func (b *body) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size < 0 {
		return fmt.Errorf("announced %d bytes: %w", b.size, port.Checksum)
	}
	if b.size > 0 {
		return nil
	}
	if err := b.seek(); err != nil {
		return err
	}
	return b.verify()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
		return 0, err
	}
	return n, err
}

// seek moves src to where reading goes on.
func (b *body) seek() error {
	if b.at == b.srcAt {
		return nil
	}
	if _, err := b.src.Seek(b.at, io.SeekStart); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	b.srcAt = b.at
	return nil
}

func (b *body) read(p []byte) (int, error) {
	if b.at == b.size {
		return 0, io.EOF
	}
	if err := b.seek(); err != nil {
		return 0, err
	}
	p = p[:min(int64(len(p)), b.size-b.at)]
	n, err := b.src.Read(p)
	b.account(p[:n])
	switch {
	case b.at == b.size:
		if err := b.verify(); err != nil {
			return 0, err
		}
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("announced %d bytes, got %d: %w", b.size, b.at, port.Checksum)
	case err != nil:
		return 0, fmt.Errorf("read the body: %w", err)
	}
	return n, nil
}

// account sums what was read, unless it was before.
func (b *body) account(p []byte) {
	if b.at == b.summed {
		b.sum = crc32.Update(b.sum, castagnoli, p)
		b.summed += int64(len(p))
	}
	b.at += int64(len(p))
	b.srcAt = b.at
}

// verify checks the sum, and that src has nothing left.
func (b *body) verify() error {
	var one [1]byte
	n, err := b.src.Read(one[:])
	b.srcAt = -1
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the body: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("announced %d bytes, got more: %w", b.size, port.Checksum)
	}
	if b.sum != b.want {
		return fmt.Errorf("announced CRC-32C %08x, got %08x: %w", b.want, b.sum, port.Checksum)
	}
	return nil
}

// Seek implements io.Seeker.
func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 || offset > b.size {
		return b.at, fmt.Errorf("seek to %d of %d bytes", offset, b.size)
	}
	b.at = offset
	return offset, nil
}

// letGo ends all reading: src belongs to the caller of Put again. It returns what src
// failed with, if it did.
func (b *body) letGo() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.err
	b.err = errLetGo
	return err
}
