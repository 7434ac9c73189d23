package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"millrace/actors/port"
)

// removing is the folder into which RemoveFolder moves what it is going to remove.
const removing = ".removing"

// Disk is a port.Disk on a folder of the operating system.
type Disk struct {
	root string

	mu     sync.Mutex
	leases map[string]chan struct{} // each has one place: the lease
}

// Open returns the disk whose folders lie in root, which exists, and finishes the
// removals that a former process had begun.
func Open(root string) (*Disk, error) {
	hidden := filepath.Join(root, removing)
	if err := errors.Join(os.RemoveAll(hidden), os.Mkdir(hidden, 0o700)); err != nil {
		return nil, diskError("open", root, err)
	}
	return &Disk{root: root, leases: map[string]chan struct{}{}}, nil
}

// diskError gives err the shape the port demands.
func diskError(op, what string, err error) error {
	if err == nil {
		return nil
	}
	return &port.DiskError{Op: op, Name: what, Class: port.ClassOf(err), Err: err}
}

// path returns where a folder or file lies, or why its name is refused.
func (d *Disk) path(names ...string) (string, error) {
	path := d.root
	for _, name := range names {
		if err := port.CheckName(name); err != nil {
			return "", err
		}
		path = filepath.Join(path, name)
	}
	return path, nil
}

// Folders implements port.Disk.
func (d *Disk) Folders() ([]string, error) {
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return nil, diskError("folders", "", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && port.CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Lease implements port.Disk.
func (d *Disk) Lease(ctx context.Context, folder string) (func(), error) {
	path, err := d.path(folder)
	if err != nil {
		return nil, diskError("lease", folder, err)
	}
	held := d.leaseOf(folder)
	select {
	case held <- struct{}{}:
	case <-ctx.Done():
		why := fmt.Errorf("another holder did not release the folder: %w", context.Cause(ctx))
		return nil, &port.DiskError{Op: "lease", Name: folder, Class: port.Timeout, Err: why}
	}
	release := sync.OnceFunc(func() { <-held })
	if err := d.makeFolder(path); err != nil {
		release()
		return nil, diskError("lease", folder, err)
	}
	return release, nil
}

// makeFolder syncs also for a folder that is there: who made it may have been killed
// before its own sync.
func (d *Disk) makeFolder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(d.root)
}

func (d *Disk) leaseOf(folder string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leases[folder] == nil {
		d.leases[folder] = make(chan struct{}, 1)
	}
	return d.leases[folder]
}

// List implements port.Disk.
func (d *Disk) List(folder string) ([]port.FileInfo, error) {
	path, err := d.path(folder)
	if err != nil {
		return nil, diskError("list", folder, err)
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diskError("list", folder, err)
	}
	var files []port.FileInfo
	for _, e := range entries {
		if !e.Type().IsRegular() || port.CheckName(e.Name()) != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the folder was read
		}
		if err != nil {
			return nil, diskError("list", folder, err)
		}
		files = append(files, port.FileInfo{Name: e.Name(), Size: info.Size()})
	}
	return files, nil
}

// Create implements port.Disk.
func (d *Disk) Create(folder, name string) (port.File, error) {
	return d.open("create", folder, name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements port.Disk.
func (d *Disk) Open(folder, name string, write bool) (port.File, error) {
	if write {
		return d.open("open", folder, name, os.O_RDWR)
	}
	return d.open("open", folder, name, os.O_RDONLY)
}

func (d *Disk) open(op, folder, name string, flag int) (port.File, error) {
	what := folder + "/" + name
	path, err := d.path(folder, name)
	if err != nil {
		return nil, diskError(op, what, err)
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, diskError(op, what, err)
	}
	return &file{os: f, what: what}, nil
}

// Remove implements port.Disk.
func (d *Disk) Remove(folder, name string) error {
	path, err := d.path(folder, name)
	if err == nil {
		err = os.Remove(path)
	}
	return diskError("remove", folder+"/"+name, err)
}

// SyncDir implements port.Disk.
func (d *Disk) SyncDir(folder string) error {
	path, err := d.path(folder)
	if err == nil {
		err = syncFolder(path)
	}
	return diskError("sync folder", folder, err)
}

// RemoveFolder implements port.Disk.
func (d *Disk) RemoveFolder(folder string) error {
	path, err := d.path(folder)
	if err == nil {
		err = d.removeFolder(path, filepath.Join(d.root, removing, folder))
	}
	return diskError("remove folder", folder, err)
}

func (d *Disk) removeFolder(path, hidden string) error {
	// What an earlier call left behind would be in the way of the rename.
	if err := os.RemoveAll(hidden); err != nil {
		return err
	}
	err := os.Rename(path, hidden)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncFolder(d.root); err != nil {
		return err
	}
	return os.RemoveAll(hidden)
}

// Free implements port.Disk.
func (d *Disk) Free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.root, &s); err != nil {
		return 0, diskError("free", "", err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

var _ port.Disk = (*Disk)(nil)
