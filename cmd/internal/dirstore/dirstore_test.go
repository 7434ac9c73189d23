package dirstore

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/actors/port"
	"millrace/test/porttest/storetest"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) port.ObjectStore { return openStore(t, t.TempDir()) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(s *Store, key string, body io.ReadSeeker, text string) error {
	sum := crc32.Checksum([]byte(text), castagnoli)
	return s.Put(context.Background(), key, port.NewBody(body, sum), int64(len(text)), false)
}

func keys(t *testing.T, s *Store) string {
	t.Helper()
	page, _, err := s.List(t.Context(), "", "", 0)
	must(t, err)
	all := ""
	for _, o := range page {
		all += o.Key + " "
	}
	return all
}

// files counts what lies in .tmp, locks aside.
func files(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, tmp, "*", "*"))
	must(t, err)
	n := 0
	for _, path := range found {
		if filepath.Base(path) != lockName {
			n++
		}
	}
	return n
}

// deadly is a body that kills the process when all of it was read: after the bytes
// are written, before the object gets its key.
type deadly struct{ io.ReadSeeker }

func (d deadly) Read(p []byte) (int, error) {
	n, err := d.ReadSeeker.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), errors.New("survived SIGKILL"))
	}
	return n, err
}

func TestKilledBetweenWriteAndRename(t *testing.T) {
	const env = "DIRSTORE_KILLED_IN"
	if dir := os.Getenv(env); dir != "" {
		s, err := Open(dir)
		must(t, err)
		must(t, put(s, "p/whole", strings.NewReader("x"), "x"))
		t.Fatal(put(s, "p/half", deadly{strings.NewReader("hello")}, "hello"))
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"="+dir)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v:\n%s", err, out)
	}
	if n := files(t, dir); n != 1 {
		t.Fatalf("the process left %d files: it died elsewhere", n)
	}
	s := openStore(t, dir)
	if got := keys(t, s); got != "p/whole " {
		t.Errorf("listed %q", got)
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files are left after the sweep", n)
	}
}

func TestASweepTakesNothingFromTheLiving(t *testing.T) {
	dir := t.TempDir()
	a := openStore(t, dir)
	name, f, err := a.work.file()
	must(t, err)
	must(t, f.Close())
	must(t, os.WriteFile(filepath.Join(dir, tmp, "litter"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, tmp, "never-locked"), 0o700))
	b := openStore(t, dir)
	if _, err := a.root.Lstat(name); err != nil {
		t.Errorf("the neighbour's file is gone: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, tmp))
	must(t, err)
	if len(entries) != 2 {
		t.Errorf("left in %s: %v, want two workshops", tmp, entries)
	}
	must(t, put(a, "p/a", strings.NewReader("x"), "x"))
	must(t, put(b, "q/b", strings.NewReader("x"), "x"))
	if keys(t, a) != "p/a q/b " || keys(t, b) != "p/a q/b " {
		t.Errorf("a lists %q, b lists %q", keys(t, a), keys(t, b))
	}
}

// unsummed is a body that never knows its checksum.
type unsummed struct{ *strings.Reader }

func (u unsummed) Rewind() error {
	_, err := u.Seek(0, io.SeekStart)
	return err
}

func (unsummed) Sum() (uint32, bool) { return crc32.Checksum([]byte("hello"), castagnoli), false }

// What nobody vouches for is not stored, whatever its bytes.
func TestABodyWithoutAChecksumIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	err := s.Put(t.Context(), "p/a", unsummed{strings.NewReader("hello")}, 5, false)
	if port.ClassOf(err) != port.Checksum {
		t.Errorf("got %v", err)
	}
	if got := keys(t, s); got != "" || files(t, dir) != 0 {
		t.Errorf("stored %q, %d files are left", got, files(t, dir))
	}
}

func TestPutsLeaveNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	must(t, put(s, "a", strings.NewReader("x"), "x"))
	must(t, s.Probe(t.Context()))
	sum := crc32.Checksum([]byte("x"), castagnoli)
	must(t, s.Put(t.Context(), "b", port.NewBody(strings.NewReader("x"), sum), 1, true))
	for _, absent := range []bool{true, false} {
		if err := s.Put(t.Context(), "b/c", port.NewBody(strings.NewReader("x"), sum), 1, absent); port.ClassOf(err) != port.Denied {
			t.Errorf("an object below an object: %v", err)
		}
	}
	if err := put(s, "c", strings.NewReader("y"), "x"); port.ClassOf(err) != port.Checksum {
		t.Errorf("Put: %v", err)
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d temporary files are left", n)
	}
}

func TestAnObjectMayBecomeAFolder(t *testing.T) {
	s := openStore(t, t.TempDir())
	must(t, put(s, "a", strings.NewReader("x"), "x"))
	if err := put(s, "a/b", strings.NewReader("x"), "x"); port.ClassOf(err) != port.Denied || !strings.Contains(err.Error(), "a is an object") {
		t.Fatalf("Put: %v", err)
	}
	failed, err := s.Delete(t.Context(), []string{"a"})
	if err != nil || len(failed) != 0 {
		t.Fatalf("Delete: %v, %v", failed, err)
	}
	must(t, put(s, "a/b", strings.NewReader("x"), "x"))
	if err := put(s, "a", strings.NewReader("x"), "x"); err == nil {
		t.Error("an object took the place of a folder")
	}
	if got := keys(t, s); got != "a/b " {
		t.Errorf("listed %q", got)
	}
}

func TestEmptyFoldersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	must(t, put(s, "p/q/r/a", strings.NewReader("x"), "x"))
	must(t, put(s, "p/b", strings.NewReader("x"), "x"))
	if _, err := s.Delete(t.Context(), []string{"p/q/r/a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "p/q")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("p/q is still there: %v", err)
	}
	if got := keys(t, s); got != "p/b " {
		t.Errorf("listed %q", got)
	}
}

func TestFoldersThatAnOperatorRemovedComeBack(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	for _, absent := range []bool{false, true} {
		must(t, put(s, "p/q/a", strings.NewReader("x"), "x"))
		must(t, os.RemoveAll(filepath.Join(dir, "p")))
		must(t, s.Put(t.Context(), "p/q/b", port.NewBody(strings.NewReader(""), 0), 0, absent))
		if got := keys(t, s); got != "p/q/b " {
			t.Errorf("listed %q", got)
		}
	}
}

func TestNoWayOut(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := openStore(t, dir)
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	if b, err := s.Get(t.Context(), "link/secret"); err == nil {
		t.Errorf("read %q through a link that leads out", b)
	}
	if err := put(s, "link/new", strings.NewReader("x"), "x"); err == nil {
		t.Error("wrote through a link that leads out")
	}
	if got := keys(t, s); got != "" {
		t.Errorf("listed %q", got)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for errno, want := range map[syscall.Errno]port.Class{syscall.ENOSPC: port.Full, syscall.EDQUOT: port.Full,
		syscall.EACCES: port.Denied, syscall.EROFS: port.Denied, syscall.EIO: port.Unavailable, syscall.ESTALE: port.Unavailable,
		syscall.ENOENT: port.NotFound} {
		err := storeError("put", "a", &fs.PathError{Op: "write", Path: "a", Err: errno})
		if port.ClassOf(err) != want || !errors.Is(err, errno) {
			t.Errorf("%v is classed %q, want %q", err, port.ClassOf(err), want)
		}
	}
}

func TestAContextThatEndsDuringAPut(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	text := strings.Repeat("x", 3*block)
	body := cancelling{strings.NewReader(text), cancel}
	err := s.Put(ctx, "a", port.NewBody(body, crc32.Checksum([]byte(text), castagnoli)), int64(len(text)), false)
	if port.ClassOf(err) != port.Timeout {
		t.Errorf("Put: %v", err)
	}
	if keys(t, s) != "" || files(t, dir) != 0 {
		t.Errorf("listed %q, %d temporary files", keys(t, s), files(t, dir))
	}
}

// cancelling ends its reader's context with the first bytes.
type cancelling struct {
	io.ReadSeeker
	cancel func()
}

func (c cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.ReadSeeker.Read(p)
}

// Nothing is written into a folder that was moved away, nor into one that stands in its
// place: a mount point without its disk.
func TestAFolderThatIsNotInItsPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	put := func(key string) error {
		return s.Put(t.Context(), key, port.NewBody(strings.NewReader("x"), crc32.Checksum([]byte("x"), castagnoli)), 1, false)
	}
	must(t, put("p/a"))
	must(t, os.Rename(dir, dir+".away"))
	refused := func(what string) {
		t.Helper()
		_, get := s.Get(t.Context(), "p/a")
		_, _, list := s.List(t.Context(), "p/", "", 0)
		_, del := s.Delete(t.Context(), []string{"p/a"})
		for op, err := range map[string]error{"put": put("p/b"), "get": get, "list": list, "delete": del, "probe": s.Probe(t.Context())} {
			if port.ClassOf(err) != port.Unavailable || !strings.Contains(err.Error(), "put it back") {
				t.Errorf("%s: %s: %v", what, op, err)
			}
		}
	}
	refused("moved")
	must(t, os.Mkdir(dir, 0o700))
	refused("another one")
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+".away", dir))
	must(t, put("p/b"))
	if keys, _, err := s.List(t.Context(), "p/", "", 0); err != nil || len(keys) != 2 {
		t.Fatalf("%v, %v", keys, err)
	}
}
