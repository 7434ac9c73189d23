package port

import (
	"context"
	"fmt"
)

// FileInfo is one file of a folder.
type FileInfo struct {
	Name string // without its folder
	Size int64  // bytes
}

// DiskError is a failed operation of Disk, File or NodeState. Classes: NotFound,
// Exists, Denied, Full, Timeout (Lease and NodeState), Unavailable (NodeState),
// UnknownOutcome and Conflict (NodeState) and Unclassified for everything else.
// What the operating system said stays reachable through errors.Is.
type DiskError struct {
	Op    string // the method, for example "create"
	Name  string // "folder", "folder/name" or "" where the whole disk is meant
	Class Class
	Err   error
}

// Error says what failed on what and why.
func (e *DiskError) Error() string { return "disk: " + describe(e.Op, e.Name, e.Class, e.Err) }

// Unwrap returns the cause.
func (e *DiskError) Unwrap() error { return e.Err }

// Is matches the error's class.
func (e *DiskError) Is(target error) bool { return target == error(e.Class) }

func (e *DiskError) portClass() Class { return e.Class }

// Disk is where the local logs lie: one level of folders, one per stream, and files
// in them. A name of a folder or file is 1 to 255 bytes of A-Z a-z 0-9 . _ - =, and
// does not begin with a dot; others are refused with class Denied.
//
// # What survives
//
// The end of this process (kill -9) costs nothing that a method had reported done.
// A power loss costs everything but this: the bytes of a file up to its last
// successful Sync, and the entries of a folder (which names there are) up to its
// last successful SyncDir. Of what came later any part may survive, also a torn one.
// Whoever creates a file that must be found again syncs the file, then the folder.
//
// A full disk is class Full, and nothing else than the room changes by it, but a
// WriteAt may have written a part (it says how much).
type Disk interface {
	// Folders lists the folders in lexical order.
	Folders() ([]string, error)

	// Lease makes the caller the folder's only holder in this process, and creates the
	// folder, durably, if it isn't there. It waits for the former holder until ctx ends
	// (class Timeout). release gives the lease back; calling it again does nothing.
	// Nothing checks that whoever writes holds the lease: it is an agreement of those
	// who do. A reader needs none.
	Lease(ctx context.Context, folder string) (release func(), err error)

	// List lists the files of a folder in lexical order. A folder that does not exist
	// has none.
	List(folder string) ([]FileInfo, error)

	// Create makes an empty file and opens it for reading and writing. Class Exists if
	// there is one, class NotFound if there is no such folder. Durable after SyncDir.
	Create(folder, name string) (File, error)

	// Open opens an existing file for reading, with write also for writing. Class
	// NotFound (and fs.ErrNotExist) if there is none.
	Open(folder, name string, write bool) (File, error)

	// Remove takes a file out of its folder; class NotFound if there is none. Files that
	// are open stay readable through their handles. Durable after SyncDir.
	Remove(folder, name string) error

	// SyncDir makes the entries of the folder durable. Class NotFound without folder.
	SyncDir(folder string) error

	// RemoveFolder removes a folder and all that is in it, durably. One that does not
	// exist is no error. After a failure a part of the files may be gone.
	RemoveFolder(folder string) error

	// Free returns how many bytes can still be written.
	Free() (bytes int64, err error)
}

// File is an open file of a Disk. Methods may be called at the same time; two writes
// that overlap leave either's bytes. After Close every method fails with fs.ErrClosed.
type File interface {
	// ReadAt follows io.ReaderAt: fewer bytes than len(p) come with io.EOF or an error.
	ReadAt(p []byte, off int64) (int, error)

	// WriteAt follows io.WriterAt and extends the file as needed; a gap reads as zeros.
	// Class Full tells a disk without room; n bytes were written nevertheless.
	WriteAt(p []byte, off int64) (int, error)

	// Truncate cuts the file or extends it with zeros. Durable after Sync.
	Truncate(size int64) error

	// Sync makes the bytes and the size durable. After a failure it is not known which
	// bytes are, and a later success does not tell either: the operating system has
	// forgotten what it could not write. So never retry; write the bytes again.
	Sync() error

	// Size returns the size in bytes.
	Size() (int64, error)

	// Close gives the handle back. It makes nothing durable.
	Close() error
}

// CheckName reports why name can't be that of a folder or file of a Disk; the error
// has class Denied.
func CheckName(name string) error {
	if name == "" || len(name) > 255 || name[0] == '.' {
		return fmt.Errorf("name %q: want 1 to 255 bytes that do not begin with a dot: %w", name, Denied)
	}
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '=' || c == '.' {
			continue
		}
		return fmt.Errorf("name %q: byte %d is not one of A-Z a-z 0-9 . _ - =: %w", name, i, Denied)
	}
	return nil
}
