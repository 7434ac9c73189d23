package datadir

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFoldersAreMadeForUsOnly(t *testing.T) {
	root := filepath.Join(t.TempDir(), "var", "millrace")
	d := open(t, root)
	if d.Streams() != filepath.Join(root, "streams") || d.File("node.db") != filepath.Join(root, "node.db") {
		t.Errorf("paths %s, %s", d.Streams(), d.File("node.db"))
	}
	for _, path := range []string{root, d.Streams()} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := open(t, root).Close(); err != nil {
		t.Error(err)
	}
}

func TestAFileInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(path, "below")} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("Open(%s): %v", path, err)
		}
	}
}

// TestASecondNodeIsTold starts another process that holds the folder until it is killed.
func TestASecondNodeIsTold(t *testing.T) {
	const env = "DATADIR_HELD"
	if dir := os.Getenv(env); dir != "" {
		open(t, dir)
		if _, err := os.Stdout.WriteString("held\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"="+dir)
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, err := Open(dir)
	inUse, ok := errors.AsType[*InUseError](err)
	if !ok || inUse.PID != cmd.Process.Pid {
		t.Errorf("Open: %v, want process %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the killed process ended well")
	}
	if err := open(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

func TestAHolderThatHasNotSignedYet(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	if err := os.Truncate(d.File("lock"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("Open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
