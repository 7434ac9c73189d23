package fetch

import (
	"bytes"

	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// repositioned holds the reader to it that what it passes over is nowhere.
func (w *world) repositioned(moved resolve.Moved) {
	w.moves = append(w.moves, moved)
	for o := moved.From; o < moved.To; o++ {
		if o >= w.offset(w.floor) {
			w.fail("offset %d was passed over, the local log begins at %d", o, w.offset(w.floor))
		}
		if m := w.row.Manifest; m != nil && w.tiering {
			if i, ok := m.Find(o); ok && m.Entries[i].First <= o {
				w.fail("offset %d was passed over, and is in the fragment at %d", o, m.Entries[i].First)
			}
		}
	}
}

// answer holds the reader to it that every user chunk comes once, in order, whole,
// committed, or is named as passed over.
func (w *world) answer(a Answer) {
	if a.ID != w.pull {
		w.fail("answer to pull %d, open is %d", a.ID, w.pull)
	}
	w.pull, w.timer = 0, 0
	if a.Err != nil {
		w.errs = append(w.errs, a.Err)
		return
	}
	c := a.Chunks
	if w.begun && c.From != w.at {
		w.fail("the answer begins at %d, the consumer stands at %d", c.From, w.at)
	}
	at := c.From
	if c.Moved != nil {
		if c.Moved.From < at {
			w.fail("moved from %d, the consumer stands at %d", c.Moved.From, at)
		}
		at = c.Moved.To
	}
	for _, b := range c.Chunks {
		w.delivered(b, at)
		h := w.header(b)
		at = h.Next()
		w.begun = true
		w.got = append(w.got, h.ID)
	}
	if c.Next.Valid() {
		if len(c.Chunks) > 0 || w.begun {
			w.onlyTracking(at, c.Next)
		}
		w.begun = true
		w.at = c.Next
	}
}

// header parses what was delivered, which must be a user chunk.
func (w *world) header(b []byte) chunk.Header {
	h, err := chunk.ParseHeader(b)
	if err != nil || h.Type != chunk.User {
		w.fail("delivered %x: %v", b, err)
	}
	return h
}

func (w *world) delivered(b []byte, at pos.Offset) {
	h := w.header(b)
	if !w.begun && h.ID <= at && at < h.Next() {
		at = h.ID
	}
	w.onlyTracking(at, h.ID)
	for i, c := range w.chunks {
		if c.ID == h.ID {
			if i >= w.committed {
				w.fail("chunk %d was delivered, committed is %d", h.ID, w.offset(w.committed))
			}
			if !bytes.Equal(b, c.bytes) {
				w.fail("chunk %d was delivered as %x, written as %x", h.ID, b, c.bytes)
			}
			return
		}
	}
	w.fail("chunk %d was delivered and never written", h.ID)
}

// onlyTracking fails unless [from, to) holds no user chunk.
func (w *world) onlyTracking(from, to pos.Offset) {
	if to < from {
		w.fail("the reader went back from %d to %d", from, to)
	}
	for _, c := range w.chunks {
		if c.ID >= from && c.ID < to && c.Type == chunk.User {
			w.fail("user chunk %d between %d and %d was not delivered", c.ID, from, to)
		}
	}
}
