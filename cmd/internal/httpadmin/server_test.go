package httpadmin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/actors/admin"
)

// start runs Serve on a free port; stop ends it and returns what Serve returned.
func start(t *testing.T, n admin.Node) (url, tokenFile string, stop func() error) {
	t.Helper()
	cfg := config(n)
	cfg.Listen = "127.0.0.1:0"
	cfg.TokenFile = filepath.Join(t.TempDir(), "data", "admin.token")
	address := make(chan string, 1)
	cfg.Listening = func(addr string) { address <- addr }
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- New(cfg).Serve(ctx) }()
	select {
	case addr := <-address:
		return "http://" + addr, cfg.TokenFile, func() error { cancel(); return <-result }
	case err := <-result:
		t.Fatal(err)
		return "", "", nil
	}
}

func TestServeMakesATokenAndAnswers(t *testing.T) {
	url, tokenFile, stop := start(t, &fakeNode{})
	info, err := os.Stat(tokenFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("token file: %v, %v", info.Mode(), err)
	}
	token, err := ReadToken(tokenFile)
	if err != nil || len(token) != 43 {
		t.Fatalf("token %q, %v", token, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	resp.Body.Close()
	if err := stop(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	ln, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	ln.Close()
}

func TestABusyPortIsAnErrorThatSaysWhatToDo(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg := config(&fakeNode{})
	cfg.Listen, cfg.TokenFile = ln.Addr().String(), filepath.Join(t.TempDir(), "token")
	if err := New(cfg).Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "admin.listen") {
		t.Errorf("got %v", err)
	}
}

func TestStoppingEndsAReadingThatFollowsWithAnErrorLine(t *testing.T) {
	n := &fakeNode{script: []step{batch(0, "amqp:1"), {block: true}}}
	url, tokenFile, stop := start(t, n)
	token, err := ReadToken(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/streams/shop/records?follow=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	rest, err := io.ReadAll(resp.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(rest), `{"error":"the node is stopping"`) {
		t.Errorf("%v\n%s", err, rest)
	}
	if _, c := n.readers(); c != 1 {
		t.Errorf("the reader was closed %d times", c)
	}
}

// slowNode takes its time over a status, whatever the context says.
type slowNode struct {
	*fakeNode
	asked, answer chan struct{}
}

func (n *slowNode) Status(context.Context) admin.NodeStatus {
	close(n.asked)
	<-n.answer
	return admin.NodeStatus{}
}

// The parts of a node are closed behind its surface, so no request may outlive it.
func TestNoRequestOutlivesTheServer(t *testing.T) {
	n := &slowNode{&fakeNode{}, make(chan struct{}), make(chan struct{})}
	url, tokenFile, stop := start(t, n)
	token, err := ReadToken(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	var wg sync.WaitGroup
	wg.Go(func() {
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	})
	<-n.asked
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	select {
	case err := <-stopped:
		t.Errorf("Serve returned %v before its request ended", err)
		stopped <- err
	case <-time.After(stopTime + 500*time.Millisecond):
	}
	close(n.answer)
	if err := <-stopped; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	wg.Wait()
}

func TestTokenFiles(t *testing.T) {
	path := func(text string, mode os.FileMode) string {
		p := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if token, err := loadToken(path("  abcdefghijklmnop \n", 0o600)); err != nil || token != "abcdefghijklmnop" {
		t.Errorf("%q %v", token, err)
	}
	if token, err := loadToken(path("abcdefghijklmnop", 0o640)); err != nil || token == "" {
		t.Errorf("a mounted secret of a group is refused: %v", err)
	}
	for _, c := range []struct {
		path, says string
	}{
		{path("abcdefghijklmnop", 0o644), "chmod 600"},
		{path("", 0o600), "delete it"},
		{path("short", 0o600), "16 or more"},
		{path("abcdefgh ijklmnop", 0o600), "printable"},
		{t.TempDir(), "admin token"},
	} {
		if _, err := loadToken(c.path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %q", err, c.says)
		}
	}
	if _, err := ReadToken("/nonexistent/token"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// However many start at once, one token wins and nobody sees half of it.
func TestATokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "token")
	tokens := make([]string, 8)
	var wg sync.WaitGroup
	for i := range tokens {
		wg.Go(func() {
			var err error
			if tokens[i], err = loadToken(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, got := range tokens {
		if got != tokens[0] || got == "" {
			t.Errorf("tokens differ: %q", tokens)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v %v", left, err)
	}
}
