package boltfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"millrace/actors/port"
)

var (
	testKind = Kind{Name: "test", Format: 1}
	bucket   = []byte("bucket")
)

func makeBucket(tx *bbolt.Tx) error {
	_, err := tx.CreateBucket(bucket)
	return err
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path, testKind, makeBucket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func put(f *File, key string) error {
	return f.Update(context.Background(), func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte(key), []byte("x")) })
}

func has(t *testing.T, f *File, key string) bool {
	t.Helper()
	found := false
	err := f.View(t.Context(), func(tx *bbolt.Tx) error {
		found = tx.Bucket(bucket).Get([]byte(key)) != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAFileIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	f, err := Open(path, testKind, makeBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(put(f, "a"), f.Close()); err != nil {
		t.Fatal(err)
	}
	f, err = Open(path, testKind, func(*bbolt.Tx) error { return errors.New("initialised twice") })
	if err != nil {
		t.Fatal(err)
	}
	if !has(t, f, "a") {
		t.Error("what was put is gone")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := put(f, "b"); err == nil {
		t.Error("a closed file takes writes")
	}
}

func TestACrashWhileTheFileIsMadeLeavesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path+".new", []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, path)
	if err := put(f, "a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
		t.Errorf("the half file is still there: %v", err)
	}
}

func TestAFailedStartLeavesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	broken := errors.New("broken")
	if _, err := Open(path, testKind, func(*bbolt.Tx) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("Open: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a file without content was left: %v", err)
	}
	openFile(t, path)
}

func TestForeignFilesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	f, err := Open(path, testKind, makeBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, testKind, makeBucket); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Errorf("open twice: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind Kind
		says string
	}{{Kind{"other", 1}, `holds "test", want "other"`}, {Kind{"test", 2}, "has format 1, this program knows 2"}} {
		if _, err := Open(path, c.kind, makeBucket); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open as %v: %v", c.kind, err)
		}
	}
	if err := os.WriteFile(path, []byte("not a database at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, testKind, makeBucket); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("Open of something else: %v", err)
	}
}

// damage makes a file of several pages, lets edit change its bytes, and opens it again.
func damage(t *testing.T, edit func([]byte) []byte) (*File, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	f, err := Open(path, testKind, makeBucket)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := put(f, strings.Repeat(string(rune('a'+i)), 3000)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(b), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err = Open(path, testKind, func(*bbolt.Tx) error { return errors.New("made anew") })
	return f, path, err
}

// use reads all there is and writes.
func use(f *File) error {
	return errors.Join(f.View(context.Background(), func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return b.ForEach(func([]byte, []byte) error { return nil }) })
	}), put(f, "z"), f.Close())
}

func isDamaged(err error, path string) bool {
	_, ok := errors.AsType[*DamagedError](err)
	return ok && strings.Contains(err.Error(), path+" is damaged: ") && strings.Contains(err.Error(), "restore it from a copy")
}

// Whatever stands in a page's header, it never ends the process.
func TestADamagedPageIsAnErrorAndStaysOne(t *testing.T) {
	found := 0
	for at := 2 * os.Getpagesize(); at < 8*os.Getpagesize(); at += os.Getpagesize() {
		for _, field := range []int{0, 8, 10, 12, 15} { // of id, flags, count and overflow
			f, path, err := damage(t, func(b []byte) []byte {
				if at < len(b) {
					b[at+field] ^= 0xff
				}
				return b
			})
			if err == nil {
				if err = use(f); err != nil && put(f, "y") == nil {
					t.Errorf("page at %d, byte %d: a damaged file takes writes", at, field)
				}
			}
			if err != nil {
				found++
				if !isDamaged(err, path) {
					t.Errorf("page at %d, byte %d: %v", at, field, err)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("%d damages were found", found)
	}
}

func TestAFileThatIsCutShortIsDamaged(t *testing.T) {
	for keep, says := range map[int]string{0: "it is empty", 100: "invalid", 2: ""} {
		f, path, err := damage(t, func(b []byte) []byte {
			if keep == 2 {
				return b[:2*os.Getpagesize()] // the pages that the newest transaction names are missing
			}
			return b[:keep]
		})
		if err == nil {
			err = use(f)
		}
		if !isDamaged(err, path) || !strings.Contains(err.Error(), says) {
			t.Errorf("cut to %d: %v", keep, err)
		}
	}
}

func TestAnErrorOfTheCallerUndoesAll(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "x.db"))
	err := f.Update(t.Context(), func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket(bucket).Put([]byte("a"), nil), port.Conflict)
	})
	if !errors.Is(err, port.Conflict) || has(t, f, "a") {
		t.Errorf("Update: %v, stored %v", err, has(t, f, "a"))
	}
}

func TestAContextThatEndedWhileWaiting(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "x.db"))
	ctx, cancel := context.WithCancel(t.Context())
	f.commit = func(run func(*bbolt.Tx) error) error {
		cancel() // as if the transaction before had taken that long
		return f.db.Update(run)
	}
	err := f.Update(ctx, func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte("a"), nil) })
	f.commit = f.db.Update
	if !errors.Is(err, context.Canceled) || has(t, f, "a") {
		t.Errorf("Update: %v, stored %v", err, has(t, f, "a"))
	}
}

// undone runs a transaction and then fails as bbolt does before it wrote the meta page.
func undone(f *File, cause error) func(func(*bbolt.Tx) error) error {
	return func(run func(*bbolt.Tx) error) error {
		return f.db.Update(func(tx *bbolt.Tx) error { return errors.Join(run(tx), cause) })
	}
}

// seen commits and then fails as bbolt does when the last sync failed.
func seen(f *File, cause error) func(func(*bbolt.Tx) error) error {
	return func(run func(*bbolt.Tx) error) error { return errors.Join(f.db.Update(run), cause) }
}

func TestACommitThatFailedChangedNothing(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "x.db"))
	for cause, class := range map[error]port.Class{syscall.ENOSPC: port.Full, syscall.EIO: port.Unavailable} {
		f.commit = undone(f, cause)
		err := put(f, "a")
		commit, ok := errors.AsType[*CommitError](err)
		if !ok || commit.Unknown || commit.Class() != class || !errors.Is(err, cause) {
			t.Errorf("put: %v, want class %q", err, class)
		}
	}
	if f.commit = f.db.Update; has(t, f, "a") {
		t.Error("it was stored")
	}
	if err := put(f, "b"); err != nil {
		t.Error(err)
	}
}

func TestACommitThatIsSeenIsUnknownUntilItIsSettled(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "x.db"))
	f.commit = seen(f, syscall.EIO)
	err := put(f, "a")
	if commit, ok := errors.AsType[*CommitError](err); !ok || !commit.Unknown || commit.Class() != port.UnknownOutcome {
		t.Fatalf("put: %v", err)
	}
	f.commit = undone(f, syscall.EIO)
	err = f.View(t.Context(), func(*bbolt.Tx) error {
		t.Error("what is not durable was read")
		return nil
	})
	if commit, ok := errors.AsType[*CommitError](err); !ok || commit.Unknown || commit.Class() != port.Unavailable {
		t.Errorf("View while the disk is broken: %v", err)
	}
	commits := 0
	f.commit = func(run func(*bbolt.Tx) error) error {
		commits++
		return f.db.Update(run)
	}
	if !has(t, f, "a") || commits != 1 {
		t.Errorf("stored %v, settled by %d commits", has(t, f, "a"), commits)
	}
	if !has(t, f, "a") || commits != 1 {
		t.Errorf("settled again: %d commits", commits)
	}
}

func TestUIDsDiffer(t *testing.T) {
	if a, b := NewUID(), NewUID(); a == b || a.IsZero() || b.IsZero() {
		t.Errorf("drew %s and %s", a, b)
	}
}
