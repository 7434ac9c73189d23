package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/test/s3server"
)

// The benchmarks of this folder measure whole programs: the node as users run it, or with
// something that appends to its streams beside it, against a real S3 server. What has to
// run as a process of its own, besides the node, is this test binary in a role. make bench
// and make soak run them.

// roleEnv names the role of a process that a benchmark started, taskEnv holds what it is
// to do, as JSON.
const (
	roleEnv = "MILLRACE_BENCH_ROLE"
	taskEnv = "MILLRACE_BENCH_TASK"
	// profileEnv names a file for a processor profile of the node, which then runs in this
	// test binary.
	profileEnv = "BENCH_PROFILE"
)

var roles = map[string]func(task []byte) error{"fill": fill, "put": putLoop, "feed": feed, "run": run}

func TestMain(m *testing.M) {
	name := os.Getenv(roleEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no role %q\n", name)
		os.Exit(2)
	}
	if err := role([]byte(os.Getenv(taskEnv))); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// ground is what a benchmark runs on: a folder on a disk, and an S3 server over a part of it.
type ground struct {
	b      *testing.B
	dir    string
	binary string // of the node
	server *s3server.Server
}

func newGround(b *testing.B) *ground {
	b.Helper()
	g := &ground{b: b}
	var err error
	g.dir, err = os.MkdirTemp("", "millrace-bench-")
	g.must(err)
	b.Cleanup(func() { g.must(os.RemoveAll(g.dir)) })
	g.binary = filepath.Join(g.dir, "millrace")
	out, err := exec.Command("go", "build", "-o", g.binary, ".").CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	g.server, err = s3server.Start(filepath.Join(g.dir, "s3"))
	g.must(err)
	b.Cleanup(func() { g.must(g.server.Remove()) })
	return g
}

func (g *ground) must(err error) {
	g.b.Helper()
	if err != nil {
		g.b.Fatal(err)
	}
}

// nodeFile is what a node is configured with, below name.
func (g *ground) nodeFile(name, bucket, settings string) (file, listen string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.must(err)
	listen = l.Addr().String()
	g.must(l.Close())
	dir := filepath.Join(g.dir, name)
	g.must(os.MkdirAll(dir, 0o755))
	text := fmt.Sprintf("[node]\nname = \"bench\"\ndata_dir = %q\n[store]\nkind = \"s3\"\nbucket = %q\nregion = %q\nendpoint = %q\npath_style = true\nupload_connections = %d\n[admin]\nlisten = %q\n[logging]\nlevel = \"warn\"\n",
		filepath.Join(dir, "data"), bucket, s3server.Region, g.server.URL(), concurrency, listen)
	file = filepath.Join(dir, "millrace.toml")
	g.must(os.WriteFile(file, []byte(text+settings), 0o600))
	return file, listen
}

// process is a program that runs.
type process struct {
	cmd  *exec.Cmd
	said string // the file with what it writes
	done chan error
}

// as is this test binary in a role.
func (g *ground) as(role string, task any) *exec.Cmd {
	text, err := json.Marshal(task)
	g.must(err)
	self, err := os.Executable()
	g.must(err)
	cmd := exec.Command(self)
	cmd.Env = []string{roleEnv + "=" + role, taskEnv + "=" + string(text)}
	return cmd
}

// start runs a program that dies with us.
func (g *ground) start(cmd *exec.Cmd) *process {
	g.b.Helper()
	said, err := os.CreateTemp(g.dir, "output-")
	g.must(err)
	defer said.Close()
	cmd.Env = append(append(os.Environ(), "AWS_ACCESS_KEY_ID="+s3server.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+s3server.SecretKey), cmd.Env...)
	if cmd.Stdout == nil {
		cmd.Stdout = said
	}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.must(cmd.Start())
	p := &process{cmd: cmd, said: said.Name(), done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p
}

// wait returns when the program has ended well.
func (g *ground) wait(p *process, limit time.Duration) {
	g.b.Helper()
	select {
	case err := <-p.done:
		if err != nil {
			g.fatal(p, err)
		}
	case <-time.After(limit):
		g.fatal(p, errors.Join(fmt.Errorf("%s does not end within %s", p.cmd.Path, limit), p.cmd.Process.Kill()))
	}
}

// stop ends a node in order.
func (g *ground) stop(p *process) {
	g.b.Helper()
	g.must(p.cmd.Process.Signal(syscall.SIGTERM))
	g.wait(p, 2*stopDeadline)
}

func (g *ground) fatal(p *process, err error) {
	g.b.Helper()
	said, readErr := os.ReadFile(p.said)
	g.b.Fatalf("%v\n%s", errors.Join(err, readErr), said[max(0, len(said)-4000):])
}

// cpu is what a program that has ended used, of users' and the system's time.
func (p *process) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// spent is what a running program has used so far.
func (g *ground) spent(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	g.must(err)
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	sum := time.Duration(0)
	for _, text := range fields[11:13] { // utime and stime, in ticks of which Linux shows 100 a second
		ticks, err := strconv.ParseInt(text, 10, 64)
		g.must(err)
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum
}

// memory is a line of a running program's status, VmRSS or VmHWM, in MiB.
func (g *ground) memory(p *process, key string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	g.must(err)
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			g.must(err)
			return kib / 1024
		}
	}
	g.b.Fatalf("no %s in the status of process %d", key, p.cmd.Process.Pid)
	return 0
}

// load is how many processes ran or wanted to, on average over the last minute.
func (g *ground) load() string {
	text, err := os.ReadFile("/proc/loadavg")
	g.must(err)
	return strings.Fields(string(text))[0]
}

func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}
