package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/core/chunk"
	"millrace/core/fetch"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/supervision"
)

const (
	// pullBytes is how much one Pull asks a reader for.
	pullBytes = 1 << 20
	// followWait and tailWait are how long a reader may take to find the next records
	// before it is asked again: long while there may be none, short where only the tail,
	// which was there at the start, is missing.
	followWait = 5 * time.Second
	tailWait   = 250 * time.Millisecond
	// failClosed is how long a read is tried again while it is not known where the
	// records are. After that the caller is told.
	failClosed = 30 * time.Second
)

// endless is an end that no stream reaches.
const endless pos.Offset = math.MaxInt64

// subscription is what a reader is started with.
type subscription struct {
	stream pos.StreamID
	spec   resolve.Spec
}

// Open implements admin.Node. The reader is a process of its own.
func (n *Node) Open(ctx context.Context, name string, spec admin.ReadSpec) (admin.Reader, error) {
	row, err := n.row(ctx, name)
	if err != nil {
		return nil, err
	}
	l, ok := n.hooks.Lookup(row.ID)
	if !ok {
		return nil, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("the log of stream %q does not run yet", name), Hint: "millrace status " + name + " tells why"}
	}
	sup := n.process(idReaders)
	if sup == nil {
		return nil, n.noReaders()
	}
	id := strconv.FormatUint(n.readers.Add(1), 10)
	h, err := supervision.StartChild(ctx, sup, id, subscription{stream: row.ID, spec: spec.From})
	if err != nil {
		return nil, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("reading stream %q", name), Err: err}
	}
	r := &reading{name: name, behind: func(at pos.Offset) pos.Offset { return n.behind(row.ID, at) }, reader: h, wait: tailWait, end: l.Committed(), expect: pos.NoOffset}
	if spec.Follow {
		r.wait, r.end = followWait, endless
	}
	return r, nil
}

// noReaders says why nobody can read now.
func (n *Node) noReaders() error {
	e := &admin.Error{Class: admin.Unavailable, What: notUp, Hint: "ask again in a moment"}
	if supervision.State(n.root.Load()) == "running" {
		e.What, e.Hint = "the supervisor of the readers does not run", "millrace tree restart node/"+idReaders
	}
	return e
}

// reading is an admin.Reader on a reader process.
//
// Invariant: the records handed out are contiguous but for what a Moved tells. A gap
// that none tells ends the reading, since an answer with a hole must not look whole.
type reading struct {
	name   string
	behind func(at pos.Offset) pos.Offset // where the object that holds an offset ends
	reader *actors.Handle
	wait   time.Duration
	end    pos.Offset // where to stop
	expect pos.Offset // the next offset, NoOffset before the first answer
	close  sync.Once
}

// Pull implements admin.Reader.
func (r *reading) Pull(ctx context.Context) (admin.Batch, error) {
	var since time.Time
	for {
		if r.expect >= r.end {
			return admin.Batch{}, io.EOF
		}
		answer, err := r.reader.Call(ctx, fetch.Pull{MaxBytes: pullBytes, Wait: r.wait})
		switch failure, isFetch := errors.AsType[*fetch.Error](err); {
		case err == nil:
		case isFetch && !failure.Lasting() && (since.IsZero() || time.Since(since) < failClosed):
			if since.IsZero() {
				since = time.Now()
			}
			continue
		case isFetch:
			return admin.Batch{}, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("reading stream %q %s", r.name, failure.Where()), Hint: hint(failure, r.behind(failure.At))}
		default:
			return admin.Batch{}, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("reading stream %q", r.name), Err: err, Hint: "the same read may be tried again"}
		}
		batch, err := r.take(answer)
		if err != nil || batch.Moved != nil || len(batch.Records) > 0 {
			return batch, err
		}
	}
}

// behind returns where the stored object that holds an offset ends; NoOffset if none is known.
func (n *Node) behind(stream pos.StreamID, at pos.Offset) pos.Offset {
	row, ok := n.manifests.Manifest(stream)
	if !ok || row.State != manifest.StateResolved || !at.Valid() {
		return pos.NoOffset
	}
	if i, ok := row.Manifest.Find(at); ok {
		return row.Manifest.Entries[i].Next
	}
	return pos.NoOffset
}

// hint says what to do about a failure. behind is where the object ends that was read from,
// or NoOffset.
func hint(failure *fetch.Error, behind pos.Offset) string {
	from := "--from"
	if behind.Valid() {
		from = "--from " + behind.String()
	}
	switch failure.Class {
	case fetch.Damaged:
		return "reading again does not help: restore what is named from a backup, or read on behind it with " + from
	case fetch.Gone:
		return "the object is missing although the stored list names it: restore it from a backup or the bucket's versions, or read on behind it with " + from
	case fetch.Disabled:
		return "millrace tiering enable"
	case fetch.Denied:
		return "mend the node's rights on the object store, then read again"
	case fetch.Unavailable, fetch.Fault, fetch.Throttled, fetch.Superseded:
	}
	return "the same read may be tried again"
}

// take turns a reader's answer into a batch.
func (r *reading) take(answer any) (admin.Batch, error) {
	c, ok := answer.(fetch.Chunks)
	if !ok {
		return admin.Batch{}, &admin.Error{Class: admin.Internal, What: fmt.Sprintf("reading stream %q: a reader answered %T", r.name, answer)}
	}
	if r.expect.Valid() && c.From != r.expect {
		return admin.Batch{}, &admin.Error{Class: admin.Unavailable, What: fmt.Sprintf("reading stream %q: got offset %s, want %s", r.name, c.From, r.expect), Hint: "the same read may be tried again"}
	}
	var batch admin.Batch
	if c.Moved != nil {
		batch.Moved = &admin.Moved{From: c.Moved.From, To: c.Moved.To, Why: c.Moved.Why.String()}
	}
	for _, b := range c.Chunks {
		if err := appendRecords(&batch, b); err != nil {
			return admin.Batch{}, &admin.Error{Class: admin.Internal, What: fmt.Sprintf("reading stream %q", r.name), Err: err}
		}
	}
	r.expect = c.Next
	return batch, nil
}

// appendRecords appends the records of a whole chunk.
func appendRecords(batch *admin.Batch, b []byte) error {
	h, err := chunk.ParseHeader(b)
	if err != nil {
		return err
	}
	for record, err := range chunk.Records(b) {
		if err != nil {
			return err
		}
		batch.Records = append(batch.Records, admin.Record{Offset: record.Offset, Timestamp: h.Timestamp, Epoch: h.Epoch, Body: record.Body})
	}
	return nil
}

// Close implements admin.Reader.
func (r *reading) Close() {
	r.close.Do(func() { r.reader.Stop(actors.Reason{Kind: actors.Normal, Detail: "closed"}) })
}
