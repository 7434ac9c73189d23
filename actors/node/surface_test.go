package node

import (
	"context"
	"errors"
	"path"
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
	"millrace/supervision"
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
	if got := n.uploadReasons(row); len(got) != 1 || got[0] != "tiering of stream s is stalled: the root is damaged" {
		t.Errorf("reasons %q", got)
	}
	n, row = bare(t, 0, upload.Status{Stream: upload.StreamStatus{State: "resolving"}})
	if s := n.stream(row); s.RemoteState != admin.RemoteUnknown || s.RemoteWhy == "" || s.First != 0 {
		t.Errorf("with the whole stream on disk: %+v", s)
	}
	if got := n.uploadReasons(row); len(got) != 0 {
		t.Errorf("reading the manifest is a reason: %q", got)
	}
	n.wish.configured = false
	if s := n.stream(row); s.RemoteState != admin.RemoteDisabled || s.RemoteWhy == "" {
		t.Errorf("with tiering off: %+v", s)
	}
}

// Whoever can't read because the readers' supervisor is away hears of that, and not that the
// node is starting.
func TestNoReaders(t *testing.T) {
	n, _ := bare(t, 0, upload.Status{})
	wantHint := func(want string) {
		t.Helper()
		var e *admin.Error
		if err := n.noReaders(); !errors.As(err, &e) || e.Class != admin.Unavailable || !strings.Contains(e.What+"; "+e.Hint, want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	wantHint("starting or stopping")
	root, err := n.system.Start(context.Background(), actors.Spec{Path: "node", New: func() actors.Process { return supervision.New(rootFlags, nil, nil) }})
	if err != nil {
		t.Fatal(err)
	}
	n.root.Store(root)
	wantHint("does not run; millrace tree restart node/readers")
}

// A reader that fails is nobody's to start again, and is not remembered.
func TestAbsences(t *testing.T) {
	var a absences
	failed := supervision.Event{Kind: supervision.EventStartError, Reason: actors.Reason{Kind: actors.Crash}}
	for _, at := range []string{"node/readers", "node/log", "node/captures", "node/tiering/stream_factory", "node/tiering"} {
		failed.Path, failed.ID = at, "x"
		a.note(failed)
		_, is := a.at(at + "/x")
		if want := workers[path.Base(at)] != ""; is != want {
			t.Errorf("%s/x is parked: %v, want %v", at, is, want)
		}
	}
	a.note(supervision.Event{Kind: supervision.EventStarted, Path: "node/log", ID: "x"})
	if _, is := a.at("node/log/x"); is {
		t.Error("what was started again is parked")
	}
}

// The hint fits the failure: what only an operator changes is not to be read again.
func TestHintsFitTheFailure(t *testing.T) {
	const again = "may be tried again"
	for class := fetch.Unavailable; class <= fetch.Superseded; class++ {
		e := &fetch.Error{Class: class}
		onward := class == fetch.Gone || class == fetch.Damaged
		got := hint(e, 42)
		if strings.Contains(got, again) == (e.Lasting() || class == fetch.Gone) || strings.HasSuffix(got, "read on behind it with --from 42") != onward {
			t.Errorf("%s: %s", class, got)
		}
		if got := hint(e, pos.NoOffset); strings.HasSuffix(got, "with --from") != onward {
			t.Errorf("%s, where the end is not known: %s", class, got)
		}
	}
}
