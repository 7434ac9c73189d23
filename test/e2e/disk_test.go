package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/pgserver"
)

// tightDisk mounts a file system of a few megabytes, and unmounts it when the test ends.
func tightDisk(t *testing.T, size int64) string {
	t.Helper()
	dir := t.TempDir()
	asRoot := func(args ...string) {
		t.Helper()
		if os.Getuid() != 0 {
			args = append([]string{"sudo", "-n"}, args...)
		}
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s (mounting takes root, or sudo without a password)", strings.Join(args, " "), err, out)
		}
	}
	asRoot("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=0777", size), "millrace-e2e", dir)
	t.Cleanup(func() { asRoot("umount", dir) })
	return dir
}

// fillUp writes a file that leaves the given bytes of a file system free.
func fillUp(t *testing.T, dir string, leave int64) (file string) {
	t.Helper()
	var fs syscall.Statfs_t
	must(t, syscall.Statfs(dir, &fs))
	file = filepath.Join(dir, fmt.Sprintf("filler-%d", leave))
	must(t, os.WriteFile(file, make([]byte, int64(fs.Bavail)*fs.Bsize-leave), 0o600))
	return file
}

// onTightDisk is a node on a disk of 16 MiB that captures the database, and has the first of it.
func onTightDisk(d *database) (n *node, disk string) {
	d.t.Helper()
	disk = tightDisk(d.t, 16<<20)
	c := small(config{"capture": d.capture(""), "local": `min_bytes = "4MiB"`})
	n = newNode(d.t, c)
	n.data = filepath.Join(disk, "data")
	n.configure(c)
	n.start()
	n.streaming("shop", 20*time.Second)
	fill(d, 3)
	d.caughtUp(n, 10*time.Second)
	return n, disk
}

// full is a log that waits for room.
func full(s streamStatus) bool {
	return s.State == "waiting" && strings.Contains(s.Why, "no space left")
}

// TestAFullDisk takes the room from under a node: it waits and says so, PostgreSQL goes
// on working, and with room again everything goes on by itself.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, fillerSQL)
	n, disk := onTightDisk(d)

	filler := fillUp(t, disk, 500<<10)
	fill(d, 12)
	s := n.until(20*time.Second, "shop", "the log waits for room", full)
	n.millrace("status", "shop").want(t, 0, "state", "waiting", "no space left on device")
	n.millrace("status").want(t, 0, "NOT READY", "no space left on device")
	if ready, reasons := n.reasons(); ready || !strings.Contains(reasons, "no space left on device") {
		t.Errorf("ready %v: %s", ready, reasons)
	}
	if got := n.records("shop", "--limit", "100"); len(got) != 100 {
		t.Errorf("%d records were read from a full disk", len(got))
	}
	if confirmed := d.value("SELECT confirmed_flush_lsn < pg_current_wal_lsn() FROM pg_replication_slots WHERE slot_name = '" + d.name + "'"); confirmed != "t" {
		t.Error("the slot is confirmed beyond what is on disk")
	}
	fill(d, 2)

	must(t, os.Remove(filler))
	d.caughtUp(n, 30*time.Second)
	after := n.until(10*time.Second, "shop", "the log runs", func(s streamStatus) bool { return s.State == "running" })
	if after.Next <= s.Next || n.metric("millrace_capture_losses_total") != 0 {
		t.Errorf("next is %s, before it was %s; %v losses", after.Next, s.Next, n.metric("millrace_capture_losses_total"))
	}

	// The same with the node killed and started on the full disk.
	filler = fillUp(t, disk, 200<<10)
	fill(d, 6)
	n.until(20*time.Second, "shop", "the log waits for room again", full)
	n.kill()
	rest := fillUp(t, disk, 0)
	n.start()
	n.until(20*time.Second, "shop", "the new node waits for room", full)
	must(t, os.Remove(filler))
	must(t, os.Remove(rest))
	d.caughtUp(n, 30*time.Second)
	v := d.verify(n)
	if v.ledger.Commits < 23 {
		t.Errorf("the stream has %d commits", v.ledger.Commits)
	}
}

// TestAFullDiskLetsPostgresStop stops the server in good order while the node can take
// nothing: a server that is told to stop waits until connected receivers have confirmed
// all it sent them.
func TestAFullDiskLetsPostgresStop(t *testing.T) {
	t.Parallel()
	server := cluster(t, "fulldisk")
	d := databaseOn(t, server, markSQL+fillerSQL)
	n, disk := onTightDisk(d)

	filler := fillUp(t, disk, 500<<10)
	fill(d, 12)
	n.until(20*time.Second, "shop", "the log waits for room", full)
	began := time.Now()
	must(t, server.Stop(pgserver.Fast))
	t.Logf("the server stopped in %v", time.Since(began).Round(time.Second))
	must(t, server.Restart())
	n.until(40*time.Second, "shop", "the capture waits for the log", func(s streamStatus) bool {
		return s.Capture.Waiting != nil && strings.Contains(s.Capture.Waiting.Why, "without a replication connection")
	})

	must(t, os.Remove(filler))
	d.caughtUp(n, 40*time.Second)
	d.verify(n)
	if losses := n.metric("millrace_capture_losses_total"); losses != 0 {
		t.Errorf("%v losses", losses)
	}
}
