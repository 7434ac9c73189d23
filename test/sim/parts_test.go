package sim

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/core/pos"
	"millrace/core/segment"
)

var quiet = zerolog.Nop()

// count is how often an effect was met in this life.
func (s *strike) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects[name]
}

// calm ends the faults of this life.
func (s *strike) calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = false
}

// end stops a node in order.
func (w *world) end(n *node.Node, s *strike) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		w.t.Error(err)
	}
	s.stop()
	time.Sleep(time.Minute)
}

// tree shows a part of the node's processes.
func tree(t *testing.T, n *node.Node, path string) admin.TreeNode {
	t.Helper()
	got, err := n.Tree(admin.TreeQuery{Path: path, Limit: admin.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// process finds a live process.
func process(t *testing.T, n *node.Node, path string) *actors.Handle {
	t.Helper()
	h := tree(t, n, path).Handle
	if !h.Alive() {
		t.Fatalf("%s does not run", path)
	}
	return h
}

// publish appends records to a stream's log and returns how long it took until they were
// committed.
func publish(t *testing.T, n *node.Node, stream pos.StreamID, bodies ...string) time.Duration {
	t.Helper()
	return publishTo(t, process(t, n, "node/log/"+stream.String()+"/writer"), bodies...)
}

func publishTo(t *testing.T, writer *actors.Handle, bodies ...string) time.Duration {
	t.Helper()
	a := segment.Append{ExpectNext: pos.NoOffset}
	for _, b := range bodies {
		a.Records = append(a.Records, segment.Record{Body: []byte(b)})
	}
	began := time.Now()
	answer, err := writer.Call(context.Background(), a)
	if _, ok := answer.(segment.Appended); !ok || err != nil {
		t.Errorf("publishing to %s: %v, %v", writer.Path(), answer, err)
	}
	return time.Since(began)
}
