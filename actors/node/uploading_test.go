package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/manifestreplica"
	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/hooks"
	"millrace/registry"
	"millrace/test/fake/fakemeta"
)

// answering stands in for a replica reader: it answers by a function, or keeps silent.
type answering struct {
	name registry.Name
	reg  *registry.Registry
	give func(ask any) any // nil: silent; nil result: dies
}

func (a *answering) Init(c *actors.Context) error {
	a.reg.Register(c, a.name)
	return nil
}

func (a *answering) Handle(_ *actors.Context, msg any) *actors.Reason {
	req, ok := msg.(*actors.Request)
	if !ok || a.give == nil {
		return nil
	}
	answer := a.give(req.Body)
	if answer == nil {
		return actors.Exit(actors.Crash, "planned")
	}
	req.Reply(answer)
	return nil
}

func (a *answering) Terminate(*actors.Context, actors.Reason) {}

// withReader is a node of the stream s, [0, 40), and its replica reader; start false: none.
func withReader(t *testing.T, start bool, give func(ask any) any) *Node {
	t.Helper()
	n := &Node{system: actors.NewSystem(1), registry: registry.New(), hooks: hooks.New(), manifests: manifestreplica.NewTable()}
	meta := fakemeta.New()
	n.ports.Metadata, n.wish.configured, n.about.Store = meta, true, "directory x"
	n.identity.Node = "n1"
	if _, err := meta.CreateStream(context.Background(), port.Stream{ID: "__s_1", Name: "s", Phase: port.PhaseReady}); err != nil {
		t.Fatal(err)
	}
	l := hooks.NewLog(hooks.LogSpec{Stream: "__s_1", Name: "s", Epoch: 1})
	l.Publish(&segment.Publish{View: segment.View{Committed: 40, Synced: 40, Last: 40, LastChunk: 30}, Segments: []pos.Offset{0}})
	n.hooks.Up(l)
	if start {
		a := &answering{n.name(kindReplicaReader, "__s_1"), n.registry, give}
		if _, err := n.system.Start(context.Background(), actors.Spec{Path: "r", New: func() actors.Process { return a }}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Item 47: whatever state the replica reader is in, the operator is told in words, and in time.
func TestItem47WhoeverIsAskedTheOperatorIsTold(t *testing.T) {
	describes := func(any) any { return upload.Status{Stream: upload.StreamStatus{State: "running"}} }
	for _, c := range []struct {
		what   string
		start  bool
		give   func(any) any
		report string // Error of the report
		why    string
		cut    string
		within time.Duration
	}{
		{"it answers", true, describes, "", "", "", 0},
		{"none", false, nil, "", "does not run yet", "does not run yet", 0},
		{"slow", true, nil, admin.ReaderTimeout, "did not answer within 5s", "(timeout)", 5 * time.Second},
		{"dies", true, func(any) any { return nil }, admin.ReaderDown, "planned", "(reader_down)", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := withReader(t, c.start, c.give)
				defer n.system.Close()
				begin := time.Now()
				s, err := n.Stream(t.Context(), "s")
				if err != nil || s.Upload.Error != c.report || !strings.Contains(s.Upload.Why, c.why) || (s.Upload.Status != nil) != (c.what == "it answers") {
					t.Fatalf("reported %+v, %v", s.Upload, err)
				}
				if took := time.Since(begin); took != c.within {
					t.Errorf("it took %s", took)
				}
				if s.Upload.Node != "n1" || s.Upload.Store.Where != "directory x" || s.Upload.Store.Accessible == "" {
					t.Errorf("reported %+v", s.Upload)
				}
			})
			if c.cut == "" {
				return
			}
			synctest.Test(t, func(t *testing.T) {
				n := withReader(t, c.start, c.give)
				defer n.system.Close()
				_, err := n.CutStream(t.Context(), "s")
				refused(t, err, admin.Unavailable, c.cut)
			})
		})
	}
	n := withReader(t, false, nil)
	defer n.system.Close()
	for _, ask := range []func() error{
		func() error { _, err := n.Stream(t.Context(), "none"); return err },
		func() error { _, err := n.CutStream(t.Context(), "none"); return err },
		func() error { _, err := n.ResetStream(t.Context(), "none"); return err },
		func() error { _, err := n.Durable(t.Context(), "none", 3, 0); return err },
		func() error { _, err := n.Durable(t.Context(), "none", pos.NoOffset, 0); return err },
	} {
		refused(t, ask(), admin.NotFound, `there is no stream "none"`)
	}
}

func refused(t *testing.T, err error, class admin.Class, says string) {
	t.Helper()
	e, ok := errors.AsType[*admin.Error](err)
	if !ok || e.Class != class || !strings.Contains(err.Error(), says) || e.Hint == "" {
		t.Errorf("refused with %v, want %s: %s", err, class, says)
	}
}

func TestCutIsPassedOn(t *testing.T) {
	answer := upload.CutAnswer{First: 20, Next: 40, Bytes: 7, Chunks: 2}
	n := withReader(t, true, func(ask any) any {
		if _, ok := ask.(upload.CutNow); ok {
			return answer
		}
		return nil
	})
	defer n.system.Close()
	if got, err := n.CutStream(t.Context(), "s"); err != nil || got != (admin.CutStatus{Stream: "s", First: 20, Next: 40, Bytes: 7, Chunks: 2}) {
		t.Fatalf("cut %+v, %v", got, err)
	}
	for r, says := range map[upload.CutRefusal]string{
		upload.CutNotResolved: "manifest_not_resolved", upload.CutNoAssembly: "no_assembly",
		upload.CutNoRoom: "no_room", upload.CutUnread: "timeout",
	} {
		answer = upload.CutAnswer{Refused: r, Why: "planned", Next: 40}
		_, err := n.CutStream(t.Context(), "s")
		refused(t, err, admin.Unavailable, says+"): planned")
	}
}

// What a reset gave up is passed on, with a hole even if that is of one record.
func TestResetIsPassedOn(t *testing.T) {
	answer := upload.ResetAnswer{From: 20, Next: 40, Hole: manifest.Gap{From: 60, To: 61}}
	n := withReader(t, true, func(ask any) any {
		if _, ok := ask.(upload.ResetManifest); ok {
			return answer
		}
		return nil
	})
	defer n.system.Close()
	row, err := n.row(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	reset := func() (admin.ResetStatus, error) { return n.reset(t.Context(), row) }
	if got, err := reset(); err != nil || got.Stream != "s" || got.From != 20 || got.Next != 40 || got.Hole == nil || *got.Hole != (admin.Gap{From: 60, To: 61}) {
		t.Fatalf("reset %+v, %v", got, err)
	}
	answer.Hole = manifest.Gap{}
	if got, err := reset(); err != nil || got.Hole != nil {
		t.Fatalf("reset %+v, %v", got, err)
	}
	answer = upload.ResetAnswer{Refused: "planned", Next: pos.NoOffset}
	_, err = reset()
	refused(t, err, admin.Exists, "was not reset: planned")
}

// Without an offset it is what was committed when it was asked.
func TestDurableIsWaitedFor(t *testing.T) {
	var asked upload.AwaitDurable
	n := withReader(t, true, func(ask any) any {
		asked, _ = ask.(upload.AwaitDurable)
		return upload.Durable{Next: 30, Held: asked.Next <= 30, Late: asked.Next > 30}
	})
	defer n.system.Close()
	for next, want := range map[pos.Offset]admin.DurableStatus{
		pos.NoOffset: {Stream: "s", Asked: 40, Next: 30},
		30:           {Stream: "s", Asked: 30, Next: 30, Durable: true, Held: true},
	} {
		got, err := n.Durable(t.Context(), "s", next, 3*time.Second)
		if err != nil || got != want || asked != (upload.AwaitDurable{Next: want.Asked, For: 3 * time.Second}) {
			t.Errorf("%s: %+v after %+v, %v", next, got, asked, err)
		}
	}
	n.hooks.Gone(mustLookup(t, n))
	_, err := n.Durable(t.Context(), "s", pos.NoOffset, 0)
	refused(t, err, admin.Unavailable, "its log does not run")
}

// Who needs all the time that it is given to find out is heard.
func TestAReaderThatTakesItsTimeIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := withReader(t, true, func(ask any) any {
			switch ask := ask.(type) {
			case upload.CutNow:
				<-time.After(ask.For)
				return upload.CutAnswer{Refused: upload.CutUnread}
			case upload.AwaitDurable:
				<-time.After(ask.For)
				return upload.Durable{Next: 30, Late: true}
			}
			return nil
		})
		defer n.system.Close()
		_, err := n.CutStream(t.Context(), "s")
		refused(t, err, admin.Unavailable, "was not cut (timeout)")
		if d, err := n.Durable(t.Context(), "s", 40, time.Minute); err != nil || d.Next != 30 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func mustLookup(t *testing.T, n *Node) *hooks.Log {
	t.Helper()
	l, ok := n.hooks.Lookup("__s_1")
	if !ok {
		t.Fatal("no log")
	}
	return l
}
