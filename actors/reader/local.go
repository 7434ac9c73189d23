package reader

import (
	"errors"
	"fmt"
	"io"
	"time"

	"millrace/actors"
	"millrace/core/fetch"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/core/segment"
	"millrace/hooks"
)

// look tells what is known now: first the local log, then the row, so that the row
// is at least as new as the seam by which the log was trimmed.
func (r *reader) look() fetch.Input {
	log, ok := r.cfg.Hooks.Lookup(r.cfg.Stream)
	if !ok || !log.Alive() {
		return fetch.Seen{}
	}
	r.log = log
	known := resolve.Known{First: log.First(), Tiering: r.cfg.Tiering()}
	// A log that is being published shows its new first offset before the committed
	// one, which is never below it.
	known.Committed = max(known.First, log.Committed())
	if known.Tiering {
		// A missing row is the zero Row, which is pending.
		known.Row, _ = r.cfg.Manifests.Manifest(r.cfg.Stream)
		if known.Row.State != manifest.StateResolved && r.cfg.Why != nil {
			known.Why = r.cfg.Why()
		}
	}
	return fetch.Seen{Running: true, Known: known}
}

// open places a cursor in the log of the last look.
func (r *reader) open(p resolve.Place) fetch.Input {
	r.closeCursor()
	cursor, err := r.place(p)
	if err != nil {
		return r.localFailure(err)
	}
	r.cursor = cursor
	return fetch.Opened{At: cursor.Offset()}
}

func (r *reader) place(p resolve.Place) (*hooks.Cursor, error) {
	switch p := p.(type) {
	case resolve.LocalTime:
		return hooks.OpenCursorAtTime(r.cfg.Disk, r.log, p.Time)
	case resolve.LocalLast:
		at := r.log.Committed()
		err := hooks.TailBackwards(r.cfg.Disk, r.log, func(ref segment.ChunkRef, _ []byte) bool {
			at = ref.Header.ID
			return false
		})
		if err != nil {
			return nil, err
		}
		return hooks.OpenCursor(r.cfg.Disk, r.log, at)
	case resolve.LocalAt:
		return hooks.OpenCursor(r.cfg.Disk, r.log, p.At)
	case resolve.RemoteAt, resolve.RemoteTime, resolve.Doubtful, resolve.Ask, resolve.Unavailable:
	}
	return nil, fmt.Errorf("%T is no place in a local log", p)
}

// read takes chunks from the cursor until they have maxBytes.
func (r *reader) read(maxBytes int) fetch.Input {
	var read fetch.LocalRead
	r.rest.Stop()
	if r.cursor == nil {
		if failed, ok := r.open(resolve.LocalAt{At: r.resting}).(fetch.LocalRead); ok {
			return failed
		}
	}
	for size := 0; size < maxBytes; {
		ref, b, err := r.cursor.Read(nil)
		if err != nil {
			failure := r.localFailure(err)
			failure.Chunks = read.Chunks
			return failure
		}
		read.Chunks = append(read.Chunks, fetch.Chunk{Header: ref.Header, Bytes: b})
		size += len(b)
	}
	return read
}

// localFailure says why the local log has no next chunk.
func (r *reader) localFailure(err error) fetch.LocalRead {
	var trimmed *hooks.Trimmed
	var corrupt *hooks.CorruptError
	switch {
	case errors.As(err, &trimmed):
		return fetch.LocalRead{End: fetch.EndTrimmed}
	case errors.As(err, &corrupt):
		return fetch.LocalRead{End: fetch.EndDamaged, Why: err.Error()}
	case !r.log.Alive():
		return fetch.LocalRead{End: fetch.EndGone}
	case errors.Is(err, io.EOF):
		return fetch.LocalRead{End: fetch.EndTail}
	}
	return fetch.LocalRead{End: fetch.EndFailed, Why: fmt.Sprintf("stream %s: %v", r.cfg.Stream, err)}
}

// restAfter is how long a cursor at the log's end keeps its file open.
const restAfter = 10 * time.Second

// rest is the message to give the file back; the cursor is opened again when needed.
type rest struct{ cursor *hooks.Cursor }

// listen waits for more than from to be committed.
func (r *reader) listen(c *actors.Context, from pos.Offset) {
	r.log.Notify(c.Self(), from, false, fetch.Woken{})
	if r.cursor != nil {
		r.rest.Stop()
		r.rest = c.After(restAfter, rest{r.cursor})
	}
}

func (r *reader) takeRest(msg rest) {
	if r.cursor == msg.cursor {
		r.resting = r.cursor.Offset()
		r.closeCursor()
	}
}

func (r *reader) closeCursor() {
	if r.cursor != nil {
		r.cursor.Close()
		r.cursor = nil
	}
}
