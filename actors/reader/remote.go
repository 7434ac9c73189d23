package reader

import (
	"context"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/answertime"
	"millrace/core/fetch"
	"millrace/core/resolve"
)

// pointerTimeout bounds the question to the metadata store.
const pointerTimeout = 10 * time.Second

// askPointer asks the metadata store whether the stream has a manifest.
func (r *reader) askPointer(c *actors.Context) {
	metadata, stream := r.cfg.Metadata, r.cfg.Stream
	c.Task("pointer", func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, pointerTimeout)
		defer cancel()
		switch _, err := metadata.Pointer(ctx, stream); {
		case err == nil:
			return fetch.PointerSeen{Pointer: resolve.PointerPresent}
		case port.ClassOf(err) == port.NotFound:
			return fetch.PointerSeen{Pointer: resolve.PointerAbsent}
		}
		return fetch.PointerSeen{Pointer: resolve.PointerFailed}
	})
}

// fetch reads a range in a task, a smaller one if the readers of the node use all
// their memory.
func (r *reader) fetch(c *actors.Context, e fetch.Fetch) fetch.Input {
	n := e.N
	switch {
	case r.cfg.Budget.take(n):
		r.held += n
	case e.Need == 0:
		return fetch.FetchRefused{ID: e.ID}
	default:
		n = e.Need
		r.spared = e.N - n
	}
	store := r.cfg.Store
	c.Task("fetch", func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, answertime.Whole(n))
		defer cancel()
		b, err := store.GetRange(port.WithTries(ctx, e.Tries), e.Key, e.Off, n)
		if err != nil {
			return fetch.FetchFailed{ID: e.ID, Class: classOf(err), Why: err.Error()}
		}
		return fetch.Fetched{ID: e.ID, Data: b}
	})
	return nil
}
