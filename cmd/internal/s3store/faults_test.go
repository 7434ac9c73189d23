package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/test/faultproxy"
	"millrace/test/porttest/storetest"
)

// throughProxy opens a store that reaches the real server through a proxy.
func throughProxy(t *testing.T, change func(*Config)) (*Store, *faultproxy.Proxy) {
	t.Helper()
	p, err := faultproxy.Start(real.Addr())
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	cfg := configOf(bucket(t))
	cfg.Endpoint = p.URL()
	if change != nil {
		change(&cfg)
	}
	return open(t, cfg), p
}

// eventually waits for what happens a moment later.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func put(ctx context.Context, s port.ObjectStore, key string, b []byte) error {
	return s.Put(ctx, key, port.NewBody(bytes.NewReader(b), sum(b)), int64(len(b)), false)
}

func TestContractThroughASlowLine(t *testing.T) {
	storetest.Run(t, func(t *testing.T) port.ObjectStore {
		s, p := throughProxy(t, nil)
		must(t, p.Set(faultproxy.Faults{Delay: 200 * time.Microsecond}))
		return s.Uploads()
	})
}

// counted is a body that counts what is read of it.
type counted struct {
	io.ReadSeeker
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// do runs every operation of the port once and says what each came to.
func do(ctx context.Context, s port.ObjectStore) map[string]error {
	return doWithin(ctx, time.Minute, s)
}

// doWithin is do with so much time for each operation.
func doWithin(ctx context.Context, d time.Duration, s port.ObjectStore) map[string]error {
	out := map[string]error{}
	for op, run := range map[string]func(context.Context) error{
		"put":    func(ctx context.Context) error { return put(ctx, s, "p/new", bytes.Repeat([]byte("x"), 200_000)) },
		"probe":  s.Probe,
		"get":    func(ctx context.Context) error { _, err := s.Get(ctx, "p/old"); return err },
		"range":  func(ctx context.Context) error { _, err := s.GetRange(ctx, "p/old", 10, 150_000); return err },
		"list":   func(ctx context.Context) error { _, _, err := s.List(ctx, "", "", 0); return err },
		"delete": func(ctx context.Context) error { _, err := s.Delete(ctx, []string{"p/none"}); return err },
	} {
		ctx, cancel := context.WithTimeout(ctx, d)
		out[op] = run(ctx)
		cancel()
	}
	return out
}

func TestEachFaultHasItsClass(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults faultproxy.Faults
		want   port.Class
		ops    string // "" = all
	}{
		{"refused", faultproxy.Faults{Refuse: true}, port.Unavailable, ""},
		{"reset", faultproxy.Faults{Reset: true}, port.Unavailable, ""},
		{"request cut", faultproxy.Faults{CutRequest: 100}, port.Unavailable, ""},
		{"request reset", faultproxy.Faults{CutRequest: 100, Reset: true}, port.Unavailable, ""},
		{"answer cut in its head", faultproxy.Faults{CutAnswer: 20}, port.Unavailable, ""},
		{"answer reset in its head", faultproxy.Faults{CutAnswer: 20, Reset: true}, port.Unavailable, ""},
		{"body of a put cut", faultproxy.Faults{CutRequest: 50_000}, port.Unavailable, "put"},
		{"body of a put reset", faultproxy.Faults{CutRequest: 50_000, Reset: true}, port.Unavailable, "put"},
		{"body of an answer cut", faultproxy.Faults{CutAnswer: 50_000}, port.Unavailable, "get range"},
		{"body of an answer reset", faultproxy.Faults{CutAnswer: 50_000, Reset: true}, port.Unavailable, "get range"},
		{"listing cut", faultproxy.Faults{CutAnswer: 400}, port.Unavailable, "list"},
		{"black hole", faultproxy.Faults{BlackHole: true}, port.Timeout, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := throughProxy(t, nil)
			must(t, put(t.Context(), s.General(), "p/old", bytes.Repeat([]byte("o"), 200_000)))
			s.GeneralPool().Close() // so that no connection from before is used
			s.GeneralPool().Open()
			must(t, p.Set(c.faults))
			for op, err := range doWithin(t.Context(), timeFor(c.faults), s.General()) {
				if (c.ops == "" || strings.Contains(c.ops, op)) && port.ClassOf(err) != c.want {
					t.Errorf("%s: %v, want class %q", op, err, c.want)
				}
			}
			atRest(t, s.GeneralPool())
			must(t, p.Set(faultproxy.Faults{}))
			for op, err := range do(t.Context(), s.General()) {
				if err != nil {
					t.Errorf("%s after it healed: %v", op, err)
				}
			}
			atRest(t, s.GeneralPool())
			s.GeneralPool().Close()
			eventually(t, "no connection is left", func() bool { return s.GeneralPool().Stats().Open == 0 && p.Open() == 0 })
		})
	}
}

// timeFor is how long an operation may take: not long if it is to run out of time.
func timeFor(f faultproxy.Faults) time.Duration {
	if f.BlackHole {
		return 30 * time.Millisecond
	}
	return 10 * time.Second
}

func atRest(t *testing.T, p port.Pool) {
	t.Helper()
	if s := p.Stats(); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("the pool is not at rest: %+v", s)
	}
}

func TestAPutCutHalfWayLeavesNothing(t *testing.T) {
	s, p := throughProxy(t, nil)
	b := bytes.Repeat([]byte("x"), 8<<20)
	for range 5 {
		p.Next(faultproxy.Faults{CutRequest: 4 << 20})
		err := put(t.Context(), s.Uploads(), "p/half", b)
		if port.ClassOf(err) != port.Unavailable {
			t.Fatalf("got %v", err)
		}
		atRest(t, s.UploadPool())
		eventually(t, "the connection is gone", func() bool { return s.UploadPool().Stats().Open == 0 })
	}
	if page, _, err := s.General().List(t.Context(), "", "", 0); err != nil || len(page) != 0 {
		t.Errorf("listed %v, %v", page, err)
	}
}

func TestAPutThatIsGivenUpLeavesTheBodyAlone(t *testing.T) {
	s, p := throughProxy(t, nil)
	must(t, p.Set(faultproxy.Faults{Rate: 10 << 20}))
	ctx, cancel := context.WithCancel(t.Context())
	body := &watched{ReadSeeker: bytes.NewReader(make([]byte, 8<<20)), at: 1 << 20, reached: cancel}
	err := s.Uploads().Put(ctx, "p/a", port.NewBody(body, 1), 8<<20, false)
	body.over.Store(true)
	if port.ClassOf(err) != port.Timeout || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	eventually(t, "the connection is gone", func() bool { return s.UploadPool().Stats().Open == 0 })
	if n := body.late.Load(); n != 0 {
		t.Errorf("the body was read %d times after Put had returned", n)
	}
}

// watched tells when so much of it was read, and what is read of it after it is over.
type watched struct {
	io.ReadSeeker
	at, read int64
	reached  func()
	over     atomic.Bool
	late     atomic.Int64
}

func (w *watched) Read(p []byte) (int, error) {
	if w.over.Load() {
		w.late.Add(1)
	}
	n, err := w.ReadSeeker.Read(p)
	if w.read += int64(n); w.read >= w.at {
		w.reached()
	}
	return n, err
}

func TestUploadsThatHangDoNotStarveReads(t *testing.T) {
	s, p := throughProxy(t, func(c *Config) { c.UploadConnections = 2 })
	must(t, put(t.Context(), s.General(), "p/a", []byte("hello")))
	p.Next(faultproxy.Faults{BlackHole: true})
	p.Next(faultproxy.Faults{BlackHole: true})
	var wg sync.WaitGroup
	results := make(chan error, 3)
	for i := range 3 {
		wg.Go(func() { results <- put(t.Context(), s.Uploads(), fmt.Sprint("p/up", i), []byte("x")) })
	}
	eventually(t, "two uploads hang and one waits", func() bool {
		got := s.UploadPool().Stats()
		return got.InUse == 2 && got.Waiting == 1 && got.Open == 2 && got.Max == 2
	})
	for range 50 {
		if b, err := s.General().Get(t.Context(), "p/a"); err != nil || string(b) != "hello" {
			t.Fatalf("a read beside them: %q, %v", b, err)
		}
	}
	s.UploadPool().Close()
	wg.Wait()
	for range 3 {
		if err := <-results; port.ClassOf(err) != port.Unavailable || !errors.Is(err, errClosed) {
			t.Errorf("an upload when its pool was closed: %v", err)
		}
	}
	atRest(t, s.UploadPool())
	eventually(t, "no connection is left", func() bool { return s.UploadPool().Stats().Open == 0 })
	if err := put(t.Context(), s.Uploads(), "p/b", []byte("x")); port.ClassOf(err) != port.Unavailable {
		t.Errorf("through a closed pool: %v", err)
	}
	s.UploadPool().Open()
	s.UploadPool().Open()
	must(t, put(t.Context(), s.Uploads(), "p/b", []byte("x")))
}

// Manifests and deletions share their connections with reads, and leave half of them.
func TestWritesThatHangDoNotStarveReads(t *testing.T) {
	s, p := throughProxy(t, func(c *Config) { c.GeneralConnections = 4 })
	must(t, put(t.Context(), s.Uploads(), "p/a", []byte("hello")))
	p.Next(faultproxy.Faults{BlackHole: true})
	p.Next(faultproxy.Faults{BlackHole: true})
	var wg sync.WaitGroup
	results := make(chan error, 3)
	wg.Go(func() { results <- put(t.Context(), s.General(), "p/root", []byte("x")) })
	wg.Go(func() {
		_, err := s.General().Delete(t.Context(), []string{"p/old"})
		results <- err
	})
	eventually(t, "two writes hang", func() bool { return s.GeneralPool().Stats().InUse == 2 })
	wg.Go(func() { results <- put(t.Context(), s.General(), "p/root2", []byte("x")) })
	eventually(t, "one waits", func() bool { return s.GeneralPool().Stats().Waiting == 1 })
	for range 50 {
		if b, err := s.General().Get(t.Context(), "p/a"); err != nil || string(b) != "hello" {
			t.Fatalf("a read beside them: %q, %v", b, err)
		}
	}
	s.GeneralPool().Close()
	wg.Wait()
	for range 3 {
		if err := <-results; port.ClassOf(err) != port.Unavailable {
			t.Errorf("a write when its pool was closed: %v", err)
		}
	}
	atRest(t, s.GeneralPool())
}

func TestWhoWaitsIsServedInOrder(t *testing.T) {
	s, p := throughProxy(t, func(c *Config) { c.UploadConnections = 1 })
	must(t, p.Set(faultproxy.Faults{Delay: 20 * time.Millisecond}))
	var wg sync.WaitGroup
	order := make(chan int, 4)
	for i := range 4 {
		wg.Go(func() {
			if err := put(t.Context(), s.Uploads(), fmt.Sprint("p/", i), []byte("x")); err != nil {
				t.Error(err)
			}
			order <- i
		})
		eventually(t, "it is in line", func() bool { return s.UploadPool().Stats().Waiting == i && s.UploadPool().Stats().InUse == 1 })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := put(ctx, s.Uploads(), "p/late", []byte("x")); port.ClassOf(err) != port.Timeout {
		t.Errorf("one whose time is up while it waits: %v", err)
	}
	wg.Wait()
	for want := range 4 {
		if got := <-order; got != want {
			t.Errorf("number %d came %d.", got, want)
		}
	}
	if got := s.UploadPool().Stats(); got.Taken != 4 || got.Waited != 3 || got.Waiting != 0 || p.Accepted() != 1 {
		t.Errorf("%+v, %d connections", got, p.Accepted())
	}
}

func TestUnusedConnectionsAreClosed(t *testing.T) {
	s, p := throughProxy(t, nil)
	if got := s.general.pool.transport.IdleConnTimeout; got != 10*time.Second {
		t.Errorf("closed after %s", got)
	}
	s.general.pool.transport.IdleConnTimeout = 20 * time.Millisecond
	must(t, put(t.Context(), s.General(), "p/a", []byte("x")))
	eventually(t, "the connection is closed", func() bool { return s.GeneralPool().Stats().Open == 0 && p.Open() == 0 })
	must(t, put(t.Context(), s.General(), "p/a", []byte("x")))
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	s, p := throughProxy(t, nil)
	must(t, put(t.Context(), s.General(), "p/a", []byte("hello")))
	const rounds = 10
	for range rounds {
		for op, err := range do(t.Context(), s.General()) {
			if err != nil && op != "get" && op != "range" {
				t.Errorf("%s: %v", op, err)
			}
		}
		if _, err := s.General().Get(t.Context(), "p/none"); !port.IsNotFound(err) {
			t.Error(err)
		}
		if b, err := s.General().GetRange(t.Context(), "p/a", 5, 10); err != nil || len(b) != 0 {
			t.Errorf("%q, %v", b, err)
		}
	}
	// One that is given back a moment late is not found by the next operation, which then
	// makes another. An operation that used its connection up would do so in each round.
	if n := p.Accepted(); n >= rounds {
		t.Errorf("%d connections were made for one operation at a time", n)
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	for range 3 {
		p, err := faultproxy.Start(real.Addr())
		must(t, err)
		cfg := configOf(bucket(t))
		cfg.Endpoint = p.URL()
		s := open(t, cfg)
		for _, f := range []faultproxy.Faults{{}, {CutAnswer: 20}, {BlackHole: true}, {CutRequest: 1000, Reset: true}} {
			must(t, p.Set(f))
			doWithin(t.Context(), timeFor(f), s.General())
			doWithin(t.Context(), timeFor(f), s.Uploads())
		}
		must(t, s.Close())
		must(t, p.Close())
	}
	eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
}

func TestAServerThatDies(t *testing.T) {
	cfg := configOf(bucket(t))
	s := open(t, cfg)
	must(t, put(t.Context(), s.General(), "p/old", bytes.Repeat([]byte("o"), 200_000)))
	must(t, real.Kill())
	for op, err := range do(t.Context(), s.General()) {
		if port.ClassOf(err) != port.Unavailable {
			t.Errorf("%s: %v", op, err)
		}
	}
	must(t, real.Restart())
	for op, err := range do(t.Context(), s.General()) {
		if err != nil {
			t.Errorf("%s when it is back: %v", op, err)
		}
	}
}

// A refusal that comes before the body is the answer, and saves reading it where the
// server ends the connection, as S3 does.
func TestARefusedPutHasItsAnswer(t *testing.T) {
	for _, closes := range []bool{true, false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Expect") != "100-continue" {
				t.Errorf("expects %q", r.Header.Get("Expect"))
			}
			if closes {
				w.Header().Set("Connection", "close")
			}
			w.WriteHeader(http.StatusForbidden)
			if _, err := io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>"); err != nil {
				t.Error(err)
			}
		}))
		cfg := configOf("b")
		cfg.Endpoint = server.URL
		s := open(t, cfg)
		b := make([]byte, 4<<20)
		body := &counted{ReadSeeker: bytes.NewReader(b)}
		err := s.Uploads().Put(t.Context(), "p/a", port.NewBody(body, sum(b)), int64(len(b)), false)
		if port.ClassOf(err) != port.Denied || closes && body.read.Load() != 0 {
			t.Errorf("closes %v: %v, %d bytes read", closes, err, body.read.Load())
		}
		server.Close()
	}
	s := open(t, configOf(bucket(t)))
	s.Keyring().Use(port.Credentials{Source: sourceStatic, AccessKeyID: "nobody", SecretKey: "x"})
	if err := put(t.Context(), s.Uploads(), "p/a", make([]byte, 16<<20)); port.ClassOf(err) != port.Denied {
		t.Errorf("the real server, of somebody it does not know: %v", err)
	}
}

// An error whose body never ends is cut off, and its connection is not used again.
func TestAnEndlessErrorIsCutOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		for r.Method != http.MethodHead && r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	cfg := configOf("b")
	cfg.Endpoint = server.URL
	s := open(t, cfg)
	for op, err := range do(t.Context(), s.General()) {
		if port.ClassOf(err) != port.Unavailable {
			t.Errorf("%s: %v", op, err)
		}
	}
	// The answer to a HEAD has no body: its connection may be used again, and is here.
	if _, err := s.General().Get(t.Context(), "p/a"); port.ClassOf(err) != port.Unavailable {
		t.Error(err)
	}
	atRest(t, s.GeneralPool())
	eventually(t, "no connection is left", func() bool { return s.GeneralPool().Stats().Open == 0 })
}

func TestProbeFailsWhereAWriteWould(t *testing.T) {
	name := bucket(t)
	s := open(t, configOf(name))
	must(t, s.General().Probe(t.Context()))
	if files, err := filepath.Glob(filepath.Join(real.Bucket(name), "[^.]*")); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	missing := open(t, configOf("no-such-bucket"))
	err := missing.General().Probe(t.Context())
	if port.ClassOf(err) != port.NotFound || !strings.Contains(err.Error(), "create the bucket") {
		t.Errorf("without a bucket: %v", err)
	}
	must(t, os.RemoveAll(real.Bucket(name)))
	if err := put(t.Context(), s.General(), "p/a", []byte("x")); port.ClassOf(err) != port.Denied {
		t.Errorf("a put into a bucket that is gone: %v", err)
	}
}

// What has no connection yet ends with its pool, too.
func TestAPoolThatIsClosedWhileItDials(t *testing.T) {
	s := open(t, configOf("b"))
	s.uploads.pool.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	result := make(chan error)
	go func() { result <- put(t.Context(), s.Uploads(), "p/a", []byte("x")) }()
	eventually(t, "it dials", func() bool { return s.UploadPool().Stats().InUse == 1 })
	s.UploadPool().Close()
	if err := <-result; port.ClassOf(err) != port.Unavailable || !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	atRest(t, s.UploadPool())
}
