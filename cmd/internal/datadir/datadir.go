package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dir is a locked data folder.
type Dir struct {
	path string
	lock *os.File
}

// InUseError says that another process holds the folder.
type InUseError struct {
	Path string
	PID  int // 0 if it has not written it yet
}

// Error says who holds it and what to do.
func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("data folder %s is in use by %s: stop that node, or give this one another data_dir", e.Path, who)
}

// Open makes the folder and its subfolders if they are not there, durably, and locks
// it. *InUseError if another process holds it.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := makeFolder(path); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	d := &Dir{path: path, lock: file}
	if err := d.take(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := makeFolder(d.Streams()); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder: %w", err), d.Close())
	}
	return d, nil
}

// take locks the lock file and writes our pid into it.
func (d *Dir) take() error {
	err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &InUseError{Path: d.path, PID: d.holder()}
	}
	if err != nil {
		return fmt.Errorf("data folder: lock %s: %w", d.lock.Name(), err)
	}
	if err := d.lock.Truncate(0); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if _, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// holder is the pid in the lock file; 0 if there is none (yet).
func (d *Dir) holder() int {
	b := make([]byte, 32)
	n, err := d.lock.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// makeFolder makes a folder that only we can enter, durably, and its parents.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolder(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return errors.Join(err, &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR})
		}
		return nil
	}
	if err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// File returns the path of a file directly in the folder.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Streams returns the folder of the stream folders.
func (d *Dir) Streams() string { return d.File("streams") }

// Close unlocks the folder. Close what uses it first.
func (d *Dir) Close() error { return d.lock.Close() }
