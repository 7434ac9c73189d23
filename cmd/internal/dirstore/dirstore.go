package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"millrace/actors/port"
)

// Store is an object store in a directory.
type Store struct {
	path string      // absolute
	self fs.FileInfo // of the folder that was found there
	root *os.Root
	work *workshop

	// tree is held for reading while a Put makes folders and names its object in them,
	// for writing while Delete removes folders it emptied.
	tree sync.RWMutex

	mu     sync.Mutex
	synced map[string]bool // folders whose own entry is durable; only changed with tree held
}

// Open opens the store in dir, makes the folder if it is not there, and removes what
// processes that have ended left in .tmp.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, storeError("open", dir, err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, storeError("open", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, storeError("open", dir, err)
	}
	self, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(storeError("open", dir, err), root.Close())
	}
	work, err := openWorkshop(root)
	if err != nil {
		return nil, errors.Join(storeError("open", dir, err), root.Close())
	}
	return &Store{path: dir, self: self, root: root, work: work, synced: map[string]bool{".": true}}, nil
}

// Close removes what Puts that were cut off left, and lets go of the directory. No
// operation may run.
func (s *Store) Close() error {
	return errors.Join(storeError("close", "", s.work.close()), s.root.Close())
}

// storeError gives err the shape the port demands. What the operating system says
// without a class of ours (an I/O error, a server that went away) may pass.
func storeError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	class := port.ClassOf(err)
	if errno, ok := errors.AsType[syscall.Errno](err); ok && class == port.Unclassified {
		class = port.Unavailable
		if errno == syscall.EROFS || errno == syscall.ENOTDIR || errno == syscall.EISDIR || errno == syscall.ENOTEMPTY {
			class = port.Denied
		}
	}
	return &port.StoreError{Op: op, Key: key, Class: class, Err: err}
}

// ready fails for a key outside the rules, for a context that has ended, and when the
// store's folder is not in its place.
func (s *Store) ready(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := port.CheckKey(key); err != nil {
			return fmt.Errorf("%w: %w", port.Denied, err)
		}
	}
	return errors.Join(ctx.Err(), s.inPlace())
}

// inPlace fails when the path leads to another folder than the one that was opened: that
// was moved away, unmounted or mounted over. It could still be written to, and nobody
// would look for the objects where they then are.
func (s *Store) inPlace() error {
	now, err := os.Stat(s.path)
	if err == nil && os.SameFile(now, s.self) {
		return nil
	}
	if err == nil {
		err = errors.New("another folder stands there")
	}
	if unfound, ok := errors.AsType[*fs.PathError](err); ok {
		err = unfound.Err // the path is named below
	}
	return fmt.Errorf("the store's folder %s was moved or unmounted while the node ran (%w): put it back, or start the node anew on what is there: %w",
		s.path, err, port.Unavailable)
}

// open opens an object; a folder is none.
func (s *Store) open(key string) (*os.File, int64, error) {
	f, err := s.root.Open(key)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, 0, port.NotFound
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = port.NotFound
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Get implements port.ObjectStore.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := s.read(ctx, key, func(size int64) (off, n int64, err error) {
		if size > port.MaxGet {
			return 0, 0, fmt.Errorf("object has %d bytes, at most %d are handed out: read ranges", size, port.MaxGet)
		}
		return 0, size, nil
	})
	return b, storeError("get", key, err)
}

// GetRange implements port.ObjectStore.
func (s *Store) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	b, err := s.read(ctx, key, func(size int64) (int64, int64, error) {
		if off < 0 || n < 0 || n > port.MaxGet {
			return 0, 0, fmt.Errorf("range of %d bytes at %d: want at most %d bytes, nothing negative", n, off, port.MaxGet)
		}
		off := min(off, size)
		return off, min(n, size-off), nil
	})
	return b, storeError("get range", key, err)
}

// read returns the part of an object that choose names, knowing its size.
func (s *Store) read(ctx context.Context, key string, choose func(size int64) (off, n int64, err error)) ([]byte, error) {
	if err := s.ready(ctx, key); err != nil {
		return nil, err
	}
	f, size, err := s.open(key)
	if err != nil {
		return nil, err
	}
	off, n, err := choose(size)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b := make([]byte, n)
	_, err = io.ReadFull(io.NewSectionReader(f, off, n), b)
	return b, errors.Join(err, f.Close())
}

// Delete implements port.ObjectStore.
func (s *Store) Delete(ctx context.Context, keys []string) ([]port.DeleteError, error) {
	first := ""
	if len(keys) > 0 {
		first = keys[0]
	}
	if len(keys) > port.MaxDelete {
		err := fmt.Errorf("%d keys, at most %d are taken at once: %w", len(keys), port.MaxDelete, port.Denied)
		return nil, storeError("delete", first, err)
	}
	if err := s.ready(ctx); err != nil {
		return nil, storeError("delete", first, err)
	}
	var failed []port.DeleteError
	touched := map[string][]string{}
	for _, key := range keys {
		if err := s.remove(ctx, key); err != nil {
			failed = append(failed, port.DeleteError{Key: key, Err: storeError("delete", key, err)})
		} else {
			touched[path.Dir(key)] = append(touched[path.Dir(key)], key)
		}
	}
	for dir, keys := range touched {
		err := s.settleFolder(dir)
		for i := 0; err != nil && i < len(keys); i++ {
			failed = append(failed, port.DeleteError{Key: keys[i], Err: storeError("delete", keys[i], err)})
		}
	}
	slices.SortFunc(failed, func(a, b port.DeleteError) int { return slices.Index(keys, a.Key) - slices.Index(keys, b.Key) })
	return failed, nil
}

// remove removes one object; that there is none is no error.
func (s *Store) remove(ctx context.Context, key string) error {
	if err := s.ready(ctx, key); err != nil {
		return err
	}
	info, err := s.root.Lstat(key)
	if err == nil && info.Mode().IsRegular() {
		err = s.root.Remove(key)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// Probe implements port.ObjectStore.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return storeError("probe", "", err)
	}
	name, f, err := s.work.file()
	if err != nil {
		return storeError("probe", "", err)
	}
	_, err = f.Write([]byte{0})
	err = errors.Join(err, f.Sync(), f.Close(), s.work.drop(name))
	return storeError("probe", "", err)
}

var _ port.ObjectStore = (*Store)(nil)
