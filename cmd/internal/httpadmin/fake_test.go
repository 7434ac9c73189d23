package httpadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/supervision"
)

const testToken = "0123456789abcdef-token"

// fakeNode answers from its fields.
type fakeNode struct {
	mu        sync.Mutex
	reasons   []string
	streams   map[string]admin.StreamStatus
	script    []step // of every reader it opens
	openErr   error
	opened    []admin.ReadSpec
	closed    int
	created   map[string]map[string]string
	onCreate  error
	told      []string
	wish      admin.Tiering
	claimErr  error
	happened  uint64
	forgotten uint64 // the first of these
	more      chan struct{}
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

// Tree shows what was asked for in the id.
func (n *fakeNode) Tree(q admin.TreeQuery) (admin.TreeNode, error) {
	if q.Path == "node/none" {
		return admin.TreeNode{}, &admin.Error{Class: admin.NotFound, What: "there is no process none"}
	}
	return admin.TreeNode{Node: supervision.Node{ID: fmt.Sprintf("%+v", q)}}, nil
}

func (n *fakeNode) Terminate(_ context.Context, path string) error {
	if path == "node/admin" {
		return &admin.Error{Class: admin.Forbidden, What: "not this one", Hint: "another"}
	}
	n.told = append(n.told, "terminate "+path)
	return nil
}

func (n *fakeNode) Restart(_ context.Context, path string) error {
	n.told = append(n.told, "restart "+path)
	return nil
}

func (n *fakeNode) Registry() []admin.RegistryEntry {
	return []admin.RegistryEntry{{Kind: "reaper"}, {Kind: "writer", ID: "a"}, {Kind: "writer", ID: "b"}, {Kind: "writer", ID: "c"}}
}

func (n *fakeNode) Names(_ context.Context, stream string) ([]admin.RegistryEntry, error) {
	return []admin.RegistryEntry{{Kind: "writer", ID: stream, State: admin.Absent}}, nil
}

// Events has one event for each send on more.
func (n *fakeNode) Events(since uint64) admin.Events {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := admin.Events{Boot: "b", Next: n.happened, More: n.more}
	first := max(since+1, n.forgotten+1)
	if since > 0 {
		e.Missing = first - since - 1
	}
	for seq := first; seq <= n.happened; seq++ {
		e.Events = append(e.Events, admin.Event{Seq: seq, Kind: "restarted"})
	}
	return e
}

func (n *fakeNode) happen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.happened++
	if n.more != nil {
		close(n.more)
	}
	n.more = make(chan struct{})
}

func (n *fakeNode) Tiering() admin.Tiering { return n.wish }

func (n *fakeNode) SetTiering(_ context.Context, enabled bool) (admin.Tiering, error) {
	n.wish = admin.Tiering{Enabled: enabled, By: "operator"}
	return n.wish, nil
}

func (n *fakeNode) ClaimStore(context.Context) (admin.StoreClaim, error) {
	n.told = append(n.told, "claim")
	return admin.StoreClaim{Store: "s3://b/p", Marker: "p/cluster", Cluster: "00000000000000aa", Restored: true}, n.claimErr
}

func (n *fakeNode) SetRetention(_ context.Context, stream string, c admin.Retention) (admin.RetentionStatus, error) {
	text, err := json.Marshal(c)
	n.told = append(n.told, string(text))
	return admin.RetentionStatus{Stream: stream}, err
}

func (n *fakeNode) CutStream(_ context.Context, stream string) (admin.CutStatus, error) {
	if stream == "full" {
		return admin.CutStatus{}, &admin.Error{Class: admin.Unavailable, What: "not cut (no_room)", Hint: "ask again"}
	}
	return admin.CutStatus{Stream: stream, First: 3, Next: 7, Bytes: 100, Chunks: 1}, nil
}

func (n *fakeNode) ResetStream(_ context.Context, stream string) (admin.ResetStatus, error) {
	if stream == "empty" {
		return admin.ResetStatus{}, &admin.Error{Class: admin.Exists, What: "not reset: it is there", Hint: "nothing to do"}
	}
	return admin.ResetStatus{Stream: stream, From: 3, Next: 7}, nil
}

// Durable knows what is below 7 to be durable.
func (n *fakeNode) Durable(ctx context.Context, stream string, next pos.Offset, wait time.Duration) (admin.DurableStatus, error) {
	if until, ok := ctx.Deadline(); !ok || time.Until(until) < wait {
		return admin.DurableStatus{}, errors.New("there is no time to wait")
	}
	if next == pos.NoOffset {
		next = 8
	}
	st := admin.DurableStatus{Stream: stream, Durable: next <= 7, Held: next <= 7, Asked: next, Next: 7}
	if !st.Durable {
		st.Why = "planned"
	}
	return st, nil
}

func (n *fakeNode) Gaps(pos.StreamID) []admin.Gap { return nil }

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
