package dirstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	tmp      = ".tmp"
	lockName = "lock"
)

// workshop is where one process writes objects before they get their keys. Its lock
// tells the next process whether the owner still lives, so that a sweep takes nothing
// from a neighbour that uses the same directory.
type workshop struct {
	root *os.Root
	path string
	lock *os.File
}

// openWorkshop makes and locks a workshop, after removing those of dead processes.
func openWorkshop(root *os.Root) (*workshop, error) {
	if err := root.Mkdir(tmp, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := sweep(root); err != nil {
		return nil, err
	}
	for {
		w := &workshop{root: root, path: path.Join(tmp, randomName())}
		err := w.claim()
		if err == nil {
			return w, nil
		}
		// Another process that starts now may have swept it before it was locked.
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: it ends the process where the kernel has no randomness
	return fmt.Sprintf("%x", b)
}

// sweep removes the workshops whose owners have ended.
func sweep(root *os.Root) error {
	dir, err := root.Open(tmp)
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(tmp, e.Name())
		if err := sweepOne(root, name); err != nil {
			return fmt.Errorf("sweep %s: %w", name, err)
		}
	}
	return nil
}

func sweepOne(root *os.Root, name string) error {
	lock, err := root.OpenFile(path.Join(name, lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return root.RemoveAll(name)
	}
	if err != nil {
		return err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		err = root.RemoveAll(name)
	case errors.Is(err, unix.EWOULDBLOCK):
		err = nil
	}
	return errors.Join(err, lock.Close())
}

// claim makes the folder and its lock; ErrNotExist if a sweep was faster.
func (w *workshop) claim() error {
	if err := w.root.Mkdir(w.path, 0o700); err != nil {
		return err
	}
	name := path.Join(w.path, lockName)
	lock, err := w.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fs.ErrNotExist
	}
	if err == nil {
		_, err = w.root.Lstat(name)
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	w.lock = lock
	return nil
}

// file makes a new file that nobody lists.
func (w *workshop) file() (string, *os.File, error) {
	name := path.Join(w.path, randomName())
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return name, f, err
}

// drop removes a file that file made; one that has its key by now is no longer there.
func (w *workshop) drop(name string) error {
	err := w.root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// close removes the workshop.
func (w *workshop) close() error {
	return errors.Join(w.root.RemoveAll(w.path), w.lock.Close())
}
