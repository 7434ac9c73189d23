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
	db        *bbolt.DB
	commit    func(func(*bbolt.Tx) error) error // db.Update
	unsettled atomic.Int64                      // newest commit that is seen but perhaps not durable; 0 = none
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
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = create(path, kind, initialise)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	db, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := db.View(func(tx *bbolt.Tx) error { return checkAbout(tx, path, kind) }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &File{db: db, commit: db.Update}, nil
}

func open(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is open in another program: close that one first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s can't be opened; if the file is damaged, restore it from a copy: %w", path, err)
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
		return fmt.Errorf("%s is not a file of Millrace: move it away", path)
	}
	if name := string(b.Get(kindKey)); name != kind.Name {
		return fmt.Errorf("%s holds %q, want %q: move it back to where it belongs", path, name, kind.Name)
	}
	if format := string(b.Get(formatKey)); format != strconv.Itoa(kind.Format) {
		return fmt.Errorf("%s has format %s, this program knows %d only: run the version of Millrace that wrote it", path, format, kind.Format)
	}
	return nil
}

// Close closes the file after the transactions that run.
func (f *File) Close() error { return f.db.Close() }

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

// View runs f on a snapshot. An error of f comes back as it is.
func (f *File) View(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := f.settle(ctx); err != nil {
		return err
	}
	return f.db.View(read)
}

// Update runs f in a write transaction and commits it durably. An error of f undoes
// all and comes back as it is; a failed commit is a *CommitError. A context that ends
// before f runs changes nothing.
func (f *File) Update(ctx context.Context, write func(*bbolt.Tx) error) error {
	if err := f.settle(ctx); err != nil {
		return err
	}
	return f.update(ctx, write)
}

func (f *File) update(ctx context.Context, write func(*bbolt.Tx) error) error {
	id, done := 0, false
	err := f.commit(func(tx *bbolt.Tx) error {
		// Waiting for the transaction before may have taken the whole deadline.
		if err := ctx.Err(); err != nil {
			return err
		}
		err := write(tx)
		id, done = tx.ID(), err == nil
		return err
	})
	if err == nil || !done {
		return err
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
	err := f.db.View(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return nil
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
