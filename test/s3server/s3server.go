package s3server

import (
	"bytes"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// What every server answers to.
const (
	AccessKeyID = "millrace-test"
	SecretKey   = "millrace-test-secret"
	Region      = "us-east-1"
)

// version is what scripts/need-versitygw builds; the path below is the script's too.
const version = "v1.8.0"

// ready bounds how long a server may take to answer, and to end when it is told to.
const ready = 20 * time.Second

// Server is one server. Its methods are for one goroutine.
type Server struct {
	dir  string // holds the folder of the buckets, and the log
	temp bool   // dir was made by us, and goes with Remove
	addr string
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	exit error         // how it ended, once done is closed
}

// Option changes how a server is started.
type Option func(*Server)

// ReadOnly refuses every write with AccessDenied.
func ReadOnly() Option { return func(s *Server) { s.args = append(s.args, "--readonly") } }

// VirtualHosts makes the server find the bucket in the host's name, <bucket>.<domain>.
func VirtualHosts(domain string) Option {
	return func(s *Server) { s.args = append(s.args, "--virtual-domain", domain) }
}

// Start starts a server over dir, which keeps its buckets when it ends. With dir "" a
// temporary folder is made.
func Start(dir string, opts ...Option) (*Server, error) {
	s := &Server{dir: dir}
	for _, o := range opts {
		o(s)
	}
	var err error
	if dir == "" {
		s.temp = true
		if s.dir, err = os.MkdirTemp("", "s3server"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.data(), 0o755); err != nil {
		return nil, err
	}
	if s.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	return s, s.Restart()
}

// Addr is the server's host and port; they stay over a Restart.
func (s *Server) Addr() string { return s.addr }

// URL is the endpoint for clients.
func (s *Server) URL() string { return "http://" + s.addr }

// PID is the process id of the running server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// MakeBucket makes an empty bucket. A bucket is a folder to this server, so that no
// client is needed.
func (s *Server) MakeBucket(name string) error { return os.Mkdir(s.Bucket(name), 0o755) }

// Bucket is the folder of a bucket; the objects are its files.
func (s *Server) Bucket(name string) string { return filepath.Join(s.data(), name) }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "versitygw.log") }

// Restart starts a server that was stopped or killed, and returns when it answers.
func (s *Server) Restart() error {
	bin, err := binary()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	args := append([]string{"--port", s.addr, "--region", Region, "--keep-alive", "--quiet", "--health", "/health"}, s.args...)
	meta, err := s.metadata()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	s.cmd = exec.Command(bin, append(append(args, "posix"), append(meta, s.data())...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, out, out
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKeyID, "ROOT_SECRET_KEY="+SecretKey)
	// The server goes with whoever started it, also when that is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(s.cmd.Start(), out.Close()); err != nil {
		return err
	}
	s.done = make(chan struct{})
	go func() {
		s.exit = s.cmd.Wait()
		close(s.done)
	}()
	return s.await()
}

// metadata says where object metadata goes: into extended attributes where the file
// system has them, else into a folder beside the buckets.
func (s *Server) metadata() ([]string, error) {
	err := syscall.Setxattr(s.data(), "user.millrace-test", []byte("x"), 0)
	if !errors.Is(err, syscall.ENOTSUP) && !errors.Is(err, syscall.EPERM) {
		return nil, err
	}
	sidecar := filepath.Join(s.dir, "sidecar")
	return []string{"--sidecar", sidecar}, os.MkdirAll(sidecar, 0o755)
}

// await asks the health page until it answers.
func (s *Server) await() error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(ready)
	for {
		resp, err := client.Get(s.URL() + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("health page: %s", resp.Status)
		}
		select {
		case <-s.done:
			return s.failed(fmt.Errorf("ended at its start: %w", s.exit))
		case <-deadline:
			return errors.Join(s.failed(err), s.Kill())
		case <-tick.C:
		}
	}
}

func (s *Server) failed(err error) error {
	said, readErr := os.ReadFile(s.logFile())
	return errors.Join(fmt.Errorf("versitygw on %s: %w: %s", s.addr, err, bytes.TrimSpace(said[max(0, len(said)-2000):])), readErr)
}

// Stop ends the server in order. What it stored stays.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(ready):
		return fmt.Errorf("versitygw (pid %d) does not end on %s", s.PID(), sig)
	}
}

// Remove ends the server if it runs, and deletes its files.
func (s *Server) Remove() error {
	if err := s.Kill(); err != nil {
		return err
	}
	if s.temp {
		return os.RemoveAll(s.dir)
	}
	return os.RemoveAll(s.data())
}

func binary() (string, error) {
	path := filepath.Join(filepath.SplitList(build.Default.GOPATH)[0], "bin", "versitygw-"+version)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the S3 server of the tests is not built; run: scripts/need-versitygw (%w)", err)
	}
	return path, nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
