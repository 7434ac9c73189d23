package disktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/actors/port"
)

// Run checks the disk that open returns, a fresh one for each part.
func Run(t *testing.T, open func(t *testing.T) port.Disk) {
	for _, part := range []struct {
		name string
		f    func(t *testing.T, d port.Disk)
	}{
		{"a new disk is empty", newDisk},
		{"files are listed in order", listed},
		{"a file exists once", createOnce},
		{"what is missing is not found", missing},
		{"names outside the rules are refused", names},
		{"bytes come back", readWrite},
		{"truncate cuts and extends with zeros", truncate},
		{"a removed file stays readable", removeOpen},
		{"a closed handle fails", closed},
		{"a handle for reading can't write", readOnly},
		{"a folder is removed with its files", removeFolder},
		{"a lease has one holder", leaseExclusive},
		{"a lease waits for its holder", leaseWaits},
		{"releasing twice gives nothing away", leaseReleasedTwice},
		{"a lease ends with its context", leaseEndsWithContext},
		{"handles are safe together", together},
	} {
		t.Run(part.name, func(t *testing.T) { part.f(t, open(t)) })
	}
}

// class fails the test unless err is a *port.DiskError of the class.
func class(t *testing.T, what string, err error, want port.Class) {
	t.Helper()
	if _, ok := errors.AsType[*port.DiskError](err); !ok || !errors.Is(err, want) || port.ClassOf(err) != want {
		t.Fatalf("%s: got error %v (%T), want a *DiskError of class %q", what, err, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lease takes a folder and gives it back when the test ends.
func lease(t *testing.T, d port.Disk, folder string) func() {
	t.Helper()
	release, err := d.Lease(t.Context(), folder)
	must(t, err)
	return release
}

// file makes a file that holds text.
func file(t *testing.T, d port.Disk, folder, name, text string) port.File {
	t.Helper()
	f, err := d.Create(folder, name)
	must(t, err)
	n, err := f.WriteAt([]byte(text), 0)
	must(t, err)
	if n != len(text) {
		t.Fatalf("WriteAt wrote %d of %d bytes without an error", n, len(text))
	}
	return f
}

func content(t *testing.T, f port.File) string {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); int64(n) != size || err != nil && !isEOF(err) {
		t.Fatalf("ReadAt of the whole file: %d of %d bytes, %v", n, size, err)
	}
	return string(b)
}

// isEOF recognises io.EOF itself, as io.ReaderAt demands it: io.ReadAll and its kin take
// one that is wrapped for a failure.
func isEOF(err error) bool { return errors.Is(err, io.EOF) && errors.Unwrap(err) == nil }

func newDisk(t *testing.T, d port.Disk) {
	folders, err := d.Folders()
	must(t, err)
	if len(folders) != 0 {
		t.Errorf("Folders of a new disk: %v", folders)
	}
	free, err := d.Free()
	must(t, err)
	if free <= 0 {
		t.Errorf("Free of a new disk: %d", free)
	}
}

func listed(t *testing.T, d port.Disk) {
	for _, folder := range []string{"b", "a", strings.Repeat("x", 255)} {
		lease(t, d, folder)()
	}
	for _, name := range []string{"2.segment", "10.segment", "1.index", "a-b_c=D"} {
		must(t, file(t, d, "a", name, name).Close())
	}
	must(t, d.SyncDir("a"))
	folders, err := d.Folders()
	must(t, err)
	if want := []string{"a", "b", strings.Repeat("x", 255)}; !slices.Equal(folders, want) {
		t.Errorf("Folders: got %v, want %v", folders, want)
	}
	files, err := d.List("a")
	must(t, err)
	want := []port.FileInfo{{Name: "1.index", Size: 7}, {Name: "10.segment", Size: 10}, {Name: "2.segment", Size: 9}, {Name: "a-b_c=D", Size: 7}}
	if !slices.Equal(files, want) {
		t.Errorf("List: got %v, want %v", files, want)
	}
	if files, err := d.List("none"); err != nil || len(files) != 0 {
		t.Errorf("List of a folder that does not exist: %v, %v", files, err)
	}
}

func createOnce(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	must(t, file(t, d, "a", "f", "old").Close())
	_, err := d.Create("a", "f")
	class(t, "Create of a file that exists", err, port.Exists)
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of a file that exists: %v is not fs.ErrExist", err)
	}
	f, err := d.Open("a", "f", false)
	must(t, err)
	if got := content(t, f); got != "old" {
		t.Errorf("a refused Create changed the file to %q", got)
	}
	must(t, f.Close())
}

func missing(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	_, err := d.Open("a", "f", true)
	class(t, "Open of a missing file", err, port.NotFound)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a missing file: %v is not fs.ErrNotExist", err)
	}
	_, err = d.Open("none", "f", false)
	class(t, "Open in a missing folder", err, port.NotFound)
	_, err = d.Create("none", "f")
	class(t, "Create in a missing folder", err, port.NotFound)
	class(t, "Remove of a missing file", d.Remove("a", "f"), port.NotFound)
	class(t, "Remove in a missing folder", d.Remove("none", "f"), port.NotFound)
	class(t, "SyncDir of a missing folder", d.SyncDir("none"), port.NotFound)
	must(t, d.RemoveFolder("none"))
}

func names(t *testing.T, d port.Disk) {
	release := lease(t, d, "a")
	defer release()
	for _, bad := range []string{"", ".", "..", ".hidden", "a/b", "/a", "a b", "ä", "a\x00", strings.Repeat("x", 256)} {
		_, err := d.Lease(t.Context(), bad)
		class(t, "Lease "+bad, err, port.Denied)
		_, err = d.Create("a", bad)
		class(t, "Create "+bad, err, port.Denied)
		_, err = d.Create(bad, "f")
		class(t, "Create in "+bad, err, port.Denied)
		_, err = d.Open("a", bad, false)
		class(t, "Open "+bad, err, port.Denied)
		_, err = d.List(bad)
		class(t, "List "+bad, err, port.Denied)
		class(t, "Remove "+bad, d.Remove("a", bad), port.Denied)
		class(t, "SyncDir "+bad, d.SyncDir(bad), port.Denied)
		class(t, "RemoveFolder "+bad, d.RemoveFolder(bad), port.Denied)
	}
}

func readWrite(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	f := file(t, d, "a", "f", "hello")
	_, err := f.WriteAt([]byte("world"), 8)
	must(t, err)
	_, err = f.WriteAt([]byte("J"), 0)
	must(t, err)
	_, err = f.WriteAt(nil, 100)
	must(t, err)
	if got := content(t, f); got != "Jello\x00\x00\x00world" {
		t.Errorf("content %q", got)
	}
	b := make([]byte, 4)
	if n, err := f.ReadAt(b, 11); n != 2 || !isEOF(err) || string(b[:n]) != "ld" {
		t.Errorf("ReadAt across the end: %d, %v, %q", n, err, b)
	}
	if n, err := f.ReadAt(b, 50); n != 0 || !isEOF(err) {
		t.Errorf("ReadAt after the end: %d, %v", n, err)
	}
	if n, err := f.ReadAt(b, 4); n != 4 || err != nil || !bytes.Equal(b, []byte("o\x00\x00\x00")) {
		t.Errorf("ReadAt inside: %d, %v, %q", n, err, b)
	}
	if _, err := f.WriteAt(b, -1); err == nil {
		t.Error("WriteAt at -1 succeeded")
	}
	if _, err := f.ReadAt(b, -1); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("ReadAt at -1: %v", err)
	}
	must(t, f.Sync())
	must(t, f.Close())
}

func truncate(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	f := file(t, d, "a", "f", "hello")
	must(t, f.Truncate(2))
	must(t, f.Truncate(4))
	if got := content(t, f); got != "he\x00\x00" {
		t.Errorf("content %q", got)
	}
	if err := f.Truncate(-1); err == nil {
		t.Error("Truncate to -1 succeeded")
	}
	must(t, f.Close())
}

func removeOpen(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	f := file(t, d, "a", "f", "hello")
	must(t, d.Remove("a", "f"))
	if got := content(t, f); got != "hello" {
		t.Errorf("content through the handle: %q", got)
	}
	g := file(t, d, "a", "f", "new")
	if content(t, f) != "hello" || content(t, g) != "new" {
		t.Error("a file that was created again shares bytes with the removed one")
	}
	must(t, f.Close())
	must(t, g.Close())
}

func closed(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	f := file(t, d, "a", "f", "hello")
	must(t, f.Close())
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.WriteAt([]byte("x"), 0)
	_, sizeErr := f.Size()
	for what, err := range map[string]error{"ReadAt": readErr, "WriteAt": writeErr, "Size": sizeErr,
		"Sync": f.Sync(), "Truncate": f.Truncate(0), "Close": f.Close()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close: %v, want fs.ErrClosed", what, err)
		}
	}
}

func readOnly(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	must(t, file(t, d, "a", "f", "hello").Close())
	f, err := d.Open("a", "f", false)
	must(t, err)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("WriteAt through a handle for reading succeeded")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("Truncate through a handle for reading succeeded")
	}
	must(t, f.Close())
	g, err := d.Open("a", "f", true)
	must(t, err)
	_, err = g.WriteAt([]byte("J"), 0)
	must(t, err)
	if got := content(t, g); got != "Jello" {
		t.Errorf("content %q", got)
	}
	must(t, g.Close())
}

func removeFolder(t *testing.T, d port.Disk) {
	release := lease(t, d, "a")
	lease(t, d, "ab")
	must(t, file(t, d, "a", "f", "hello").Close())
	must(t, d.RemoveFolder("a"))
	folders, err := d.Folders()
	must(t, err)
	if !slices.Equal(folders, []string{"ab"}) {
		t.Errorf("Folders after RemoveFolder: %v", folders)
	}
	release()
	lease(t, d, "a")
	files, err := d.List("a")
	must(t, err)
	if len(files) != 0 {
		t.Errorf("the folder came back with %v", files)
	}
	must(t, d.RemoveFolder("a"))
}

func leaseExclusive(t *testing.T, d port.Disk) {
	release := lease(t, d, "a")
	other := lease(t, d, "b") // another folder is another lease
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := d.Lease(ctx, "a")
	class(t, "Lease of a held folder", err, port.Timeout)
	release()
	lease(t, d, "a")()
	other()
}

func leaseWaits(t *testing.T, d port.Disk) {
	release := lease(t, d, "a")
	var order []string
	var mu sync.Mutex
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	done := make(chan error)
	go func() {
		next, err := d.Lease(t.Context(), "a")
		if err == nil {
			note("taken")
			next()
		}
		done <- err
	}()
	note("released")
	release()
	must(t, <-done)
	if !slices.Equal(order, []string{"released", "taken"}) {
		t.Errorf("order %v", order)
	}
}

func leaseReleasedTwice(t *testing.T, d port.Disk) {
	first := lease(t, d, "a")
	first()
	second := lease(t, d, "a")
	first()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := d.Lease(ctx, "a")
	class(t, "Lease after a former holder released again", err, port.Timeout)
	second()
}

func leaseEndsWithContext(t *testing.T, d port.Disk) {
	release := lease(t, d, "a")
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := d.Lease(ctx, "a")
		done <- err
	}()
	cancel()
	err := <-done
	class(t, "Lease whose context was cancelled", err, port.Timeout)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the cause is not told: %v", err)
	}
}

func together(t *testing.T, d port.Disk) {
	lease(t, d, "a")
	f := file(t, d, "a", "f", "")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := f.WriteAt(bytes.Repeat([]byte{byte('a' + i)}, 100), int64(i)*100); err != nil {
				t.Error(err)
			}
			if _, err := f.ReadAt(make([]byte, 100), int64(i)*100); err != nil && !isEOF(err) {
				t.Error(err)
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
			if _, err := d.List("a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := content(t, f)
	for i := range 8 {
		if part := got[i*100 : i*100+100]; part != strings.Repeat(string(rune('a'+i)), 100) {
			t.Errorf("part %d: %q", i, part)
		}
	}
	must(t, f.Close())
}
