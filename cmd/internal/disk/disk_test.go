package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/actors/port"
	"millrace/test/porttest/disktest"
)

func openDisk(t *testing.T, root string) *Disk {
	t.Helper()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestContract(t *testing.T) {
	disktest.Run(t, func(t *testing.T) port.Disk { return openDisk(t, t.TempDir()) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestARemovalThatWasCutOffIsFinished(t *testing.T) {
	root := t.TempDir()
	openDisk(t, root)
	half := filepath.Join(root, removing, "s1")
	must(t, os.MkdirAll(half, 0o700))
	must(t, os.WriteFile(filepath.Join(half, "0.segment"), []byte("x"), 0o600))
	d := openDisk(t, root)
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the half is still there: %v", err)
	}
	folders, err := d.Folders()
	must(t, err)
	if len(folders) != 0 {
		t.Errorf("Folders: %v", folders)
	}
}

func TestTheLongestNameCanBeRemoved(t *testing.T) {
	d := openDisk(t, t.TempDir())
	name := strings.Repeat("x", 255)
	for range 2 {
		release, err := d.Lease(t.Context(), name)
		must(t, err)
		f, err := d.Create(name, name)
		must(t, err)
		must(t, f.Close())
		must(t, d.RemoveFolder(name))
		release()
	}
}

func TestOthersCannotRead(t *testing.T) {
	root := t.TempDir()
	d := openDisk(t, root)
	_, err := d.Lease(t.Context(), "s1")
	must(t, err)
	f, err := d.Create("s1", "0.segment")
	must(t, err)
	must(t, f.Close())
	for path, want := range map[string]fs.FileMode{"s1": 0o700, "s1/0.segment": 0o600} {
		info, err := os.Stat(filepath.Join(root, path))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
	}
}

func TestStrangeEntriesAreNotOurs(t *testing.T) {
	root := t.TempDir()
	d := openDisk(t, root)
	_, err := d.Lease(t.Context(), "s1")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, "lost+found"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(root, "s1", "folder"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "s1", ".hidden"), nil, 0o600))
	folders, err := d.Folders()
	must(t, err)
	files, err := d.List("s1")
	must(t, err)
	if len(folders) != 1 || len(files) != 0 {
		t.Errorf("folders %v, files %v", folders, files)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for errno, want := range map[syscall.Errno]port.Class{syscall.ENOSPC: port.Full, syscall.EDQUOT: port.Full,
		syscall.EACCES: port.Denied, syscall.EIO: port.Unclassified, syscall.ENOENT: port.NotFound} {
		err := diskError("write", "a/f", &fs.PathError{Op: "write", Path: "f", Err: errno})
		if port.ClassOf(err) != want || !errors.Is(err, errno) {
			t.Errorf("%v is classed %q, want %q", err, port.ClassOf(err), want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); port.ClassOf(err) != port.NotFound {
		t.Errorf("Open of a missing root: %v", err)
	}
}

// TestAFullDeviceIsFull writes to the kernel's own full disk.
func TestAFullDeviceIsFull(t *testing.T) {
	root := t.TempDir()
	d := openDisk(t, root)
	must(t, os.Mkdir(filepath.Join(root, "s1"), 0o700))
	must(t, os.Symlink("/dev/full", filepath.Join(root, "s1", "f")))
	f, err := d.Open("s1", "f", true)
	must(t, err)
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, port.Full) {
		t.Errorf("WriteAt: %v", err)
	}
	must(t, f.Close())
}
