package pgserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// Mode says how to stop a server.
type Mode string

// The modes of stopping.
const (
	Fast      Mode = "fast"      // disconnect everybody, write a checkpoint
	Immediate Mode = "immediate" // no checkpoint: the next start recovers from the WAL
)

// user is the superuser of every cluster; it connects without a password.
const superuser = "postgres"

// Option changes how a server is made.
type Option func(*Server)

// Setting sets a line of postgresql.conf.
func Setting(name, value string) Option {
	return func(s *Server) { s.settings = append(s.settings, name+" = '"+value+"'") }
}

// Server is one cluster.
type Server struct {
	dir      string // holds the folder "data" and the log
	temp     bool   // dir was made by us, and goes with Remove
	bin      string
	port     int
	settings []string
	runAs    *syscall.Credential
}

// Start makes a cluster below dir, which must be empty or hold one that Start made, and
// starts it. When we are root, dir is given to the user postgres, or nobody; every
// folder above it must let that user through. With dir "" a temporary folder is made.
func Start(dir string, opts ...Option) (*Server, error) {
	s := &Server{dir: dir, settings: []string{"wal_level = logical", "fsync = off", "listen_addresses = '127.0.0.1'", "unix_socket_directories = ''",
		"max_replication_slots = 20", "max_wal_senders = 20", "shared_buffers = 32MB", "log_min_messages = warning"}}
	for _, o := range opts {
		o(s)
	}
	var err error
	if s.bin, err = binaries(); err != nil {
		return nil, err
	}
	if dir == "" {
		s.temp = true
		if s.dir, err = os.MkdirTemp("", "pgserver"); err != nil {
			return nil, err
		}
	}
	if err := s.own(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(s.data(), "PG_VERSION")); errors.Is(err, os.ErrNotExist) {
		if err := s.run("initdb", "-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
			return nil, err
		}
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	conf := strings.Join(s.settings, "\n") + "\nport = " + strconv.Itoa(s.port) + "\n"
	if err := os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(conf), 0o600); err != nil {
		return nil, err
	}
	if err := s.chown(filepath.Join(s.data(), "postgresql.auto.conf")); err != nil {
		return nil, err
	}
	return s, s.up()
}

// DSN is a connection string for the database postgres as the superuser, over TCP.
func (s *Server) DSN() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, s.port)
}

// Port is the loopback port the server listens on; it stays over a Restart.
func (s *Server) Port() int { return s.port }

// Stop ends the server. The cluster stays and can be started again.
func (s *Server) Stop(mode Mode) error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-t", "30", "-m", string(mode), "stop")
}

// Restart starts a server that was stopped.
func (s *Server) Restart() error { return s.up() }

// Remove stops the server if it runs, and deletes its files.
func (s *Server) Remove() error {
	if _, err := os.Stat(filepath.Join(s.data(), "postmaster.pid")); err == nil {
		if err := s.Stop(Immediate); err != nil {
			return err
		}
	}
	if s.temp {
		return os.RemoveAll(s.dir)
	}
	return os.RemoveAll(s.data())
}

// PSQL runs SQL as the superuser in a session of its own and returns what psql prints,
// unaligned and without headers.
func (s *Server) PSQL(sql string) (string, error) {
	cmd := exec.Command(filepath.Join(s.bin, "psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", s.DSN())
	cmd.Stdin = strings.NewReader(sql)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, bytes.TrimSpace(bad.Bytes()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) up() error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-t", "60", "-l", filepath.Join(s.dir, "postgres.log"), "start")
}

// own finds who the server is to run as, and gives the folder to that user.
func (s *Server) own() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(superuser)
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return fmt.Errorf("PostgreSQL does not run as root, and there is no user to run it as: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	s.runAs = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s.chown(s.dir)
}

func (s *Server) chown(path string) error {
	if s.runAs == nil {
		return nil
	}
	return os.Chown(path, int(s.runAs.Uid), int(s.runAs.Gid))
}

// run runs a program of PostgreSQL. Its output goes to a file: the server inherits it,
// and a pipe would keep us waiting for the server's end.
func (s *Server) run(name string, args ...string) error {
	out, err := os.OpenFile(filepath.Join(s.dir, name+".out"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.runAs, Setsid: true}
	if err := errors.Join(cmd.Run(), out.Close()); err != nil {
		said, readErr := os.ReadFile(out.Name())
		return errors.Join(fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(said)), readErr)
	}
	return nil
}

// binaries finds initdb and its kin: the newest version installed, or that of PATH.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	sort.Strings(found)
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("PostgreSQL's server programs are not installed: %w", err)
	}
	return filepath.Dir(path), nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
