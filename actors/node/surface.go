package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/registry"
	"millrace/supervision"
)

// createWait bounds how long CreateStream waits for the stream's log to run.
const createWait = 10 * time.Second

// The kinds of the registry's names that the surface looks up. The roles register
// under them.
const (
	kindWriter        = "writer"
	kindReplicaReader = "replica_reader"
	kindCapturer      = "capturer"
)

// Status implements admin.Node.
func (n *Node) Status(ctx context.Context) admin.NodeStatus {
	s := admin.NodeStatus{
		Node: n.node().String(), Version: n.about.Version, Cluster: n.cluster.ID.String(), Boot: n.identity.Nonce.String(),
		Started: n.started, DataDir: n.cfg.Node.DataDir, DiskFree: -1, Store: n.about.Store,
		Tiering: n.tieringState(), FragmentBytes: n.cfg.Tiering.FragmentBytes, Captures: len(n.cfg.Captures), Zombies: n.system.Zombies(), Parts: map[string]any{},
	}
	if free, err := n.ports.Disk.Free(); err == nil {
		s.DiskFree = free
	}
	if streams, err := n.ports.Metadata.Streams(ctx); err == nil {
		s.Streams = len(streams)
	}
	s.Ready, s.Reasons = n.Ready()
	n.store(&s)
	n.parts(n.root.Load(), s.Parts)
	return s
}

// parts collects what the workers that are not one stream's publish.
func (n *Node) parts(sup *actors.Handle, into map[string]any) {
	for _, c := range supervision.Look(sup) {
		_, isFactory := factories[c.ID]
		switch {
		case isFactory || c.Handle == nil:
		case c.Kind == supervision.Supervisor.String():
			n.parts(c.Handle, into)
		default:
			if s := c.Handle.Status(); s != nil {
				into[c.ID] = s
			}
		}
	}
}

// Streams implements admin.Node.
func (n *Node) Streams(ctx context.Context) ([]admin.StreamStatus, error) {
	rows, err := n.ports.Metadata.Streams(ctx)
	if err != nil {
		return nil, unavailable("listing the streams", err)
	}
	all := make([]admin.StreamStatus, 0, len(rows))
	for _, row := range rows {
		all = append(all, n.stream(row))
	}
	slices.SortFunc(all, func(a, b admin.StreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Stream implements admin.Node.
func (n *Node) Stream(ctx context.Context, name string) (admin.StreamStatus, error) {
	row, err := n.row(ctx, name)
	if err != nil {
		return admin.StreamStatus{}, err
	}
	s := n.stream(row)
	s.Upload = n.uploadReport(ctx, row)
	return s, nil
}

// row finds a stream by its name, or by its id, as metrics and logs have it.
func (n *Node) row(ctx context.Context, name string) (port.Stream, error) {
	row, err := n.ports.Metadata.StreamByName(ctx, name)
	if port.IsNotFound(err) {
		if known, ok := n.rows.toRun(name); ok {
			name = known.Name
			row, err = n.ports.Metadata.StreamByName(ctx, name)
		}
	}
	if port.IsNotFound(err) {
		return row, &admin.Error{Class: admin.NotFound, What: fmt.Sprintf("there is no stream %q", name), Hint: "millrace streams lists them; millrace stream create makes one"}
	}
	if err != nil {
		return row, unavailable(fmt.Sprintf("looking up stream %q", name), err)
	}
	return row, nil
}

// CreateStream implements admin.Node.
func (n *Node) CreateStream(ctx context.Context, name string, args map[string]string) (admin.StreamStatus, error) {
	if known, ok := n.rows.toRun(name); ok {
		return admin.StreamStatus{}, &admin.Error{Class: admin.Exists, What: fmt.Sprintf("%q is the id of the stream %q", name, known.Name), Hint: "choose another name"}
	}
	row, err := n.createStream(ctx, name, args)
	switch {
	case port.IsConflict(err):
		return admin.StreamStatus{}, &admin.Error{Class: admin.Exists, What: fmt.Sprintf("there is a stream %q already", name)}
	case port.ClassOf(err) == port.UnknownOutcome, port.ClassOf(err) == port.Unavailable:
		return admin.StreamStatus{}, unavailable(fmt.Sprintf("creating stream %q", name), err)
	case err != nil && isMetadata(err):
		return admin.StreamStatus{}, &admin.Error{Class: admin.Internal, What: fmt.Sprintf("creating stream %q", name), Err: err}
	case err != nil:
		return admin.StreamStatus{}, &admin.Error{Class: admin.Invalid, What: fmt.Sprintf("stream %q can't be created", name), Err: err}
	}
	n.poke()
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	if _, err := n.hooks.Await(ctx, row.ID); err != nil {
		return admin.StreamStatus{}, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("stream %q is created", name), Hint: "millrace status " + name + " tells what its log waits for", Err: err}
	}
	return n.stream(row), nil
}

func isMetadata(err error) bool {
	_, is := errors.AsType[*port.MetadataError](err)
	return is
}

func unavailable(what string, err error) error {
	return &admin.Error{Class: admin.Unavailable, What: what, Hint: "ask again in a moment", Err: err}
}

// stream gathers what a stream's processes publish. It waits for none of them.
func (n *Node) stream(row port.Stream) admin.StreamStatus {
	s := admin.StreamStatus{
		ID: row.ID.String(), Name: row.Name, Epoch: row.Epoch, State: "stopped",
		First: pos.NoOffset, Next: pos.NoOffset, LocalFirst: pos.NoOffset, RemoteFirst: pos.NoOffset, SeamNext: pos.NoOffset,
	}
	if w, ok := n.registry.WhereIs(n.name(kindWriter, s.ID)); ok {
		s.Local = w.Status()
		if local, ok := s.Local.(segment.Status); ok {
			s.State, s.Why = local.State, local.Why
		}
	}
	if l, ok := n.hooks.Lookup(row.ID); ok {
		s.Epoch, s.First, s.Next, s.LocalBytes = l.Epoch, l.First(), l.Committed(), l.Bytes()
		s.LocalFirst = s.First
	}
	n.remote(&s)
	s.Tiering = n.published(kindReplicaReader, s.ID)
	s.Undeclared = undeclared(s)
	if s.Feed = n.captureOf(row.Name); s.Feed != "" {
		s.Capture = n.published(kindCapturer, s.Feed)
	}
	s.Trouble = n.trouble(s)
	return s
}

// remote adds what the object store holds. Where that is not known, nor is the oldest
// offset, unless the local log still has the stream's first record.
func (n *Node) remote(s *admin.StreamStatus) {
	id := pos.StreamID(s.ID)
	r, ok := n.manifests.Manifest(id)
	switch {
	case !n.wish.enabled():
		s.RemoteState, s.RemoteWhy = admin.RemoteDisabled, "tiering is disabled: nobody looks at what the object store holds"
	case !ok || r.State != manifest.StateResolved:
		s.RemoteState, s.RemoteWhy = admin.RemoteUnknown, n.remoteWhy(id)
		if s.First > 0 {
			s.First = pos.NoOffset
		}
	default:
		s.RemoteState = admin.RemoteKnown
		m := r.Manifest
		if m.Next > 0 {
			s.SeamNext = m.Next // also where retention has taken all that was there
		}
		if len(m.Entries) > 0 {
			s.RemoteFirst, s.RemoteBytes, s.Gaps = m.First, m.Size, len(m.Gaps())
			if !s.First.Valid() || m.First < s.First {
				s.First = m.First
			}
		}
	}
}

// remoteWhy says what a stream's manifest waits for while it is not known.
func (n *Node) remoteWhy(id pos.StreamID) string {
	if _, ok := n.hooks.Lookup(id); !ok {
		return "the stream's log does not run"
	}
	s, ok := n.published(kindReplicaReader, id.String()).(upload.Status)
	if !ok {
		return "the stream's replica reader does not run yet"
	}
	if why := s.Trouble(); why != "" {
		return why
	}
	return "its manifest is being read"
}

// published returns the status of a process by its name, nil if there is none.
func (n *Node) published(kind, id string) any {
	h, ok := n.registry.WhereIs(n.name(kind, id))
	if !ok {
		return nil
	}
	return h.Status()
}

func (n *Node) name(kind, id string) registry.Name {
	return registry.Name{Kind: kind, ID: id, Node: n.node().String()}
}

var _ admin.Node = (*Node)(nil)
