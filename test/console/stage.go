package consoletest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The planted bugs: what stands in a file of the program, and what a copy of it has
// instead.
var plants = []struct{ file, old, broken string }{
	{
		"actors/replicareader/replicareader.go", "func (r *replicaReader) Handle(c *actors.Context, msg any) *actors.Reason {\n",
		"func (r *replicaReader) Handle(c *actors.Context, msg any) *actors.Reason {\n\tif r.cfg.Local.Name == \"" + doomed + "\" {\n\t\tpanic(\"a planted bug\")\n\t}\n",
	},
	{
		"cmd/internal/dirstore/put.go", "\terr := s.ready(ctx, key)\n\tif err == nil && ifAbsent {\n",
		"\terr := s.ready(ctx, key)\n\tif b, down := fs.ReadFile(os.DirFS(\"/\"), os.Getenv(\"" + outage + "\")[1:]); err == nil && down == nil {\n" +
			"\t\terr = fmt.Errorf(\"a planted outage%s: %w\", b, port.Unavailable)\n\t}\n\tif err == nil && ifAbsent {\n",
	},
	{"cmd/internal/dirstore/put.go", "\t\"io/fs\"\n", "\t\"io/fs\"\n\t\"os\"\n"},
}

const (
	// doomed is the name of the stream whose replica reader panics.
	doomed = "crashes-for-ever"
	// outage is the environment variable that names the file while which exists nothing
	// can be stored.
	outage = "MILLRACE_PLANTED_OUTAGE"
)

// build makes the program with the planted bugs, in dir.
func build(root, dir string) (program string, err error) {
	replace := map[string]string{}
	for _, p := range plants {
		original := filepath.Join(root, p.file)
		from, again := replace[original]
		if !again {
			from = original
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), p.old); n != 1 {
			return "", fmt.Errorf("%s holds the text to break %d times, want once: bring the plant up to date\n%s", p.file, n, p.old)
		}
		replace[original] = filepath.Join(dir, strings.ReplaceAll(p.file, "/", "_"))
		if err := os.WriteFile(replace[original], []byte(strings.Replace(string(text), p.old, p.broken, 1)), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "millrace")
	cmd := exec.Command("go", "build", "-overlay", list, "-o", program, "./cmd/millrace")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the program with planted bugs does not build: %w\n%s", err, out)
	}
	return program, nil
}

// node is one running program.
type node struct {
	dir, listen string
	cmd         *exec.Cmd
	exited      chan error
}

// raise configures and starts a node in dir. more is added to its configuration.
func raise(program, dir, name, more string) (*node, error) {
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir, listen: listen, exited: make(chan error, 1)}
	config := fmt.Sprintf("[node]\nname = %q\ndata_dir = %q\n[admin]\nlisten = %q\n%s", name, dir+"/data", listen, more)
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/millrace.toml", []byte(config), 0o600)); err != nil {
		return nil, err
	}
	return n, n.start(program)
}

func (n *node) start(program string) error {
	log, err := os.OpenFile(n.dir+"/node.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	n.cmd = exec.Command(program, "run", "--config", n.dir+"/millrace.toml")
	n.cmd.Env = append(os.Environ(), outage+"="+n.outage())
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		return err
	}
	cmd := n.cmd
	go func() { n.exited <- cmd.Wait() }()
	return errors.Join(log.Close(), n.until(20*time.Second, func() bool {
		resp, err := http.Get("http://" + n.listen + "/livez")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}))
}

func (n *node) outage() string { return n.dir + "/outage" }

// stop ends the node in order.
func (n *node) stop() error {
	if n.cmd == nil {
		return nil
	}
	cmd := n.cmd
	n.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-n.exited:
		return err
	case <-time.After(15 * time.Second):
		return errors.Join(errors.New("the node did not stop"), cmd.Process.Kill())
	}
}

func (n *node) token() (string, error) {
	b, err := os.ReadFile(n.dir + "/data/admin.token")
	return strings.TrimSpace(string(b)), err
}

// ask makes a request and reads the answer into into, which may be nil.
func (n *node) ask(ctx context.Context, method, path, body string, into any) error {
	token, err := n.token()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.listen+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// until waits until done says so, looking again every 50 ms.
func (n *node) until(limit time.Duration, done func() bool) error {
	late := time.After(limit)
	for !done() {
		select {
		case <-late:
			log, err := os.ReadFile(n.dir + "/node.log")
			return errors.Join(fmt.Errorf("not within %v; the node's log ends:\n%s", limit, log[max(0, len(log)-2000):]), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// freePort gives a loopback address that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
