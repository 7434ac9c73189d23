package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/supervision"
)

// Tree is a small node on which one stream's uploads are parked.
func (fakeNode) Tree(q admin.TreeQuery) (admin.TreeNode, error) {
	if q.Path != "" {
		return admin.TreeNode{}, &admin.Error{Class: admin.NotFound, What: "there is no process \"x\" below node", Hint: "millrace tree node shows what there is"}
	}
	at := func(path, state string) supervision.Node {
		return supervision.Node{ID: filepath.Base(path), Path: path, State: state}
	}
	governor := admin.TreeNode{Node: at("node/tiering/governor", "running")}
	governor.Restarts, governor.LastExit, governor.MailboxLen = 2, "crash: boom", 7
	lost := admin.TreeNode{Node: at("node/tiering/stream_factory/__shop_1", admin.StateParked), Label: "shop", Note: "parked: the reconciler starts it again at its next look"}
	lost.LastExit = "5 restarts within its period, the last for crash: boom"
	factory := admin.TreeNode{
		Node: at("node/tiering/stream_factory", "running"), Children: []admin.TreeNode{lost},
		Page: &admin.TreePage{Total: 1000, Matched: 1000, Limit: 1, Troubled: 1},
	}
	return admin.TreeNode{Node: at("node", "running"), Children: []admin.TreeNode{
		{Node: at("node/admin", "running")},
		{Node: at("node/tiering", "running"), Children: []admin.TreeNode{governor, factory, {Node: at("node/tiering/reconciler", "running")}}},
	}}, nil
}

func (fakeNode) Terminate(_ context.Context, path string) error {
	if path == "node/admin" {
		return &admin.Error{Class: admin.Forbidden, What: "the admin surface can't stop itself: nothing could start it again", Hint: "restart the node"}
	}
	return nil
}

func (fakeNode) Restart(context.Context, string) error { return nil }

func (fakeNode) Registry() []admin.RegistryEntry {
	return []admin.RegistryEntry{{Kind: "governor", Node: "n1", State: admin.Registered, Path: "node/tiering/governor", Incarnation: 12}}
}

func (fakeNode) Names(_ context.Context, stream string) ([]admin.RegistryEntry, error) {
	return []admin.RegistryEntry{
		{Kind: "writer", ID: "__shop_1", Label: stream, Node: "n1", State: admin.Registered, Path: "node/log/__shop_1/writer", Incarnation: 9, MailboxLen: 3},
		{Kind: "replica_reader", ID: "__shop_1", Label: stream, Node: "n1", State: admin.Absent},
	}, nil
}

func (fakeNode) Events(since uint64) admin.Events {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	all := []admin.Event{
		{Seq: 1, Time: at, Kind: "started", Path: "node/tiering/governor", Incarnation: 3, Intensity: 3},
		{Seq: 2, Time: at, Kind: "child_terminated", Path: "node/log/__shop_1/writer", Label: "shop", Incarnation: 4, Reason: "crash: boom", Stack: "goroutine 1", Trouble: true, Restarts: 1, Intensity: 5},
	}
	if since == 99 {
		return admin.Events{Boot: "b", Events: all[1:], Next: 101, Missing: 1}
	}
	return admin.Events{Boot: "b", Events: all[min(since, 2):], Next: 2}
}

func (fakeNode) Tiering() admin.Tiering {
	return admin.Tiering{Enabled: true, By: "operator", State: "undefined: shutdown"}
}

func (fakeNode) SetTiering(_ context.Context, enabled bool) (admin.Tiering, error) {
	return admin.Tiering{Enabled: enabled, By: "operator", State: map[bool]string{true: "enabled", false: "disabled by the operator"}[enabled]}, nil
}

func (fakeNode) ClaimStore(context.Context) (admin.StoreClaim, error) {
	return admin.StoreClaim{Store: "s3://acme/millrace", Marker: "millrace/cluster", Cluster: "00000000000000aa", Restored: true}, nil
}

func (fakeNode) SetRetention(_ context.Context, stream string, c admin.Retention) (admin.RetentionStatus, error) {
	s := admin.RetentionStatus{Stream: stream, Own: map[string]string{}, Effective: segment.Retention{LocalMinBytes: 1 << 30}}
	if c.MaxBytes != nil {
		s.Own["max-length-bytes"], s.Effective.MaxBytes = fmt.Sprint(*c.MaxBytes), 10<<30
		s.Notes = []string{"max-length-bytes of 64GiB has no effect: the node's retention.max_bytes is 10GiB"}
	}
	if c.MaxAge != nil {
		s.Effective.MaxAge, s.Applied = *c.MaxAge, true
	}
	return s, nil
}

func (fakeNode) Gaps(pos.StreamID) []admin.Gap { return nil }

// Nothing that a page leaves out is left out in silence.
func TestAPageSaysWhatItLeavesOut(t *testing.T) {
	for _, c := range []struct {
		page         *admin.TreePage
		shown        int
		before, rest string
	}{
		{nil, 3, "", ""},
		{&admin.TreePage{Total: 3, Matched: 3}, 3, "", ""},
		{&admin.TreePage{}, 0, "", ""},
		{&admin.TreePage{Total: 5, Matched: 5, Troubled: 1}, 2, "", "... 3 more of 5, 1 in trouble"},
		{&admin.TreePage{Total: 5, Matched: 5, Offset: 1}, 2, "... 1 before these", "... 2 more of 5, 0 in trouble"},
		{&admin.TreePage{Total: 5, Matched: 5, Offset: 3}, 2, "... 3 before these", "... 5 in all, 0 in trouble"},
		{&admin.TreePage{Total: 5, Matched: 5, Offset: 100}, 0, "", "... 5 before the offset, none from it on: 5 in all, 0 in trouble"},
		{&admin.TreePage{Total: 5, Matched: 2, Offset: 2}, 0, "", "... 2 before the offset, none from it on: 2 of 5 have the name that is searched for"},
		{&admin.TreePage{Total: 9, Matched: 4, Offset: 1}, 1, "... 1 before these", "... 2 more: 4 of 9 have the name that is searched for"},
		{&admin.TreePage{Total: 5, Matched: 0}, 0, "", "... 0 of 5 have the name that is searched for"},
		{&admin.TreePage{Total: 5, Matched: 2}, 2, "", "... 2 of 5 have the name that is searched for"},
	} {
		before, rest := pageWords(c.page, c.shown)
		if before != c.before || rest != c.rest {
			t.Errorf("%+v with %d shown: %q and %q, want %q and %q", c.page, c.shown, before, rest, c.before, c.rest)
		}
	}
}

// Each factory says what of it is not shown, around what is.
func TestEachFactorySaysWhatItLeavesOut(t *testing.T) {
	factory := func(id string, page admin.TreePage, children ...string) admin.TreeNode {
		f := admin.TreeNode{Node: supervision.Node{ID: id, Path: "node/" + id}, Page: &page}
		for _, c := range children {
			f.Children = append(f.Children, admin.TreeNode{Node: supervision.Node{ID: c}})
		}
		return f
	}
	var rows [][]string
	treeRows(&rows, admin.TreeNode{Children: []admin.TreeNode{
		factory("log", admin.TreePage{Total: 9, Matched: 9, Offset: 2}, "a", "b"),
		factory("readers", admin.TreePage{Total: 1, Matched: 1, Offset: 2}),
	}}, "", "", "node")
	var got []string
	for _, r := range rows {
		got = append(got, r[0])
	}
	want := []string{
		"node",
		"├── log", "│   ├── ... 2 before these", "│   ├── a", "│   ├── b", "│   └── ... 5 more of 9, 0 in trouble",
		"└── readers", "    └── ... 1 before the offset, none from it on: 1 in all, 0 in trouble",
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed are\n%s", strings.Join(got, "\n"))
	}
}
