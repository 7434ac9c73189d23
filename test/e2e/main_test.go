package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"millrace/test/pgserver"
)

var (
	binary string // the program under test
	room   string // folder of everything that the tests write
	// slots bounds the nodes that work at the same time; two cores serve no more.
	slots = make(chan struct{}, 3)
)

const repository = "../.."

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// run builds the program, runs the tests, and takes down what they shared.
func run(m *testing.M) (code int, err error) {
	if room, err = os.MkdirTemp("", "millrace-e2e-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(room)) }()
	// PostgreSQL runs as another user and must get through.
	if err := os.Chmod(room, 0o755); err != nil {
		return 1, err
	}
	binary = filepath.Join(room, "millrace")
	build := exec.Command("go", "build", "-o", binary, "./cmd/millrace")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	// Most of a test is waiting; slots bounds what works.
	if err := flag.Set("test.parallel", "16"); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, clusters.remove()
}

// clusters are the PostgreSQL servers that tests share.
var clusters servers

type servers struct {
	mu     sync.Mutex
	shared *pgserver.Server
}

// get starts the shared cluster when it is first asked for.
func (s *servers) get() (*pgserver.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		return s.shared, nil
	}
	server, err := pgserver.Start(filepath.Join(room, "shared"), pgserver.Setting("max_connections", "200"),
		pgserver.Setting("max_replication_slots", "100"), pgserver.Setting("max_wal_senders", "100"))
	if err != nil {
		return nil, err
	}
	s.shared = server
	_, err = server.PSQL(roleSQL)
	return server, err
}

func (s *servers) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return nil
	}
	return s.shared.Remove()
}

// role is whom nodes connect as, on every cluster: it may replicate and read.
const (
	role    = "e2e"
	roleSQL = "CREATE ROLE e2e LOGIN REPLICATION; GRANT pg_read_all_data TO e2e"
)

// cluster starts a server for one test, which may do to it what it likes.
func cluster(t *testing.T, name string, options ...pgserver.Option) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(filepath.Join(room, name), options...)
	must(t, err)
	t.Cleanup(func() {
		if err := server.Remove(); err != nil {
			t.Error(err)
		}
	})
	_, err = server.PSQL(roleSQL)
	must(t, err)
	return server
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until done, and fails with the last thing it saw when time is up.
func eventually(t *testing.T, limit time.Duration, what string, done func() (ok bool, saw string)) {
	t.Helper()
	if saw, ok := poll(limit, done); !ok {
		t.Fatalf("waited %s until %s, in vain: %s", limit, what, saw)
	}
}

func poll(limit time.Duration, done func() (ok bool, saw string)) (saw string, ok bool) {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		ok, saw = done()
		if ok || time.Now().After(deadline) {
			return saw, ok
		}
	}
}
