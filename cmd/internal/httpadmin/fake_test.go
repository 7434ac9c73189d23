package httpadmin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/supervision"
)

const testToken = "0123456789abcdef-token"

// fakeNode answers from its fields.
type fakeNode struct {
	mu       sync.Mutex
	reasons  []string
	streams  map[string]admin.StreamStatus
	script   []step // of every reader it opens
	openErr  error
	opened   []admin.ReadSpec
	closed   int
	created  map[string]map[string]string
	onCreate error
}

// step is what one Pull of a fake reader does; block waits for the context.
type step struct {
	batch admin.Batch
	err   error
	block bool
	until <-chan struct{} // what to wait for first, if not nil
}

func (n *fakeNode) Ready() (bool, []string) { return len(n.reasons) == 0, n.reasons }
func (n *fakeNode) Status(context.Context) admin.NodeStatus {
	return admin.NodeStatus{Node: "n1", Ready: true}
}
func (n *fakeNode) Tree() supervision.Node { return supervision.Node{} }

func (n *fakeNode) Streams(context.Context) ([]admin.StreamStatus, error) {
	var out []admin.StreamStatus
	for _, s := range n.streams {
		out = append(out, s)
	}
	return out, nil
}

func (n *fakeNode) Stream(_ context.Context, name string) (admin.StreamStatus, error) {
	s, ok := n.streams[name]
	if !ok {
		return s, &admin.Error{Class: admin.NotFound, What: "no stream " + name, Hint: "list them with: millrace streams"}
	}
	return s, nil
}

func (n *fakeNode) CreateStream(_ context.Context, name string, args map[string]string) (admin.StreamStatus, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onCreate != nil {
		return admin.StreamStatus{}, n.onCreate
	}
	n.created = map[string]map[string]string{name: args}
	return admin.StreamStatus{Name: name}, nil
}

func (n *fakeNode) Open(_ context.Context, name string, spec admin.ReadSpec) (admin.Reader, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.openErr != nil {
		return nil, n.openErr
	}
	n.opened = append(n.opened, spec)
	return &fakeReader{node: n, script: n.script}, nil
}

func (n *fakeNode) readers() (opened, closed int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.opened), n.closed
}

type fakeReader struct {
	node   *fakeNode
	script []step
}

func (r *fakeReader) Pull(ctx context.Context) (admin.Batch, error) {
	if len(r.script) == 0 {
		return admin.Batch{}, io.EOF
	}
	s := r.script[0]
	r.script = r.script[1:]
	if s.until != nil {
		select {
		case <-s.until:
		case <-ctx.Done():
		}
	}
	if s.block {
		<-ctx.Done()
		return admin.Batch{}, ctx.Err()
	}
	return s.batch, s.err
}

func (r *fakeReader) Close() {
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	r.node.closed++
}

// batch makes the records of one chunk from first on, one for each body; what follows
// "amqp:" becomes the data section of a message.
func batch(first pos.Offset, bodies ...string) step {
	var b admin.Batch
	for i, body := range bodies {
		raw := []byte(body)
		if data, ok := strings.CutPrefix(body, "amqp:"); ok {
			raw = pgout.AppendSection(nil, []byte(data))
		}
		b.Records = append(b.Records, admin.Record{Offset: first + pos.Offset(i), Timestamp: 1772366400000, Epoch: 2, Body: raw})
	}
	return step{batch: b}
}

func config(n admin.Node) Config {
	return Config{
		Node:    n,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "metrics") }),
		Log:     zerolog.Nop(),
	}
}

// serve runs the surface over n on a loopback port until the test ends.
func serve(t *testing.T, n admin.Node) *httptest.Server {
	t.Helper()
	s := &surface{Server: New(config(n)), run: t.Context(), token: testToken}
	srv := httptest.NewServer(s.handler())
	t.Cleanup(srv.Close)
	return srv
}

// call sends one request with the token, and returns status, body and the response.
func call(t *testing.T, srv *httptest.Server, method, path, body string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}
