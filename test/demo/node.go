package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"text/template"
	"time"
)

// node is the program under test, run as a child.
type node struct {
	binary string
	dir    string       // holds its configuration, data, store and log
	listen string       // host:port of its admin surface
	env    []string     // beside ours
	pid    atomic.Int64 // of the running child; 0 when there is none
	peak   atomic.Int64 // most bytes resident, of all runs

	cmd    *exec.Cmd
	exited chan error // of the running child; one value
	runs   int
}

// config makes segments, fragments and the local window so small that tiering and
// trimming show within seconds. local.max_bytes leaves the store far enough behind
// that nothing is trimmed before it was uploaded: that would be a declared gap.
var config = template.Must(template.New("config").Parse(`[node]
name = "demo"
data_dir = "{{.Dir}}/data"

[log]
segment_max_bytes = "2MiB"

[local]
min_bytes = "4MiB"
max_bytes = "512MiB"

[store]
{{.Store}}
[tiering]
fragment_bytes = "1MiB"
fragment_max_age = "1s"
persist_interval = "500ms"
root_grace = "5s"
reconcile_interval = "5s"

[admin]
listen = "{{.Listen}}"

[[capture]]
name = "shop"
url = "{{.URL}}"
publication = "{{.Publication}}"
max_value = "100KiB"
`))

// newNode writes the configuration. It takes url as the database to capture; store is
// the section of the object store.
func newNode(binary, dir, listen, url, publication, store string) (*node, error) {
	n := &node{binary: binary, dir: dir, listen: listen}
	var b bytes.Buffer
	err := config.Execute(&b, map[string]string{"Dir": dir, "Listen": listen, "URL": url, "Publication": publication, "Store": store})
	if err == nil {
		err = os.WriteFile(n.configFile(), b.Bytes(), 0o600)
	}
	return n, err
}

func (n *node) configFile() string { return filepath.Join(n.dir, "millrace.toml") }
func (n *node) logFile() string    { return filepath.Join(n.dir, "node.log") }
func (n *node) tokenFile() string  { return filepath.Join(n.dir, "data", "admin.token") }

// start runs the node in a process group of its own, so that an interrupt of the
// terminal reaches the demo alone, which stops things in order.
func (n *node) start() error {
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n.cmd = exec.Command(n.binary, "run", "--config", n.configFile())
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.Env = append(os.Environ(), n.env...)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = n.cmd.Start()
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	n.runs++
	n.pid.Store(int64(n.cmd.Process.Pid))
	exited := make(chan error, 1)
	n.exited = exited
	cmd := n.cmd
	go func() { exited <- cmd.Wait() }()
	return nil
}

// kill ends the node as a power switch would, but for what the kernel holds.
func (n *node) kill() error {
	n.measure()
	if err := n.alive(); err != nil {
		return err
	}
	if err := n.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the node: %w", err)
	}
	err := <-n.exited
	n.cmd = nil
	n.pid.Store(0)
	if err == nil {
		return errors.New("the node ended by itself just before it was killed")
	}
	return nil
}

// stop ends the node with SIGTERM, within the 10 s that it promises.
func (n *node) stop() error {
	if n.cmd == nil {
		return nil
	}
	cmd := n.cmd
	n.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the node: %w", err)
	}
	select {
	case err := <-n.exited:
		return wrap("the node stopped with an error", err)
	case <-time.After(12 * time.Second):
		return errors.Join(errors.New("the node did not stop within 12 s of SIGTERM"), cmd.Process.Kill())
	}
}

// alive reports a node that ended by itself: it never may.
func (n *node) alive() error {
	if n.cmd == nil {
		return errors.New("the node is not running")
	}
	select {
	case err := <-n.exited:
		n.cmd = nil
		return fmt.Errorf("the node ended by itself (%s); the end of its log:\n%s", said(err), n.logTail())
	default:
		return nil
	}
}

// said is what Wait told: nothing is wrong with an exit code of 0, but that it came.
func said(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// logTail is the end of the node's log.
func (n *node) logTail() string {
	log, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-4000):])
}

// measure notes the most memory that the running node has had resident so far, and
// gives the most of all runs, in bytes. It may be called while the node is started
// and killed.
func (n *node) measure() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid.Load()))
	if err != nil {
		return n.peak.Load()
	}
	for line := range strings.Lines(string(status)) {
		text, ok := strings.CutPrefix(line, "VmHWM:")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
		if ok && err == nil && kib<<10 > n.peak.Load() {
			n.peak.Store(kib << 10)
		}
	}
	return n.peak.Load()
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// until calls done every 20 ms until it says so, the node dies, or time is up.
func (n *node) until(ctx context.Context, what string, limit time.Duration, done func() (bool, error)) error {
	deadline := time.After(limit)
	for {
		if err := n.alive(); err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("waited %v until %s, in vain; the end of the node's log:\n%s", limit, what, n.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
