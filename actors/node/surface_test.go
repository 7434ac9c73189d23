package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/manifestreplica"
	"millrace/actors/port"
	"millrace/core/fetch"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/hooks"
	"millrace/registry"
)

// replicaReader stands in for the stream's.
type replicaReader struct {
	name   registry.Name
	reg    *registry.Registry
	status upload.Status
}

func (r *replicaReader) Init(c *actors.Context) error {
	c.SetStatus(r.status)
	if !r.reg.Register(c, r.name) {
		return errors.New("the name is taken")
	}
	return nil
}

func (r *replicaReader) Handle(*actors.Context, any) *actors.Reason { return nil }

func (r *replicaReader) Terminate(*actors.Context, actors.Reason) {}

// bare is a node of one stream, whose log is [first, 40), and nothing else.
func bare(t *testing.T, first pos.Offset, status upload.Status) (*Node, port.Stream) {
	t.Helper()
	n := &Node{system: actors.NewSystem(1), registry: registry.New(), hooks: hooks.New(), manifests: manifestreplica.NewTable()}
	t.Cleanup(n.system.Close)
	n.wish.configured = true
	l := hooks.NewLog(hooks.LogSpec{Stream: "__s_1", Name: "s", Epoch: 1})
	l.Publish(&segment.Publish{View: segment.View{First: first, Committed: 40, Synced: 40, Last: 40, LastChunk: 30}, Segments: []pos.Offset{first}})
	n.hooks.Up(l)
	_, err := n.system.Start(context.Background(), actors.Spec{Path: "r", New: func() actors.Process {
		return &replicaReader{n.name(kindReplicaReader, "__s_1"), n.registry, status}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return n, port.Stream{ID: "__s_1", Name: "s"}
}

// A stream whose manifest is not known does not look complete: the status says that, and
// why, and the node is not ready.
func TestAStreamWhoseManifestIsNotKnown(t *testing.T) {
	stalled := upload.Status{Stream: upload.StreamStatus{State: "stalled", Why: "the root is damaged"}}
	n, row := bare(t, 20, stalled)
	s := n.stream(row)
	if s.RemoteState != admin.RemoteUnknown || !strings.Contains(s.RemoteWhy, "the root is damaged") || s.First != pos.NoOffset || s.LocalFirst != 20 {
		t.Errorf("status %+v", s)
	}
	if got := n.tieringReasons(); len(got) != 1 || got[0] != "tiering of stream s is stalled: the root is damaged" {
		t.Errorf("reasons %q", got)
	}
	n, row = bare(t, 0, upload.Status{Stream: upload.StreamStatus{State: "resolving"}})
	if s := n.stream(row); s.RemoteState != admin.RemoteUnknown || s.RemoteWhy == "" || s.First != 0 {
		t.Errorf("with the whole stream on disk: %+v", s)
	}
	if got := n.tieringReasons(); len(got) != 0 {
		t.Errorf("reading the manifest is a reason: %q", got)
	}
	n.wish.configured = false
	if s := n.stream(row); s.RemoteState != admin.RemoteDisabled || s.RemoteWhy == "" {
		t.Errorf("with tiering off: %+v", s)
	}
}

// The hint fits the failure: what only an operator changes is not to be read again.
func TestHintsFitTheFailure(t *testing.T) {
	const again = "may be tried again"
	for class := fetch.Unavailable; class <= fetch.Superseded; class++ {
		e := &fetch.Error{Class: class}
		if got := hint(e); strings.Contains(got, again) == e.Lasting() {
			t.Errorf("%s: %s", class, got)
		}
	}
}
