package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"millrace/actors/port"
)

var errLetGo = errors.New("the request is over")

// body is what a Put sends: size bytes of src. The last bytes are handed out only if src
// ends with them and its checksum is what was announced. Seeking moves src only when
// reading goes on elsewhere, so that whoever asks for the size costs nothing.
type body struct {
	mu   sync.Mutex // the HTTP client may still read when Put has returned
	src  port.Body
	size int64

	at        int64  // where reading goes on
	srcAt     int64  // where src stands; -1: not known
	announced bool   // the checksum is in the request's head already
	want      uint32 // what was announced
	err       error  // what src failed with, or what is wrong with it
}

func newBody(src port.Body, size int64) *body {
	return &body{src: src, size: size, srcAt: -1}
}

// sum returns the checksum to be announced, for which src is read if it doesn't know it yet.
func (b *body) sum(ctx context.Context) (uint32, error) {
	if b.size < 0 {
		return 0, fmt.Errorf("announced %d bytes: %w", b.size, port.Checksum)
	}
	crc, known := b.src.Sum()
	// The HTTP client does not read an empty body, which may be none.
	if !known || b.size == 0 {
		if err := b.drain(ctx); err != nil {
			return 0, err
		}
		crc, _ = b.src.Sum()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announced, b.want = true, crc
	return crc, nil
}

// drain reads all of the body and stands at its beginning again.
func (b *body) drain(ctx context.Context) error {
	buf := make([]byte, min(b.size+1, sendBuffer))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := b.Read(buf); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	_, err := b.Seek(0, io.SeekStart)
	return err
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

func (b *body) read(p []byte) (int, error) {
	if b.at == b.size && b.srcAt == b.size {
		return 0, io.EOF
	}
	if err := b.stand(); err != nil {
		return 0, err
	}
	n, err := 0, error(nil)
	if b.size > 0 {
		n, err = b.src.Read(p[:min(int64(len(p)), b.size-b.at)])
	}
	b.at += int64(n)
	b.srcAt = b.at
	switch {
	case b.at == b.size:
		return n, b.verify()
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("announced %d bytes, got %d: %w", b.size, b.at, port.Checksum)
	case err != nil:
		return 0, fmt.Errorf("read the body: %w", err)
	}
	return n, nil
}

// stand moves src to where reading goes on.
func (b *body) stand() error {
	if b.at == b.srcAt {
		return nil
	}
	if b.at != 0 {
		return fmt.Errorf("a body is read from its beginning, not from byte %d", b.at)
	}
	if err := b.src.Rewind(); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	b.srcAt = 0
	return nil
}

// verify checks that src has nothing left, and its checksum.
func (b *body) verify() error {
	var one [1]byte
	n, err := b.src.Read(one[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the body: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("announced %d bytes, got more: %w", b.size, port.Checksum)
	}
	if got, known := b.src.Sum(); !known || b.announced && got != b.want {
		return fmt.Errorf("announced CRC-32C %08x, got %08x (known: %v): %w", b.want, got, known, port.Checksum)
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

// whole returns the checksum of a body that was read to its end.
func (b *body) whole() (uint32, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	crc, known := b.src.Sum()
	if b.at != b.size || !known {
		b.err = errors.New("the checksum of a body that was not read to its end")
		return 0, b.err
	}
	return crc, nil
}

// sent is how much of the body was handed out.
func (b *body) sent() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
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
