package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/cmd/internal/httpadmin"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/renew"
)

var update = flag.Bool("update", false, "write testdata anew")

// fakeNode holds two streams and answers as a node would.
type fakeNode struct{}

func (fakeNode) Ready() (bool, []string)    { return false, []string{"capture shop: server refused"} }
func (fakeNode) list() []admin.StreamStatus { return []admin.StreamStatus{shop(), empty()} }

func shop() admin.StreamStatus {
	return admin.StreamStatus{
		ID: "__shop_1772366400000000000", Name: "shop", Epoch: 4, State: "running",
		First: 0, Next: 1234567, LocalFirst: 1200000, LocalBytes: 300 << 20,
		RemoteState: admin.RemoteKnown, RemoteFirst: 0, SeamNext: 1234000, RemoteBytes: 9 << 30,
		Undeclared: []admin.Gap{{From: 1234000, To: 1234100}},
		Local:      map[string]any{"state": "running", "committed": int64(9007199254740993), "retention": map[string]any{"max_bytes": 0}},
		Tiering:    map[string]any{"in_flight": 2, "anchored": true, "gaps": []int{}},
		Upload:     uploads(),
	}
}

func empty() admin.StreamStatus {
	return admin.StreamStatus{
		ID: "__büro_1", Name: "büro", State: "waiting", Why: "disk full", First: -1, Next: 40, LocalFirst: 20, RemoteFirst: -1, SeamNext: -1,
		RemoteState: admin.RemoteUnknown, RemoteWhy: "waiting: the manifest is not in the object store",
		Upload: &admin.UploadReport{Node: "n1", Store: admin.StoreStatus{Where: "directory /mnt/store", Accessible: "unknown"}, Error: admin.ReaderTimeout, Why: "the replica reader did not answer within 5s"},
	}
}

func (fakeNode) Status(context.Context) admin.NodeStatus {
	return admin.NodeStatus{
		Node: "n1", Version: "v1.2.3", Cluster: "00000000000000aa", Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		DataDir: "/var/lib/millrace", DiskFree: 5 << 30, Store: "s3 bucket", Access: "no (access denied): object store: put p/a: denied: AccessDenied: no such key",
		Credentials: &renew.Status{State: renew.StateExpiring, Source: "profile backup", AccessKeyID: "AKIA1", Expires: 1772366400000, Why: "the source refuses"},
		Pools: []admin.Pool{
			{Name: "upload", PoolStats: port.PoolStats{Max: 20, Open: 3, InUse: 2, Waiting: 1}},
			{Name: "general", Closed: "the process general_pool does not run"},
		},
		Tiering: "enabled",
		Streams: 2, Captures: 1, Zombies: 1, Reasons: []string{"capture shop: server refused"},
		Parts: map[string]any{"governor": map[string]any{"queued": 3}},
	}
}

func (n fakeNode) Streams(context.Context) ([]admin.StreamStatus, error) { return n.list(), nil }

func (n fakeNode) Stream(_ context.Context, name string) (admin.StreamStatus, error) {
	for _, s := range n.list() {
		if s.Name == name {
			return s, nil
		}
	}
	return admin.StreamStatus{}, &admin.Error{Class: admin.NotFound, What: fmt.Sprintf("there is no stream %q", name), Hint: "list them with: millrace streams"}
}

func (n fakeNode) CreateStream(ctx context.Context, name string, args map[string]string) (admin.StreamStatus, error) {
	if _, err := n.Stream(ctx, name); err == nil {
		return admin.StreamStatus{}, &admin.Error{Class: admin.Exists, What: fmt.Sprintf("there is a stream %q already", name)}
	}
	return admin.StreamStatus{Name: name, ID: fmt.Sprintf("__%s_1%v", name, args["k"])}, nil
}

func (n fakeNode) Open(ctx context.Context, name string, spec admin.ReadSpec) (admin.Reader, error) {
	if _, err := n.Stream(ctx, name); err != nil {
		return nil, err
	}
	return &fakeReader{breaks: name == "büro"}, nil
}

// fakeReader moves once, yields three records, and ends or breaks off.
type fakeReader struct {
	pulls  int
	breaks bool
}

func (r *fakeReader) Pull(context.Context) (admin.Batch, error) {
	r.pulls++
	switch {
	case r.pulls == 1:
		b := admin.Batch{Moved: &admin.Moved{From: 0, To: 5, Why: "retention"}}
		for o := pos.Offset(5); o < 8; o++ {
			b.Records = append(b.Records, admin.Record{Offset: o, Timestamp: 1772366400000, Epoch: 4, Body: pgout.AppendSection(nil, []byte(`{"op":"c"}`))})
		}
		return b, nil
	case r.breaks:
		return admin.Batch{}, &admin.Error{Class: admin.Unavailable, What: "a fragment cannot be read", Hint: "look at the store"}
	}
	return admin.Batch{}, io.EOF
}

func (r *fakeReader) Close() {}

// running serves fakeNode by the real HTTP surface, and returns the flags that reach it.
func running(t *testing.T) []string {
	t.Helper()
	tokenFile := filepath.Join(t.TempDir(), "admin.token")
	address, ended := make(chan string, 1), make(chan error, 1)
	srv := httpadmin.New(httpadmin.Config{
		Listen: "127.0.0.1:0", TokenFile: tokenFile, Node: fakeNode{}, Metrics: http.NotFoundHandler(),
		Log: zerolog.Nop(), Listening: func(a string) { address <- a },
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-address:
		return []string{"--admin", "http://" + a, "--token-file", tokenFile}
	case err := <-ended:
		t.Fatal(err)
		return nil
	}
}

// transcript runs one command line and shows it as a terminal would.
func transcript(args []string, hide ...string) string {
	var out, err strings.Builder
	code := execute(args, &out, &err)
	text := "$ millrace " + strings.Join(args, " ") + "\n" + out.String()
	for line := range strings.Lines(err.String()) {
		text += "! " + line
	}
	text += fmt.Sprintf("exit %d\n\n", code)
	return strings.NewReplacer(hide...).Replace(text)
}

// The whole command line as a user sees it: testdata/cli.txt, reviewed as a diff.
func TestTranscript(t *testing.T) {
	flags := running(t)
	token := flags[3]
	hide := []string{" " + strings.Join(flags, " "), "", flags[1], "URL", token, "TOKENFILE", filepath.Dir(token), "DIR"}
	bad := filepath.Join(filepath.Dir(token), "bad.toml")
	good := filepath.Join(filepath.Dir(token), "good.toml")
	for path, text := range map[string]string{
		bad:  "[log]\nsync = \"sometimes\"\n[[capture]]\nname = \"a\"\n",
		good: "[[capture]]\nname = \"shop\"\nurl = \"postgres://u:p@h/shop\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	for _, args := range [][]string{
		{"status"}, {"status", "--json"}, {"status", "shop"}, {"status", "büro"}, {"status", "none"}, {"status", "a/b?c"}, {"status", "a", "b"},
		{"status", "shop", "--json"},
		{"stream", "cut", "shop"}, {"stream", "cut", "shop", "--wait"}, {"stream", "cut", "shop", "--wait", "--json"}, {"stream", "cut", "lost", "--wait"}, {"stream", "cut", "idle", "--wait"}, {"stream", "cut", "empty", "--wait"},
		{"stream", "cut", "slow", "--wait", "--timeout", "1ms"}, {"stream", "cut", "büro"}, {"stream", "cut", "none"}, {"stream", "cut"},
		{"stream", "cut", "shop", "--timeout", "soon"}, {"stream", "reset", "shop"}, {"stream", "reset", "none"}, {"stream", "reset"},
		{"streams"}, {"streams", "extra"},
		{"stream", "create", "new", "--arg", "k=7"}, {"stream", "create", "shop"}, {"stream", "create"}, {"stream", "create", "x", "--arg", "k"},
		{"stream", "create", "new", "--json"},
		{"read", "shop"}, {"read", "shop", "--json", "--limit", "1"}, {"read", "shop", "--from", "6", "-n", "1"},
		{"read", "büro"}, {"read", "none"}, {"read", "shop", "--from", "yesterday"}, {"read", "shop", "--limit", "0"}, {"read"},
		{"read", "shop", "--from", "2026-03-01T13:00:00+01:00"},
		{"tree"}, {"tree", "node/x"}, {"tree", "restart", "node/tiering/governor"}, {"tree", "terminate", "node/admin"}, {"tree", "terminate"},
		{"registry"}, {"registry", "shop"}, {"events"}, {"events", "--since", "1", "--json"}, {"events", "--since", "99"}, {"events", "--since", "99", "--json"},
		{"tiering", "disable"}, {"tiering", "enable"}, {"tiering", "status"}, {"tiering", "claim"}, {"tiering", "enable", "x"},
		{"stream", "retention", "shop"}, {"stream", "retention", "shop", "--max-bytes", "64GiB"},
		{"stream", "retention", "shop", "--max-age", "36h", "--local-min-bytes", "default"}, {"stream", "retention", "shop", "--max-age", "soon"},
		{"nonsense"}, {"status", "--nonsense"}, {"status", "--config", bad},
	} {
		got.WriteString(transcript(append(args, flags...), hide...))
	}
	for _, args := range [][]string{
		{"config", "check"}, {"config", "check", good}, {"config", "check", bad}, {"config", "check", good, "--json"}, {"config", "check", "/nonexistent"},
		{"status", "--admin", flags[1], "--token-file", "/nonexistent"},
		{"status", "--admin", "127.0.0.1:1", "--token-file", token},
		{"read", "--help"},
	} {
		got.WriteString(transcript(args, hide...))
	}
	golden(t, "testdata/cli.txt", got.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at the difference, then run: go test ./cmd/millrace -update\ngot:\n%s", path, got)
	}
}

// A server that is no node, or breaks off without a word, is never taken for a success.
func TestAnswersThatAreNotWholeFail(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	record := `{"offset":7,"timestamp":"2026-03-01T12:00:00.000Z","epoch":1,"record":{}}` + "\n"
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		out    string
		says   []string
	}{
		{"no trailer", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, record) }, record,
			[]string{"the connection ended before the answer did", "go on with: millrace read shop --from 8"}},
		{"aborted without a word", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, record+`{"offset":8,"ti`)
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			panic(http.ErrAbortHandler)
		}, record, []string{"unexpected EOF", "--from 8"}},
		{"nothing at all", func(http.ResponseWriter, *http.Request) {}, "", []string{"nothing was printed"}},
		{"an error before anything", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"error":"the store is down","hint":"the same read may be tried again"}`+"\n")
		}, "", []string{"reading broke off: the store is down\n  the same read may be tried again\n$"}},
		{"an error behind a record", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, record+`{"error":"the store is down","hint":"look at the store"}`+"\n")
		}, record, []string{"look at the store\n  go on with: millrace read shop --from 8 --admin http://127.0.0.1:"}},
		{"another server", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusTeapot) }, "",
			[]string{"not an answer of Millrace", "is --admin right?"}},
		{"a wrong token", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"the token is missing or wrong"}`)
		}, "", []string{"does not take the token in " + tokenFile, "--token-file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(c.answer)
			defer srv.Close()
			var out, stderr strings.Builder
			code := execute([]string{"read", "shop", "--admin", srv.URL + "/", "--token-file", tokenFile}, &out, &stderr)
			if code != exitFailed || out.String() != c.out {
				t.Errorf("exit %d, printed %q", code, out.String())
			}
			for _, want := range c.says {
				if !strings.Contains(stderr.String()+"$", want) {
					t.Errorf("%q is not said in: %s", want, stderr.String())
				}
			}
		})
	}
}

// Following ends by an interruption; a reading of what there is should not have.
func TestAnInterruptionEndsFollowingOnly(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"offset":41,"record":1}`+"\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		<-r.Context().Done()
	}))
	defer srv.Close()
	var out interrupter
	g := &globals{admin: srv.URL, tokenFile: tokenFile, out: &out, err: io.Discard}
	out.interrupt = interrupt
	if err := read(ctx, g, reading{stream: "shop", from: "first", follow: true}); err != nil {
		t.Errorf("following: %v", err)
	}
	ctx, out.interrupt = context.WithCancel(t.Context())
	err := read(ctx, g, reading{stream: "shop", from: "first"})
	var f *failure
	if !errors.As(err, &f) || f.what != "interrupted" || !strings.Contains(f.hint, "--from 42") {
		t.Errorf("reading: %+v", err)
	}
}

// An interruption before the node has answered is one, and no failure of the node.
func TestAnInterruptionBeforeTheAnswer(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer srv.Close()
	g := &globals{admin: srv.URL, tokenFile: tokenFile, out: io.Discard, err: io.Discard}
	if err := read(ctx, g, reading{stream: "shop", from: "first", follow: true}); err != nil {
		t.Errorf("following: %v", err)
	}
	ctx, interrupt = context.WithCancel(t.Context())
	defer interrupt()
	var f *failure
	if err := read(ctx, g, reading{stream: "shop", from: "first"}); !errors.As(err, &f) || f.what != "interrupted" {
		t.Errorf("reading: %+v", err)
	}
}

// interrupter is an output that interrupts the command once something is printed.
type interrupter struct{ interrupt func() }

func (w *interrupter) Write(p []byte) (int, error) {
	w.interrupt()
	return len(p), nil
}

func TestANodeThatIsDownIsNamed(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr strings.Builder
	code := execute([]string{"status", "--admin", srv.URL, "--token-file", tokenFile}, &out, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "cannot reach the node at "+srv.URL) || !strings.Contains(stderr.String(), "millrace run") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
	if strings.Contains(stderr.String(), "millrace run --") {
		t.Errorf("it names a flag that run does not take, or that was not given: %s", stderr.String())
	}
	config := filepath.Join(t.TempDir(), "millrace.toml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	execute([]string{"status", "--config", config, "--admin", srv.URL, "--token-file", tokenFile}, &out, &stderr)
	if want := "start it with: millrace run --config " + config + ", or"; !strings.Contains(stderr.String(), want) {
		t.Errorf("want %q in: %s", want, stderr.String())
	}
}

// A node that is just being started is waited for: its folder, its token and its port.
func TestACommandWaitsForANodeThatComesUp(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen, data := ln.Addr().String(), filepath.Join(dir, "data")
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "m.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[node]\ndata_dir = %q\n[admin]\nlisten = %q\n", data, listen), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr strings.Builder
	if code := execute([]string{"streams", "--config", file}, &out, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "admin token") {
		t.Fatalf("without a node: exit %d: %s", code, stderr.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	time.AfterFunc(2*lookAgain, func() { ended <- os.Mkdir(data, 0o700) })
	time.AfterFunc(folderTime+2*lookAgain, func() {
		ended <- httpadmin.New(httpadmin.Config{
			Listen: listen, TokenFile: filepath.Join(data, "admin.token"), Node: fakeNode{}, Metrics: http.NotFoundHandler(), Log: zerolog.Nop(),
		}).Serve(ctx)
	})
	stderr.Reset()
	if code := execute([]string{"streams", "--config", file}, &out, &stderr); code != 0 || !strings.Contains(out.String(), "shop") {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
	cancel()
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
}

// An answer without a record says where the stream ends, lest a wrong offset look like a quiet stream.
func TestNothingToPrintIsSaid(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	for status, says := range map[string]string{
		`{"name":"shop","first":3,"next":12}`: "stream shop ends at offset 11\n", `{"name":"shop","first":-1,"next":0}`: "stream shop holds no records yet\n",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/records") {
				fmt.Fprint(w, status)
				return
			}
			w.Header().Set(http.TrailerPrefix+httpadmin.CompleteTrailer, "true")
		}))
		for from, want := range map[string]string{"99999999": says, "2026-03-01T12:00:00Z": says, "next": ""} {
			var out, stderr strings.Builder
			code := execute([]string{"read", "shop", "--from", from, "--admin", srv.URL, "--token-file", tokenFile}, &out, &stderr)
			if code != 0 || out.Len() > 0 || !strings.HasSuffix(stderr.String(), want) || want == "" && stderr.Len() > 0 {
				t.Errorf("%s: exit %d, %q, %q", from, code, out.String(), stderr.String())
			}
		}
		srv.Close()
	}
}

func TestFlagsAreGivenAsAShellTakesThem(t *testing.T) {
	g := &globals{config: "/etc/it's here/m.toml", tokenFile: "t"}
	if got := g.reaching(); got != ` --config '/etc/it'\''s here/m.toml' --token-file t` {
		t.Errorf("got %s", got)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	flags := running(t)
	for _, args := range [][]string{{"read", "shop"}, {"streams"}, {"streams", "--json"}, {"version", "--json"}} {
		var stderr strings.Builder
		if code := execute(append(args, flags...), fullDisk{}, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: exit %d: %s", args, code, stderr.String())
		}
	}
}

// A record that is longer than any buffer comes out whole.
func TestALongLineIsCopiedWhole(t *testing.T) {
	long := `{"offset":1,"data":"` + strings.Repeat("x", 1<<20) + "\"}\n"
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", httpadmin.CompleteTrailer)
		fmt.Fprint(w, long+long)
		w.Header().Set(httpadmin.CompleteTrailer, "true")
	}))
	defer srv.Close()
	var out, stderr strings.Builder
	if code := execute([]string{"read", "shop", "--admin", srv.URL, "--token-file", tokenFile}, &out, &stderr); code != 0 || out.String() != long+long {
		t.Errorf("exit %d, %d bytes: %s", code, out.Len(), stderr.String())
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{-1: "unknown", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB", 1 << 62: "4096.0 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	var out, stderr strings.Builder
	if code := execute([]string{"version"}, &out, &stderr); code != 0 || !strings.HasPrefix(out.String(), "millrace ") {
		t.Errorf("exit %d: %s%s", code, out.String(), stderr.String())
	}
}
