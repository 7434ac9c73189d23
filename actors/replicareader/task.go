package replicareader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/answertime"
	"millrace/core/fragment"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/upload"
	"millrace/hooks"
)

// The tasks' kinds.
const (
	taskPointer = "read pointer"
	taskRoot    = "read root"
	taskInspect = "inspect log"
	taskRead    = "read log"
	taskAnchor  = "put anchor"
	taskUpload  = "upload fragment"
	taskPutRoot = "put root"
	taskSwap    = "swap pointer"
)

const (
	metadataDeadline = 10 * time.Second
	// pageBytes is what a page of a listing has at most, of MaxList keys of roots.
	pageBytes = 1 << 20
)

// taskEnded is what a task sends back.
type taskEnded struct {
	key   taskKey
	seq   uint64
	input upload.Input
}

// running is a task that has not ended, of the present generation.
type running struct {
	task *actors.Task
	seq  uint64 // tells it from others of the same key
}

// moved is what the local log sends for a Listen.
type moved struct{ gen upload.Gen }

// sent is what an upload sends while it moves.
type sent struct{ ref pace.Ref }

// task runs what takes time.
func (r *replicaReader) task(c *actors.Context, key taskKey, run func(context.Context) upload.Input) {
	r.started++
	seq := r.started
	task := c.Task(key.kind, func(ctx context.Context) any {
		return taskEnded{key: key, seq: seq, input: run(ctx)}
	})
	r.tasks[key] = running{task, seq}
}

func (r *replicaReader) taskEnded(c *actors.Context, msg taskEnded) {
	if r.tasks[msg.key].seq == msg.seq {
		delete(r.tasks, msg.key)
	}
	r.step(c, msg.input)
}

// endTask cancels a task for a cause and forgets it; what it returns is of no interest.
func (r *replicaReader) endTask(key taskKey, cause error) {
	t, ok := r.tasks[key]
	if !ok {
		return
	}
	t.task.Cancel(cause)
	delete(r.tasks, key)
	if key.kind == taskPutRoot || key.kind == taskSwap {
		r.persists = append(slices.DeleteFunc(r.persists, ended), t.task)
	}
}

func ended(t *actors.Task) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// abort gives up all that is under way.
func (r *replicaReader) abort() {
	for key := range r.tasks {
		r.endTask(key, context.Canceled)
	}
	r.seam.next = nil
}

func (r *replicaReader) readPointer(ctx context.Context, e upload.ReadPointer) upload.Input {
	ctx, cancel := context.WithTimeout(ctx, metadataDeadline)
	defer cancel()
	p, err := r.cfg.Metadata.Pointer(ctx, r.id)
	return upload.PointerRead{Gen: e.Gen, Pointer: upload.Pointer(p), Result: resultOf(err)}
}

func (r *replicaReader) readRoot(ctx context.Context, e upload.ReadRoot) upload.Input {
	ctx, cancel := context.WithTimeout(ctx, answertime.Whole(port.MaxGet))
	defer cancel()
	body, err := r.cfg.Store.Get(port.WithTries(ctx, e.Tries), e.Key)
	return upload.RootRead{Gen: e.Gen, Body: body, Result: resultOf(err)}
}

// listRoots takes all pages of a listing.
func (r *replicaReader) listRoots(ctx context.Context, e upload.ListRoots) upload.Input {
	in := upload.RootsListed{Gen: e.Gen}
	for after, more := "", true; more; {
		var page []port.ObjectInfo
		var err error
		if page, more, err = r.page(port.WithTries(ctx, e.Tries), e.Prefix, after); err != nil {
			in.Result = resultOf(err)
			return in
		}
		for _, o := range page {
			in.Keys, after = append(in.Keys, o.Key), o.Key
		}
	}
	return in
}

func (r *replicaReader) page(ctx context.Context, prefix, after string) (page []port.ObjectInfo, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answertime.Whole(pageBytes))
	defer cancel()
	return r.cfg.Store.List(ctx, prefix, after, port.MaxList)
}

// lookFor reads the beginning of a fragment.
func (r *replicaReader) lookFor(ctx context.Context, e upload.LookFor) upload.Input {
	ctx, cancel := context.WithTimeout(ctx, answertime.Whole(fragment.DataStart))
	defer cancel()
	_, err := r.cfg.Store.GetRange(port.WithTries(ctx, e.Tries), e.Key, 0, fragment.DataStart)
	return upload.LookedFor{Gen: e.Gen, Result: resultOf(err)}
}

func (r *replicaReader) putAnchor(ctx context.Context, e upload.PutAnchor) upload.Input {
	ctx, cancel := context.WithTimeout(ctx, metadataDeadline)
	defer cancel()
	return upload.AnchorPut{Gen: e.Gen, Result: resultOf(r.cfg.Metadata.PutAnchor(ctx, r.id))}
}

func (r *replicaReader) putRoot(ctx context.Context, e upload.PutRoot) upload.Input {
	size := int64(len(e.Body))
	ctx, cancel := context.WithTimeout(ctx, answertime.Whole(size)+answertime.Allowance(size))
	defer cancel()
	body := port.NewBody(bytes.NewReader(e.Body), fragment.Checksum(0, e.Body))
	err := r.cfg.Store.Put(port.WithTries(ctx, e.Tries), e.Key, body, size, false)
	return upload.RootPut{Gen: e.Gen, Result: resultOf(err)}
}

func (r *replicaReader) swapPointer(ctx context.Context, e upload.SwapPointer) upload.Input {
	ctx, cancel := context.WithTimeout(ctx, metadataDeadline)
	defer cancel()
	result := resultOf(r.cfg.Metadata.SwapPointer(ctx, r.id, e.Expected, port.Pointer(e.Next)))
	if result.Fault == upload.FaultLasting {
		// A failure that the port has no word for may have come after the change.
		result.Fault = upload.FaultUnknown
	}
	return upload.PointerSwapped{Gen: e.Gen, Result: result}
}

func (r *replicaReader) upload(ctx context.Context, e upload.Upload, self *actors.Handle) upload.Input {
	b := newBody(ctx, r.cfg.Disk, string(r.id), e.Fragment)
	err := errors.Join(r.put(ctx, e, b, func() { self.Send(sent{e.Ref}) }), b.Close())
	return upload.Uploaded{Ref: e.Ref, Floor: r.cfg.Local.First(), Result: resultOf(err)}
}

func (r *replicaReader) put(ctx context.Context, e upload.Upload, b *body, moves func()) error {
	if e.Doubted {
		if _, err := io.Copy(io.Discard, b); err != nil {
			return err
		}
	}
	err := r.cfg.Uploads.Put(port.WithTries(ctx, e.Tries), e.Key, newProgress(b, moves), fragment.ObjectSize(e.Fragment), false)
	if b.failed != nil {
		return b.failed // which the store only passes on
	}
	return err
}

// resultOf says what a failure means for the machine.
func resultOf(err error) upload.Result {
	if err == nil {
		return upload.Result{}
	}
	fault := upload.FaultLasting
	switch class := port.ClassOf(err); {
	case class == port.NotFound:
		fault = upload.FaultMissing
	case class == port.Conflict:
		fault = upload.FaultConflict
	case class == port.UnknownOutcome:
		fault = upload.FaultUnknown
	case class.Transient():
		fault = upload.FaultTransient
	}
	return upload.Result{Fault: fault, Why: err.Error()}
}

// read lists the next chunks of the log. The file is open for as long as that takes
// and no longer: an idle log must not pin one.
func (r *replicaReader) read(e upload.Read) upload.Input {
	in := upload.ChunksRead{Gen: e.Gen}
	in.Result = r.readChunks(e, &in)
	in.Floor = r.cfg.Local.First()
	return in
}

func (r *replicaReader) readChunks(e upload.Read, in *upload.ChunksRead) upload.Result {
	synced := r.cfg.Local.Synced()
	if e.From >= synced {
		in.End = true
		return upload.Result{}
	}
	cursor, err := hooks.OpenCursor(r.cfg.Disk, r.cfg.Local, e.From)
	if err != nil {
		return r.readFailed(err, in)
	}
	defer cursor.Close()
	for len(in.Chunks) < e.Max {
		if cursor.Offset() >= synced {
			in.End = true
			break
		}
		ref, err := cursor.Header()
		if err != nil && len(in.Chunks) > 0 {
			break // the next Read meets it again, if it lasts
		}
		if err != nil {
			return r.readFailed(err, in)
		}
		in.Chunks = append(in.Chunks, ref)
	}
	return upload.Result{}
}

func (r *replicaReader) readFailed(err error, in *upload.ChunksRead) upload.Result {
	if _, ok := errors.AsType[*hooks.Trimmed](err); ok {
		in.Trimmed = true
		return upload.Result{}
	}
	return resultOf(err)
}

// inspect tells what the log holds, with the epochs of what the store holds too.
func (r *replicaReader) inspect(e upload.Inspect) upload.Input {
	in := upload.Inspected{Gen: e.Gen, Local: upload.Local{First: r.cfg.Local.First(), Next: r.cfg.Local.Synced()}}
	epochs, err := epochsOf(r.epochAt, in.Local.First, min(in.Local.Next, e.Below))
	in.Local.Epochs, in.Result = epochs, resultOf(err)
	return in
}

func (r *replicaReader) epochAt(o pos.Offset) (pos.Epoch, error) {
	cursor, err := hooks.OpenCursor(r.cfg.Disk, r.cfg.Local, o)
	if err != nil {
		return 0, err
	}
	defer cursor.Close()
	ref, err := cursor.Header()
	return ref.Header.Epoch, err
}
