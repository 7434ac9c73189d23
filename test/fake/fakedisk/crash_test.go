package fakedisk

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"millrace/actors/port"
)

// tester is what *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withFile returns a disk whose folder "a" holds the file "f", both durable.
func withFile(t *testing.T, text string) (*Disk, port.File) {
	t.Helper()
	d := New()
	_, err := d.Lease(t.Context(), "a")
	must(t, err)
	f := create(t, d, "f", text)
	must(t, f.Sync())
	must(t, d.SyncDir("a"))
	return d, f
}

func create(t tester, d *Disk, name, text string) port.File {
	t.Helper()
	f, err := d.Create("a", name)
	must(t, err)
	write(t, f, text, 0)
	return f
}

func write(t tester, f port.File, text string, off int64) {
	t.Helper()
	_, err := f.WriteAt([]byte(text), off)
	must(t, err)
}

// read returns the content of a file of folder "a", or "none".
func read(t tester, d *Disk, name string) string {
	t.Helper()
	f, err := d.Open("a", name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return "none"
	}
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		must(t, err)
	}
	return string(b)
}

func TestPowerLossKeepsWhatWasSynced(t *testing.T) {
	d, f := withFile(t, "synced")
	write(t, f, " and not", 6)
	after := d.CrashClone(nil)
	if got := read(t, after, "f"); got != "synced" {
		t.Errorf("content %q", got)
	}
}

func TestPowerLossTearsTheLastWrite(t *testing.T) {
	for kept, want := range []string{"synced", "syncedA", "syncedAB", "syncedABC", "XyncedABC", "XYncedABC", "XYnc", "XYncZ"} {
		d, f := withFile(t, "synced")
		write(t, f, "ABC", 6)
		write(t, f, "XY", 0)
		must(t, f.Truncate(4))
		write(t, f, "Z", 4)
		var asked []int
		after := d.CrashClone(func(unsynced int) int {
			asked = append(asked, unsynced)
			return kept
		})
		if got := read(t, after, "f"); got != want {
			t.Errorf("%d kept: content %q, want %q", kept, got, want)
		}
		if !slices.Equal(asked, []int{7}) {
			t.Errorf("asked %v", asked)
		}
	}
}

func TestPowerLossForgetsNamesThatWereNotSynced(t *testing.T) {
	d, _ := withFile(t, "old")
	g := create(t, d, "g", "new")
	must(t, g.Sync())
	must(t, d.Remove("a", "f"))
	if d := d.KillClone().CrashClone(nil); read(t, d, "f") != "old" || read(t, d, "g") != "none" {
		t.Errorf("f %q, g %q", read(t, d, "f"), read(t, d, "g"))
	}
}

func TestPowerLossKeepsAPrefixOfTheNames(t *testing.T) {
	for kept, want := range []string{"old none", "old new", "none new"} {
		d, _ := withFile(t, "old")
		must(t, create(t, d, "g", "new").Sync())
		must(t, d.Remove("a", "f"))
		after := d.CrashClone(func(int) int { return kept })
		if got := read(t, after, "f") + " " + read(t, after, "g"); got != want {
			t.Errorf("%d kept: %q, want %q", kept, got, want)
		}
	}
}

func TestANameThatWasSyncedWithoutItsBytesIsEmpty(t *testing.T) {
	d, _ := withFile(t, "old")
	create(t, d, "g", "new")
	must(t, d.SyncDir("a"))
	if got := read(t, d.CrashClone(nil), "g"); got != "" {
		t.Errorf("content %q", got)
	}
}

func TestAFailedSyncForgetsItsBytesForGood(t *testing.T) {
	d, f := withFile(t, "1")
	broken := true
	d.Fault = func(op, _ string) error {
		if op == "sync" && broken {
			return syscall.EIO
		}
		return nil
	}
	write(t, f, "2", 1)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync: %v", err)
	}
	broken = false
	write(t, f, "3", 2)
	must(t, f.Sync())
	if got := read(t, d, "f"); got != "123" {
		t.Errorf("before the power loss: %q", got)
	}
	if got := read(t, d.CrashClone(nil), "f"); got != "1\x003" {
		t.Errorf("after it: %q", got)
	}
}

func TestPageCloneKeepsTheChosenPages(t *testing.T) {
	d, f := withFile(t, strings.Repeat("o", 5000))
	write(t, f, strings.Repeat("n", 3*pageSize+1), 0)
	after := d.PageClone(func(page int) bool { return page == 2 })
	want := strings.Repeat("o", 5000) + strings.Repeat("\x00", 2*pageSize-5000) + strings.Repeat("n", pageSize) + "\x00"
	if got := read(t, after, "f"); got != want {
		t.Errorf("content has %d bytes, want %d, or differs", len(got), len(want))
	}
}

func TestKillKeepsEverythingWritten(t *testing.T) {
	d, f := withFile(t, "synced")
	write(t, f, " and not", 6)
	create(t, d, "g", "new")
	after := d.KillClone()
	if read(t, after, "f") != "synced and not" || read(t, after, "g") != "new" {
		t.Errorf("f %q, g %q", read(t, after, "f"), read(t, after, "g"))
	}
	if got := read(t, after.CrashClone(nil), "f"); got != "synced" {
		t.Errorf("after a power loss as well: %q", got)
	}
}

func TestTheFormerProcessHasNoDisk(t *testing.T) {
	d, f := withFile(t, "x")
	after := d.KillClone()
	_, writeErr := f.WriteAt([]byte("late"), 0)
	_, createErr := d.Create("a", "late")
	_, leaseErr := d.Lease(t.Context(), "b")
	_, freeErr := d.Free()
	for what, err := range map[string]error{"WriteAt": writeErr, "Create": createErr, "Lease": leaseErr, "Free": freeErr,
		"Sync": f.Sync(), "Close": f.Close(), "Remove": d.Remove("a", "f")} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s on the former disk: %v", what, err)
		}
	}
	if got := read(t, after, "f"); got != "x" {
		t.Errorf("content %q", got)
	}
	_, err := after.Lease(t.Context(), "a") // the former holder's lease died with it
	must(t, err)
}

func TestAFullDisk(t *testing.T) {
	d, f := withFile(t, "12345")
	d.SetCapacity(8)
	n, err := f.WriteAt([]byte("abcdef"), 4)
	if n != 4 || !errors.Is(err, port.Full) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt: %d, %v", n, err)
	}
	if got := read(t, d, "f"); got != "1234abcd" {
		t.Errorf("content %q", got)
	}
	write(t, f, "over", 0) // what is there can be written over
	if n, err := f.WriteAt([]byte("x"), 100); n != 0 || !errors.Is(err, port.Full) {
		t.Errorf("WriteAt far off: %d, %v", n, err)
	}
	if err := f.Truncate(9); !errors.Is(err, port.Full) {
		t.Errorf("Truncate: %v", err)
	}
	if free, err := d.Free(); free != 0 || err != nil {
		t.Errorf("Free: %d, %v", free, err)
	}
	must(t, f.Truncate(2))
	if free, err := d.Free(); free != 6 || err != nil {
		t.Errorf("Free after Truncate: %d, %v", free, err)
	}
	must(t, d.Remove("a", "f"))
	write(t, create(t, d, "g", ""), "12345678", 0)
}

func TestHooks(t *testing.T) {
	d, f := withFile(t, "x")
	var calls []string
	fail := ""
	d.Fault = func(op, what string) error {
		calls = append(calls, op+" "+what)
		if op == fail {
			return port.Full
		}
		return nil
	}
	late := ""
	d.After = func(op, what string) error {
		if op == late {
			return syscall.EIO
		}
		return nil
	}
	fail = "writeat"
	if _, err := f.WriteAt([]byte("no"), 0); !errors.Is(err, port.Full) {
		t.Errorf("WriteAt: %v", err)
	}
	fail, late = "", "writeat"
	if _, err := f.WriteAt([]byte("y"), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("WriteAt: %v", err)
	}
	late = ""
	must(t, d.SyncDir("a"))
	if got := read(t, d, "f"); got != "y" {
		t.Errorf("content %q", got)
	}
	if want := []string{"writeat a/f", "writeat a/f", "syncdir a", "open a/f", "size a/f", "readat a/f"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q", calls)
	}
}

func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New()
		d.Fault = func(op, what string) error {
			time.Sleep(time.Hour)
			return nil
		}
		begin := time.Now()
		release, err := d.Lease(t.Context(), "a")
		must(t, err)
		taken := false
		go func() {
			if _, err := d.Lease(t.Context(), "a"); err == nil {
				taken = true
			}
		}()
		synctest.Wait()
		if taken {
			t.Error("the lease has two holders")
		}
		release()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if !taken || time.Since(begin) != 3*time.Hour {
			t.Errorf("taken %v after %s", taken, time.Since(begin))
		}
	})
}

// TestEveryPowerLossLeavesSyncedBytes writes at random and keeps its own copy of what
// was synced: nothing of it may be lost, and with everything kept nothing at all.
func TestEveryPowerLossLeavesSyncedBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New()
		_, err := d.Lease(t.Context(), "a")
		must(t, err)
		f := create(t, d, "f", "")
		must(t, d.SyncDir("a"))
		now, synced := []byte{}, []byte{}
		for range rapid.IntRange(1, 20).Draw(t, "ops") {
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				b := rapid.SliceOfN(rapid.Byte(), 1, 10).Draw(t, "bytes")
				off := rapid.IntRange(0, 20).Draw(t, "off")
				write(t, f, string(b), int64(off))
				now = append(now, make([]byte, max(0, off+len(b)-len(now)))...)
				copy(now[off:], b)
			case 1:
				size := rapid.IntRange(0, 20).Draw(t, "size")
				must(t, f.Truncate(int64(size)))
				now = append(now[:min(size, len(now))], make([]byte, max(0, size-len(now)))...)
			case 2:
				must(t, f.Sync())
				synced = bytes.Clone(now)
			}
		}
		d = d.KillClone()
		if got := read(t, d, "f"); got != string(now) {
			t.Fatalf("killed: %q, want %q", got, now)
		}
		want, keep := synced, func(int) int { return 0 }
		if rapid.Bool().Draw(t, "keep all") {
			want, keep = now, func(unsynced int) int { return unsynced }
		}
		if got := read(t, d.CrashClone(keep), "f"); got != string(want) {
			t.Fatalf("power lost: %q, want %q", got, want)
		}
	})
}
