package boltfile

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Kind says what a file is for and which version of the layout this program knows.
type Kind struct {
	Name   string // stands in the file, for example "metadata"
	Format int    // from 1
}

// File is an open bbolt file.
type File struct {
	path      string
	db        *bbolt.DB
	commit    func(func(*bbolt.Tx) error) error // db.Update
	unsettled atomic.Int64                      // newest commit that is seen but perhaps not durable; 0 = none
	damaged   atomic.Pointer[DamagedError]
}

// lockWait is how long Open waits for the lock of another process. The data folder is
// locked already, so somebody else has opened the file by hand.
const lockWait = time.Second

var (
	about     = []byte("about")
	kindKey   = []byte("kind")
	formatKey = []byte("format")
)

// Open opens the file at path. If there is none it is made, and initialise fills it
// in the same transaction.
func Open(path string, kind Kind, initialise func(*bbolt.Tx) error) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(path, kind, initialise); err != nil {
			return nil, fmt.Errorf("create %s: %w", path, err)
		}
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	case info.Size() == 0: // create never leaves one, and bbolt would fill it
		return nil, &DamagedError{Path: path, Why: "it is empty"}
	}
	db, err := open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, db: db, commit: db.Update}
	if err := f.View(context.Background(), func(tx *bbolt.Tx) error { return checkAbout(tx, path, kind) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// DamagedError says that a file does not hold together. What is in it is not used any
// more: a part that still reads well may contradict what is lost.
type DamagedError struct {
	Path string
	Why  string
}

// Error says which file and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %s: restore it from a copy", e.Path, e.Why)
}

// guard runs what walks the file's pages. bbolt has no checksums on them: it panics on
// a page that is not what it should be, and follows an offset out of the file.
func guard(path string, run func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &DamagedError{Path: path, Why: fmt.Sprint(r)}
		}
	}()
	return run()
}

// guard is guard for an open file: one that was found damaged stays refused.
func (f *File) guard(run func() error) error {
	if e := f.damaged.Load(); e != nil {
		return e
	}
	err := guard(f.path, run)
	if e, ok := errors.AsType[*DamagedError](err); ok {
		f.damaged.Store(e)
	}
	return err
}

func open(path string) (db *bbolt.DB, err error) {
	err = guard(path, func() error {
		db, err = openBolt(path)
		return err
	})
	return db, err
}

func openBolt(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is open in another program: close that one first", path)
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		return nil, &DamagedError{Path: path, Why: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("%s can't be opened: %w", path, err)
	}
	return db, nil
}

// create makes the file whole under another name, then renames it.
func create(path string, kind Kind, initialise func(*bbolt.Tx) error) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := open(fresh)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(about)
		if err != nil {
			return err
		}
		format := []byte(strconv.Itoa(kind.Format))
		if err := errors.Join(b.Put(kindKey, []byte(kind.Name)), b.Put(formatKey, format)); err != nil {
			return err
		}
		return initialise(tx)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func checkAbout(tx *bbolt.Tx, path string, kind Kind) error {
	b := tx.Bucket(about)
	if b == nil {
		return &DamagedError{Path: path, Why: "it does not say what it is"}
	}
	if name := string(b.Get(kindKey)); name != kind.Name {
		return fmt.Errorf("%s holds %q, want %q: move it back to where it belongs", path, name, kind.Name)
	}
	if format := string(b.Get(formatKey)); format != strconv.Itoa(kind.Format) {
		return fmt.Errorf("%s has format %s, this program knows %d only: run the version of Millrace that wrote it", path, format, kind.Format)
	}
	return nil
}

// Close closes the file after the transactions that run. A damaged file is left to the
// end of the process: what met the damage may still hold a lock of bbolt's.
func (f *File) Close() error {
	if f.damaged.Load() != nil {
		return nil
	}
	return f.db.Close()
}

// CommitError is a commit that failed.
type CommitError struct {
	Unknown bool // the change is seen, but may be gone after a power loss
	Err     error
}

// Error says how it ended.
func (e *CommitError) Error() string {
	if e.Unknown {
		return "commit reached the disk in part: " + e.Err.Error()
	}
	return "commit failed, nothing was changed: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *CommitError) Unwrap() error { return e.Err }

// Class is what the failure means: UnknownOutcome, Full or Unavailable.
func (e *CommitError) Class() port.Class {
	switch {
	case e.Unknown:
		return port.UnknownOutcome
	case port.ClassOf(e.Err) == port.Full:
		return port.Full
	}
	return port.Unavailable
}

// View runs f on a snapshot. An error of f comes back as it is; *DamagedError if the
// file does not hold together.
func (f *File) View(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := f.settle(ctx); err != nil {
		return err
	}
	return f.guard(func() error { return f.db.View(read) })
}

// Update runs f in a write transaction and commits it durably. An error of f undoes
// all and comes back as it is; a failed commit is a *CommitError, and *DamagedError as
// of View. A context that ends before f runs changes nothing.
func (f *File) Update(ctx context.Context, write func(*bbolt.Tx) error) error {
	if err := f.settle(ctx); err != nil {
		return err
	}
	return f.update(ctx, write)
}

func (f *File) update(ctx context.Context, write func(*bbolt.Tx) error) error {
	id, done := 0, false
	err := f.guard(func() error {
		return f.commit(func(tx *bbolt.Tx) error {
			// Waiting for the transaction before may have taken the whole deadline.
			if err := ctx.Err(); err != nil {
				return err
			}
			err := write(tx)
			id, done = tx.ID(), err == nil
			return err
		})
	})
	if err == nil || !done {
		return err
	}
	if f.damaged.Load() != nil { // nothing is seen any more
		return &CommitError{Unknown: true, Err: err}
	}
	seen, viewErr := f.lastCommit()
	if viewErr == nil && seen < id {
		return &CommitError{Err: err}
	}
	f.unsettled.Store(int64(id))
	return &CommitError{Unknown: true, Err: errors.Join(err, viewErr)}
}

// lastCommit returns the number of the newest transaction that reads see.
func (f *File) lastCommit() (int, error) {
	id := 0
	err := f.guard(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			id = tx.ID()
			return nil
		})
	})
	return id, err
}

// settle makes durable what an unknown commit left visible.
func (f *File) settle(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pending := f.unsettled.Load()
	if pending == 0 {
		return nil
	}
	if err := f.update(ctx, func(*bbolt.Tx) error { return nil }); err != nil {
		return &CommitError{Err: fmt.Errorf("an earlier commit can't be settled: %w", err)}
	}
	f.unsettled.CompareAndSwap(pending, 0)
	return nil
}

// NewUID draws a random uid that is not zero.
func NewUID() pos.UID {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails: it ends the process where the kernel has no randomness
		if uid := pos.UID(binary.BigEndian.Uint64(b[:])); !uid.IsZero() {
			return uid
		}
	}
}
