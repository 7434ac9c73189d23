package writer

import (
	"context"
	"fmt"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
)

// Times of the start.
const (
	stuckAfter    = 2 * time.Second // without the lease the status says "stuck"
	storeTimeout  = 5 * time.Second // for each operation of the metadata store
	electAttempts = 5
)

// opener does the start of a log, in a task. What one attempt has achieved the next one
// keeps: the lease, and the epoch unless another writer has taken a newer one.
// Only one task uses it at a time, and the process only between tasks.
type opener struct {
	cfg  Config
	self *actors.Handle

	free     func() // gives the lease back
	name     string
	epoch    pos.Epoch
	ballot   pos.UID
	rec      port.Replica
	known    bool       // rec is in the node's state
	captured pos.Offset // as in segment.Captured; NoOffset: nobody captures into this stream
	// suspect says that a sync failed in an earlier attempt: what the folder's newest
	// files show may not be on disk, so it is written again before it is synced.
	suspect bool
}

// opened is the outcome of one attempt.
type opened struct {
	found *segment.Found
	err   error
}

func (o opened) input() segment.Input {
	if o.err != nil {
		return &segment.Failed{Op: segment.OpOpen, Why: o.err.Error(), Now: now()}
	}
	o.found.Now = now()
	return o.found
}

// open starts an attempt.
func (w *writer) open(c *actors.Context) {
	w.stage, w.stageWhy = "opening", ""
	w.opener.self = c.Self()
	c.Task("open", func(ctx context.Context) any {
		found, err := w.opener.run(ctx)
		return opened{found: found, err: err}
	})
}

// release gives the lease back. It runs when no code of the process runs any more.
func (o *opener) release() {
	if o.free != nil {
		o.free()
	}
}

func (o *opener) run(ctx context.Context) (*segment.Found, error) {
	o.captured = pos.NoOffset
	if err := o.lease(ctx); err != nil {
		return nil, err
	}
	rec, known, err := o.cfg.State.Replica(ctx, o.cfg.Stream)
	if err != nil {
		return nil, err
	}
	o.rec, o.known = rec, known
	folder, err := survey(o.cfg.Disk, string(o.cfg.Stream))
	if err != nil {
		return nil, err
	}
	if !known || len(folder.Pairs) == 0 {
		o.rec.LogIncarnation = o.cfg.UID()
	}
	if err := o.elect(ctx); err != nil {
		return nil, err
	}
	seam, err := o.seam(ctx)
	if err != nil {
		return nil, err
	}
	if o.captured, err = o.capture(ctx); err != nil {
		return nil, err
	}
	o.self.Send(stage{state: "recovering"})
	return o.recover(ctx, folder, seam)
}

// lease waits for the former writer, however long it takes: it may still write.
func (o *opener) lease(ctx context.Context) error {
	if o.free != nil {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, stuckAfter)
	free, err := o.cfg.Disk.Lease(short, string(o.cfg.Stream))
	cancel()
	if port.ClassOf(err) == port.Timeout && ctx.Err() == nil {
		o.self.Send(stage{state: "stuck", why: "the former writer of this stream has not ended: it still holds the folder"})
		free, err = o.cfg.Disk.Lease(ctx, string(o.cfg.Stream))
	}
	if err != nil {
		return err
	}
	o.free = free
	o.self.Send(stage{state: "opening"})
	return nil
}

// elect makes this start a new epoch. After a conflict or an unknown outcome the row is
// read again: our own ballot in it says that we were the ones.
func (o *opener) elect(ctx context.Context) error {
	var last error
	for range electAttempts {
		row, err := o.row(ctx)
		if err != nil {
			return err
		}
		o.name = row.Name
		if !o.ballot.IsZero() && row.Ballot == o.ballot && row.Epoch == o.epoch {
			return nil
		}
		if row.Phase == port.PhaseDeleting {
			return fmt.Errorf("stream %s is being deleted", o.cfg.Stream)
		}
		o.epoch, o.ballot = max(row.Epoch, o.rec.PromisedEpoch)+1, o.cfg.UID()
		last = o.swap(ctx, row)
		if class := port.ClassOf(last); class != port.Conflict && class != port.UnknownOutcome {
			return last
		}
	}
	return fmt.Errorf("the stream's row keeps changing: %w", last)
}

func (o *opener) row(ctx context.Context) (port.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return o.cfg.Metadata.Stream(ctx, o.cfg.Stream)
}

func (o *opener) swap(ctx context.Context, row port.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	row.Epoch, row.Ballot, row.Phase, row.Writer = o.epoch, o.ballot, port.PhaseReady, o.cfg.Node
	row.Members, row.Settled = o.members(), true
	return o.cfg.Metadata.SwapStreams(ctx, []port.Stream{row})
}

func (o *opener) members() []port.Member {
	return []port.Member{{Node: o.cfg.Node, LogIncarnation: o.rec.LogIncarnation}}
}

// seam is the next offset of the stream's manifest, 0 if it has none.
func (o *opener) seam(ctx context.Context) (pos.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	p, err := o.cfg.Metadata.Pointer(ctx, o.cfg.Stream)
	if port.IsNotFound(err) {
		return 0, nil
	}
	return p.Next, err
}

// capture is where the stream's capture knows to be by its own row; NoOffset if there is none, and
// the capture begins with a load.
func (o *opener) capture(ctx context.Context) (pos.Offset, error) {
	if o.cfg.Capture == "" {
		return pos.NoOffset, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	row, err := o.cfg.Metadata.Capture(ctx, o.cfg.Capture)
	if port.IsNotFound(err) || err == nil && row.Stream != o.cfg.Stream {
		return pos.NoOffset, nil
	}
	return row.EventOffset + 1, err
}

// replica is the record of this log in the node's state: its promise is that of this
// writer.
func (o *opener) replica(committed pos.Offset, clean bool) port.Replica {
	return port.Replica{
		Stream: o.cfg.Stream, PromisedEpoch: o.epoch, Ballot: o.ballot,
		ConfigEpoch: o.epoch, Members: o.members(), LogIncarnation: o.rec.LogIncarnation,
		CommittedAtCleanStop: committed, Clean: clean, BootID: o.cfg.State.BootID(),
	}
}
