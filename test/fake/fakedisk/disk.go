package fakedisk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"sync"

	"millrace/actors/port"
)

// Disk is a port.Disk in memory. The zero value is not usable: New makes one.
//
// The hooks are set before the disk is used. op is the method's name in lower case
// ("create", "writeat"), what is "folder/name", "folder" or "". Fault is asked before
// an operation and, if it answers an error, instead of it: a failed "sync" also
// forgets what was not synced, as a kernel does. After is asked when the operation
// has taken effect; its error is returned all the same. An error that is a port.Class
// or an errno is wrapped as the port demands.
type Disk struct {
	Fault func(op, what string) error
	After func(op, what string) error

	mu       sync.Mutex
	folders  map[string]*folder
	leases   map[string]chan struct{}
	capacity int64
	dead     bool // cloned: everything fails from now on
}

// New returns an empty disk with room without end.
func New() *Disk {
	return &Disk{folders: map[string]*folder{}, leases: map[string]chan struct{}{}, capacity: math.MaxInt64}
}

// SetCapacity sets how many bytes fit on the disk in all; what is there already stays.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// do runs one operation between its hooks, with the lock held.
func (d *Disk) do(op, what string, f func() error) error {
	if d.Fault != nil {
		if err := d.Fault(op, what); err != nil {
			return diskError(op, what, err)
		}
	}
	if err := d.locked(f); err != nil {
		return diskError(op, what, err)
	}
	if d.After != nil {
		if err := d.After(op, what); err != nil {
			return diskError(op, what, err)
		}
	}
	return nil
}

func (d *Disk) locked(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return fmt.Errorf("this disk was cloned, its process is dead: %w", fs.ErrClosed)
	}
	return f()
}

// diskError gives err the shape the port demands. What already has it stays.
func diskError(op, what string, err error) error {
	if _, ok := errors.AsType[*port.DiskError](err); ok {
		return err
	}
	return &port.DiskError{Op: op, Name: what, Class: port.ClassOf(err), Err: err}
}

// checkNames refuses what could be another folder or a hidden file.
func checkNames(names ...string) error {
	for _, name := range names {
		if err := port.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// Folders implements port.Disk.
func (d *Disk) Folders() ([]string, error) {
	var names []string
	err := d.do("folders", "", func() error {
		names = slices.Sorted(maps.Keys(d.folders))
		return nil
	})
	return names, err
}

// Lease implements port.Disk.
func (d *Disk) Lease(ctx context.Context, name string) (func(), error) {
	if err := checkNames(name); err != nil {
		return nil, diskError("lease", name, err)
	}
	held := d.leaseOf(name)
	select {
	case held <- struct{}{}:
	case <-ctx.Done():
		why := fmt.Errorf("another holder did not release the folder: %w", context.Cause(ctx))
		return nil, &port.DiskError{Op: "lease", Name: name, Class: port.Timeout, Err: why}
	}
	release := sync.OnceFunc(func() { <-held })
	err := d.do("lease", name, func() error {
		if d.folders[name] == nil {
			d.folders[name] = newFolder()
		}
		return nil
	})
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// leaseOf returns the channel whose one place is the lease of a folder.
func (d *Disk) leaseOf(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leases[name] == nil {
		d.leases[name] = make(chan struct{}, 1)
	}
	return d.leases[name]
}

// List implements port.Disk.
func (d *Disk) List(name string) ([]port.FileInfo, error) {
	if err := checkNames(name); err != nil {
		return nil, diskError("list", name, err)
	}
	var infos []port.FileInfo
	err := d.do("list", name, func() error {
		f := d.folders[name]
		if f == nil {
			return nil
		}
		for _, file := range slices.Sorted(maps.Keys(f.entries)) {
			infos = append(infos, port.FileInfo{Name: file, Size: int64(len(f.entries[file].content))})
		}
		return nil
	})
	return infos, err
}

// Create implements port.Disk.
func (d *Disk) Create(dir, name string) (port.File, error) {
	return d.open("create", dir, name, true, func(f *folder) error {
		if f.entries[name] != nil {
			return fs.ErrExist
		}
		f.link(name, &node{})
		return nil
	})
}

// Open implements port.Disk.
func (d *Disk) Open(dir, name string, write bool) (port.File, error) {
	return d.open("open", dir, name, write, func(*folder) error { return nil })
}

func (d *Disk) open(op, dir, name string, write bool, prepare func(*folder) error) (port.File, error) {
	what := dir + "/" + name
	if err := checkNames(dir, name); err != nil {
		return nil, diskError(op, what, err)
	}
	h := &handle{disk: d, what: what, write: write}
	err := d.do(op, what, func() error {
		f := d.folders[dir]
		if f == nil {
			return fmt.Errorf("no such folder: %w", fs.ErrNotExist)
		}
		if err := prepare(f); err != nil {
			return err
		}
		if h.node = f.entries[name]; h.node == nil {
			return fs.ErrNotExist
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Remove implements port.Disk.
func (d *Disk) Remove(folder, name string) error {
	what := folder + "/" + name
	if err := checkNames(folder, name); err != nil {
		return diskError("remove", what, err)
	}
	return d.do("remove", what, func() error {
		f := d.folders[folder]
		if f == nil || f.entries[name] == nil {
			return fs.ErrNotExist
		}
		f.unlink(name)
		return nil
	})
}

// SyncDir implements port.Disk.
func (d *Disk) SyncDir(folder string) error {
	if err := checkNames(folder); err != nil {
		return diskError("syncdir", folder, err)
	}
	return d.do("syncdir", folder, func() error {
		f := d.folders[folder]
		if f == nil {
			return fs.ErrNotExist
		}
		f.sync()
		return nil
	})
}

// RemoveFolder implements port.Disk.
func (d *Disk) RemoveFolder(folder string) error {
	if err := checkNames(folder); err != nil {
		return diskError("removefolder", folder, err)
	}
	return d.do("removefolder", folder, func() error {
		delete(d.folders, folder)
		return nil
	})
}

// Free implements port.Disk.
func (d *Disk) Free() (int64, error) {
	var free int64
	err := d.do("free", "", func() error {
		free = d.room()
		return nil
	})
	return free, err
}

// room is how many bytes still fit; the lock is held.
func (d *Disk) room() int64 {
	room := d.capacity
	for _, f := range d.folders {
		for _, n := range f.entries {
			room -= int64(len(n.content))
		}
	}
	return max(room, 0)
}
