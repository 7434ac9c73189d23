package dirstore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"

	"millrace/actors/port"
)

// block is how many bytes are written between two looks at the context.
const block = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put implements port.ObjectStore.
func (s *Store) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	err := s.ready(ctx, key)
	if err == nil && ifAbsent {
		err = s.absent(key)
	}
	if err != nil {
		return storeError("put", key, err)
	}
	name, err := s.write(ctx, body, size)
	if err != nil {
		return storeError("put", key, err)
	}
	err = s.publish(name, key, ifAbsent)
	if ifAbsent || err != nil {
		err = errors.Join(err, s.work.drop(name))
	}
	return storeError("put", key, err)
}

// absent saves writing an object that can't be published.
func (s *Store) absent(key string) error {
	_, err := s.root.Lstat(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		return port.Exists
	}
	return err
}

// write stores a verified body under a temporary name, durably.
func (s *Store) write(ctx context.Context, body port.Body, size int64) (string, error) {
	if err := body.Rewind(); err != nil {
		return "", err
	}
	name, f, err := s.work.file()
	if err != nil {
		return "", err
	}
	n, sum, err := copyBody(ctx, f, io.LimitReader(body, size+1))
	if err == nil {
		err = verify(body, n, size, sum)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, s.work.drop(name))
	}
	return name, nil
}

// verify holds what was written to what the body says of itself.
func verify(body port.Body, n, size int64, sum uint32) error {
	if n != size {
		return fmt.Errorf("announced %d bytes, got %d (or more): %w", size, n, port.Checksum)
	}
	if want, known := body.Sum(); !known || sum != want {
		return fmt.Errorf("announced CRC-32C %08x (known: %v), got %08x: %w", want, known, sum, port.Checksum)
	}
	return nil
}

// copyBody writes body to w and returns its size and checksum.
func copyBody(ctx context.Context, w io.Writer, body io.Reader) (n int64, sum uint32, err error) {
	b := make([]byte, block)
	for {
		if err := ctx.Err(); err != nil {
			return n, sum, err
		}
		got, err := io.ReadFull(body, b)
		n += int64(got)
		sum = crc32.Update(sum, castagnoli, b[:got])
		if _, err := w.Write(b[:got]); err != nil {
			return n, sum, err
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return n, sum, nil
		}
		if err != nil {
			return n, sum, fmt.Errorf("read the body: %w", err)
		}
	}
}

// publish gives a temporary file its key, durably.
func (s *Store) publish(name, key string, ifAbsent bool) error {
	s.tree.RLock()
	defer s.tree.RUnlock()
	err := s.name(name, key, ifAbsent)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody else (an operator, a neighbour's Delete) removed a folder we had made.
		s.forgetFolders()
		err = s.name(name, key, ifAbsent)
	}
	if err != nil {
		return err
	}
	return s.syncFolder(path.Dir(key))
}

func (s *Store) name(name, key string, ifAbsent bool) error {
	if err := s.makeFolder(path.Dir(key)); err != nil {
		return err
	}
	if ifAbsent {
		return s.root.Link(name, key)
	}
	return s.root.Rename(name, key)
}
