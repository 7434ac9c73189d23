package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// node is one node of the program under test: its configuration, and its process while
// it runs.
type node struct {
	t      *testing.T
	dir    string // the test's: holds data, store, log and configuration
	listen string
	name   string
	data   string   // folder
	store  string   // folder; "": the store is no folder
	env    []string // besides the test's own
	errors []string // parts of lines of level error that the test provokes
	peak   int64    // most bytes resident, of all runs

	process *process
}

// process is a program that a test started.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // how; read behind ended
}

// config holds the keys of each section besides those that every node has; "capture"
// may stand several times, as "capture", "capture 2" and so on.
type config map[string]string

// newNode configures a node and stops it when the test ends. It waits for a slot.
func newNode(t *testing.T, c config) *node {
	t.Helper()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	return idleNode(t, c)
}

// idleNode is newNode for one that has next to nothing to do: it takes no slot.
func idleNode(t *testing.T, c config) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), listen: freeAddress(t), name: "e2e"}
	n.data, n.store = filepath.Join(n.dir, "data"), filepath.Join(n.dir, "store")
	n.configure(c)
	t.Cleanup(func() {
		if n.process != nil {
			n.stop()
		}
		n.checkLog()
		if n.peak > maxMemory {
			t.Errorf("the node had %d MiB resident, at most %d are allowed", n.peak>>20, maxMemory>>20)
		}
	})
	return n
}

// maxMemory is what a node may have resident at most.
const maxMemory = 120 << 20

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	return l.Addr().String()
}

func (n *node) configFile() string { return filepath.Join(n.dir, "millrace.toml") }
func (n *node) logFile() string    { return filepath.Join(n.dir, "node.log") }
func (n *node) tokenFile() string  { return filepath.Join(n.data, "admin.token") }

// configure writes the configuration anew.
func (n *node) configure(c config) {
	n.t.Helper()
	sections := map[string]string{
		"node":  fmt.Sprintf("name = %q\ndata_dir = %q\n", n.name, n.data),
		"admin": fmt.Sprintf("listen = %q\n", n.listen),
	}
	if n.store != "" {
		sections["store"] = fmt.Sprintf("path = %q\n", n.store)
	}
	for name, keys := range c {
		sections[name] += keys + "\n"
	}
	var b strings.Builder
	for name, keys := range sections {
		head := "[" + name + "]"
		if kind, _, _ := strings.Cut(name, " "); kind == "capture" {
			head = "[[capture]]"
		}
		fmt.Fprintf(&b, "%s\n%s\n", head, keys)
	}
	must(n.t, os.WriteFile(n.configFile(), []byte(b.String()), 0o600))
}

// start runs the node and waits until its surface answers.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	eventually(n.t, 20*time.Second, "the node answers", func() (bool, string) {
		n.alive()
		status, body := n.get("/livez", "")
		return status == 200, body
	})
}

// launch runs the node in a process group of its own, so that an interrupt at a
// terminal reaches the tests alone.
func (n *node) launch() {
	n.t.Helper()
	if n.process != nil {
		n.t.Fatal("the node runs already")
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(n.t, err)
	defer log.Close()
	cmd := exec.Command(binary, "run", "--config", n.configFile())
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	cmd.Env = append(os.Environ(), n.env...)
	n.process = begin(n.t, cmd)
}

// begin starts a program and watches for its end.
func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p
}

// signal sends s to the process alone.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// wait gives the exit code of a process that ends in time; -1 when a signal ended it.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.signal(t, syscall.SIGQUIT) // its stacks go where its errors go
		<-p.ended
		t.Errorf("process %d (%s) did not end within %s", p.cmd.Process.Pid, strings.Join(p.cmd.Args, " "), limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the node with SIGTERM and tells how long that took: it must be within the
// 10 s that it promises, and with exit code 0.
func (n *node) stop() time.Duration {
	n.t.Helper()
	n.measure()
	p := n.process
	n.process = nil
	began := time.Now()
	p.signal(n.t, syscall.SIGTERM)
	if code := p.wait(n.t, 11*time.Second); code != 0 {
		n.t.Errorf("the node stopped with exit code %d (%v); the end of its log:\n%s", code, p.err, n.logTail())
	}
	return time.Since(began)
}

// kill ends the node with SIGKILL.
func (n *node) kill() {
	n.t.Helper()
	n.alive()
	n.measure()
	p := n.process
	n.process = nil
	p.signal(n.t, syscall.SIGKILL)
	if code := p.wait(n.t, 5*time.Second); code != -1 {
		n.t.Fatalf("the node ended by itself, with exit code %d, just before it was killed", code)
	}
}

// measure notes the most memory that the running node has had resident so far.
func (n *node) measure() {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.cmd.Process.Pid))
	if err != nil {
		return // it has ended
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			n.peak = max(n.peak, kib<<10)
		}
	}
}

// alive fails the test if the node ended by itself: it never may.
func (n *node) alive() {
	n.t.Helper()
	select {
	case <-n.process.ended:
		n.process = nil
		n.t.Fatalf("the node ended by itself; the end of its log:\n%s", n.logTail())
	default:
	}
}

func (n *node) log() string {
	n.t.Helper()
	b, err := os.ReadFile(n.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	return string(b)
}

func (n *node) logTail() string {
	log := n.log()
	return log[max(0, len(log)-3000):]
}

// checkLog finds the errors in the log that the test did not provoke.
func (n *node) checkLog() {
	n.t.Helper()
	bad := 0
	for line := range strings.Lines(n.log()) {
		wrong := strings.Contains(line, `"level":"error"`) || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:")
		expected := slices.ContainsFunc(n.errors, func(part string) bool { return strings.Contains(line, part) })
		if wrong && !expected && bad < 5 {
			bad++
			n.t.Errorf("in the node's log: %.600s", line)
		}
	}
}
