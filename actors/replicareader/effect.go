package replicareader

import (
	"context"
	"errors"
	"time"

	"millrace/actors"
	"millrace/core/collect"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
)

// do carries one effect out, or starts it. What is sent while a receiver is not there
// is lost; the machine makes good for that when one registers.
func (r *replicaReader) do(c *actors.Context, e upload.Effect) {
	switch e := e.(type) {
	case upload.ReadPointer:
		r.task(c, taskKey{kind: taskPointer}, func(ctx context.Context) upload.Input { return r.readPointer(ctx, e) })
	case upload.ReadRoot:
		r.task(c, taskKey{kind: taskRoot}, func(ctx context.Context) upload.Input { return r.readRoot(ctx, e) })
	case upload.ListRoots:
		r.task(c, taskKey{kind: taskRoot}, func(ctx context.Context) upload.Input { return r.listRoots(ctx, e) })
	case upload.LookFor:
		r.task(c, taskKey{kind: taskRoot}, func(ctx context.Context) upload.Input { return r.lookFor(ctx, e) })
	case upload.Inspect:
		r.task(c, taskKey{kind: taskInspect}, func(context.Context) upload.Input { return r.inspect(e) })
	case upload.Read:
		r.task(c, taskKey{kind: taskRead}, func(context.Context) upload.Input { return r.read(e) })
	case upload.PutAnchor:
		r.task(c, taskKey{kind: taskAnchor}, func(ctx context.Context) upload.Input { return r.putAnchor(ctx, e) })
	case upload.Upload:
		self := c.Self()
		r.task(c, taskKey{taskUpload, uint64(e.Ref)}, func(ctx context.Context) upload.Input { return r.upload(ctx, e, self) })
	case upload.PutRoot:
		r.task(c, taskKey{kind: taskPutRoot}, func(ctx context.Context) upload.Input { return r.putRoot(ctx, e) })
	case upload.SwapPointer:
		r.task(c, taskKey{kind: taskSwap}, func(ctx context.Context) upload.Input { return r.swapPointer(ctx, e) })
	case upload.CancelUpload:
		r.endTask(taskKey{taskUpload, uint64(e.Ref)}, context.DeadlineExceeded)
	case upload.Abort:
		r.abort()
	case upload.Listen:
		r.cfg.Local.Notify(c.Self(), e.From, true, moved{gen: e.Gen})
	case upload.Submit:
		r.send("governor", pace.Submit{Owner: r.owner(c), Ref: e.Ref, Bytes: e.Bytes})
	case upload.Release:
		r.send("governor", pace.Done{Owner: r.owner(c), Ref: e.Ref})
	case upload.Withdraw:
		r.send("governor", pace.Cancel{Owner: r.owner(c), Refs: e.Refs})
	case upload.ShowPending:
		r.send("manifest_replica", manifest.Pending{Stream: r.id, Epoch: r.epoch()})
	case upload.ShowSync:
		r.send("manifest_replica", manifest.Sync{Stream: r.id, Epoch: r.epoch(), Seq: e.Manifest.Revision, Manifest: e.Manifest})
	case upload.ShowEdits:
		r.send("manifest_replica", manifest.Edits{Stream: r.id, Epoch: r.epoch(), Seq: e.Seq, Edits: e.Edits})
	case upload.Forget:
		r.send("manifest_replica", manifest.Forget{Stream: r.id})
	case upload.Seam:
		r.seam.timer.Stop()
		r.seam = seam{next: &e}
		r.showSeam(c)
	case upload.NoSeam:
		r.seam.timer.Stop()
		r.seam = seam{}
		r.cfg.Local.Writer.Send(segment.Seam{Next: 0})
	case upload.Collect:
		r.send("reaper", collect.Delete{Keys: e.Keys, After: e.After})
	case upload.Answer:
		r.answer(e)
	case upload.Cut:
		r.waiters[e.ID].Reply(e.CutAnswer)
		delete(r.waiters, e.ID)
	case upload.ResetDone:
		r.waiters[e.ID].Reply(e.ResetAnswer)
		delete(r.waiters, e.ID)
	case upload.Note:
		r.note(e)
	case upload.Wake:
		r.timer.Stop()
		r.timer = c.After(e.At.Sub(r.now()), tick{})
	case upload.Stop:
		r.ended = actors.Exit(actors.Normal, e.Why)
	}
}

func (r *replicaReader) epoch() pos.Epoch { return r.cfg.Local.Epoch }

func (r *replicaReader) owner(c *actors.Context) pace.Owner {
	return pace.Owner{Stream: r.id, Incarnation: c.Self().Incarnation()}
}

func (r *replicaReader) send(kind string, msg any) { r.cfg.Registry.Send(r.name(kind, ""), msg) }

// seam is the latest Seam, while it is not sent yet.
type seam struct {
	next  *upload.Seam
	wait  time.Duration
	timer *actors.Timer
}

const seamPause, maxSeamPause = 5 * time.Millisecond, time.Second

// showSeam tells the writer what it may free, once the node's row says that it is in
// the store: a reader that finds its offset trimmed trusts the row.
func (r *replicaReader) showSeam(c *actors.Context) {
	s := &r.seam
	if s.next == nil {
		return
	}
	row, ok := r.cfg.Manifests.Manifest(r.id)
	newer := row.Epoch > r.epoch() || row.Epoch == r.epoch() && row.Seq >= s.next.Seq
	if ok && row.State == manifest.StateResolved && newer {
		r.cfg.Local.Writer.Send(segment.Seam{Next: s.next.Next})
		s.next = nil
		return
	}
	s.wait = min(max(2*s.wait, seamPause), maxSeamPause)
	s.timer = c.After(s.wait, seamTick{})
}

var errTooManyWaiters = errors.New("too many wait for offsets of this stream; ask again later")

func (r *replicaReader) answer(e upload.Answer) {
	req := r.waiters[e.ID]
	delete(r.waiters, e.ID)
	if e.Full {
		req.Fail(errTooManyWaiters)
		return
	}
	req.Reply(upload.Durable{Next: e.Next, Held: e.Held, Late: e.Late})
}

func (r *replicaReader) note(e upload.Note) {
	event := r.cfg.Log.Info()
	switch e.Level {
	case upload.LevelWarn:
		event = r.cfg.Log.Warn()
	case upload.LevelError:
		event = r.cfg.Log.Error()
	case upload.LevelInfo:
	}
	event.Str("stream", string(r.id)).Str("name", r.cfg.Local.Name).Msg(e.Text)
}
