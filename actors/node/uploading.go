package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/actors/storemonitor"
	"millrace/core/pos"
	"millrace/core/probe"
	"millrace/core/upload"
)

const (
	// readerTime is how long a replica reader may take to answer an operator.
	readerTime = 5 * time.Second
	// lookTime is how long the store may take before a reset to say whose it is.
	lookTime = 10 * time.Second
	// resetTime is how long a reset may take then: it looks for what is there, and stores a list of
	// objects without what is not.
	resetTime = admin.ResetTime - lookTime
	// claimTime is how long the store may take to have its marker read and put, before whoever
	// claims it is told to look later.
	claimTime = 20 * time.Second
	// cutReadTime is how much of it the local log may take to be read.
	cutReadTime = 3 * time.Second
)

// uploadReport asks a stream's replica reader how far it is.
func (n *Node) uploadReport(ctx context.Context, row port.Stream) *admin.UploadReport {
	r := &admin.UploadReport{Node: n.node().String(), Store: n.storeStatus(), Now: pos.MillisOf(time.Now())}
	h, why := n.replicaReader(row)
	if h == nil {
		r.Why = why
		return r
	}
	answer, err := askReader(ctx, h, upload.Describe{}, readerTime)
	if s, ok := answer.(upload.Status); ok && err == nil {
		r.Status = &s
		return r
	}
	r.Error, r.Why = readerError(err, readerTime)
	return r
}

// storeStatus is what is known of the store.
func (n *Node) storeStatus() admin.StoreStatus {
	return admin.StoreStatus{Where: n.about.Store, Accessible: n.access()}
}

// replicaReader finds a stream's, or says why it has none.
func (n *Node) replicaReader(row port.Stream) (h *actors.Handle, why string) {
	if h, ok := n.registry.WhereIs(n.name(kindReplicaReader, row.ID.String())); ok {
		return h, ""
	}
	if !n.wish.enabled() {
		return nil, "tiering is disabled"
	}
	return nil, n.remoteWhy(row.ID)
}

func askReader(ctx context.Context, h *actors.Handle, question any, within time.Duration) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return h.Call(ctx, question)
}

// readerError tells a replica reader that is busy from one that is gone.
func readerError(err error, within time.Duration) (code, why string) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return admin.ReaderTimeout, fmt.Sprintf("the replica reader did not answer within %s", within)
	}
	return admin.ReaderDown, fmt.Sprintf("the replica reader ended before it answered: %v", err)
}

// steer sends a question about one stream to its replica reader.
func (n *Node) steer(ctx context.Context, row port.Stream, doing string, question any, within time.Duration) (any, error) {
	name := row.Name
	h, why := n.replicaReader(row)
	if h == nil {
		return nil, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("%s stream %q: %s", doing, name, why), Hint: waitHint(name)}
	}
	answer, err := askReader(ctx, h, question, within)
	if err != nil {
		code, why := readerError(err, within)
		return nil, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("%s stream %q: %s (%s)", doing, name, why, code), Hint: waitHint(name)}
	}
	return answer, nil
}

func waitHint(name string) string {
	return "millrace status " + name + " tells what it waits for; ask again in a moment"
}

// CutStream implements admin.Uploads.
func (n *Node) CutStream(ctx context.Context, stream string) (admin.CutStatus, error) {
	row, err := n.row(ctx, stream)
	if err != nil {
		return admin.CutStatus{}, err
	}
	answer, err := n.steer(ctx, row, "cutting", upload.CutNow{For: cutReadTime}, readerTime)
	if err != nil {
		return admin.CutStatus{}, err
	}
	cut, _ := answer.(upload.CutAnswer)
	if cut.Refused != upload.CutOK {
		return admin.CutStatus{}, cutRefused(row.Name, cut)
	}
	return admin.CutStatus{Stream: row.Name, First: cut.First, Next: cut.Next, Bytes: cut.Bytes, Chunks: cut.Chunks}, nil
}

func cutRefused(name string, cut upload.CutAnswer) error {
	what := fmt.Sprintf("stream %q was not cut (%s)", name, cut.Refused)
	if cut.Why != "" {
		what += ": " + cut.Why
	}
	return &admin.Error{Class: admin.Unavailable, What: what, Hint: waitHint(name)}
}

// ResetStream implements admin.Uploads.
func (n *Node) ResetStream(ctx context.Context, stream string) (admin.ResetStatus, error) {
	row, err := n.row(ctx, stream)
	if err != nil {
		return admin.ResetStatus{}, err
	}
	if err := n.ourStore(ctx, row.Name); err != nil {
		return admin.ResetStatus{}, err
	}
	return n.reset(ctx, row)
}

// reset gives up what a stream has lost in the store.
func (n *Node) reset(ctx context.Context, row port.Stream) (admin.ResetStatus, error) {
	name := row.Name
	answer, err := n.steer(ctx, row, "resetting", upload.ResetManifest{}, resetTime)
	if err != nil {
		return admin.ResetStatus{}, err
	}
	reset, _ := answer.(upload.ResetAnswer)
	if reset.Refused != "" {
		return admin.ResetStatus{}, &admin.Error{
			Class: admin.Exists, What: fmt.Sprintf("stream %q was not reset: %s", name, reset.Refused),
			Hint: "only what is not in the store, or is damaged, is given up; millrace status " + name + " tells what the stream waits for, " +
				"and millrace tree restart node/tiering/stream_factory/" + name + " makes it look whether its list, and the first object in it, are there",
		}
	}
	given := admin.ResetStatus{Stream: name, From: reset.From, Next: reset.Next}
	if hole := admin.Gap(reset.Hole); hole.To > hole.From {
		given.Hole = &hole
	}
	return given, nil
}

// ourStore asks whose the store is now: what was known may be as old as store.probe_interval, and
// what is missing is not lost if it is missing in another one.
func (n *Node) ourStore(ctx context.Context, name string) error {
	monitor := n.process(idTiering, idStoreMonitor)
	if !monitor.Alive() {
		return n.notLookedAt()
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	answer, err := monitor.Call(ctx, storemonitor.Look{})
	switch looked, _ := answer.(storemonitor.Looked); {
	case err != nil:
		return &admin.Error{
			Class: admin.Unavailable, What: fmt.Sprintf("stream %q was not reset: the object store was asked whose it is, and has not said it", name),
			Hint: "millrace status tells how the store answers; say it again once it does",
		}
	case !looked.Ours:
		return &admin.Error{
			Class: admin.Unavailable, What: fmt.Sprintf("stream %q was not reset: the object store is not known to be this cluster's: accessible is %s", name, n.access()),
			Hint: "mend the store or its configuration, and say it again once millrace status says that it is accessible",
		}
	}
	return nil
}

// Durable implements admin.Uploads.
func (n *Node) Durable(ctx context.Context, stream string, next pos.Offset, wait time.Duration) (admin.DurableStatus, error) {
	row, err := n.row(ctx, stream)
	if err != nil {
		return admin.DurableStatus{}, err
	}
	if next == pos.NoOffset {
		l, ok := n.hooks.Lookup(row.ID)
		if !ok {
			return admin.DurableStatus{}, &admin.Error{
				Class: admin.Unavailable, What: fmt.Sprintf("how far stream %q is committed is not known: its log does not run", row.Name),
				Hint: "name an offset, or see what the log waits for with: millrace status " + row.Name,
			}
		}
		next = l.Committed()
	}
	answer, err := n.steer(ctx, row, "waiting for", upload.AwaitDurable{Next: next, For: max(wait, time.Millisecond)}, wait+readerTime)
	if err != nil {
		return admin.DurableStatus{}, err
	}
	d, _ := answer.(upload.Durable)
	st := admin.DurableStatus{Stream: row.Name, Durable: !d.Late, Held: d.Held, Asked: next, Next: d.Next}
	if d.Late {
		st.Why = n.hindrance(row)
	}
	return st, nil
}

// hindrance is what keeps a stream from the store at this moment, be it for long or not: the
// store itself, or what its replica reader meets; "" if nothing is known to.
func (n *Node) hindrance(row port.Stream) string {
	if s, ok := n.tieringStatus(idStoreMonitor).(probe.Status); ok {
		switch {
		case s.UnsureSince != 0:
			// Why is another thing each time it is asked.
			return "it is not known since " + s.UnsureSince.Time().Format(time.RFC3339) + " whether the object store is accessible"
		case s.State == probe.StateNo:
			return "the object store is not accessible: " + s.String()
		}
	}
	s, _ := n.published(kindReplicaReader, row.ID.String()).(upload.Status)
	return s.Hindrance()
}
