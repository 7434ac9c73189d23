package fragment

import (
	"fmt"
	"time"

	"millrace/core/pos"
	"millrace/core/segment"
)

// Limits of Config, and of one fragment.
const (
	DefaultTargetBytes = 64 << 20
	DefaultMaxAge      = 5 * time.Minute

	// MaxChunks bounds the index (6 MiB): a fragment of very small chunks is cut by
	// number. It is about the number of chunks a segment may hold.
	MaxChunks = 256 << 10
)

// Config says when a fragment is cut. Fixed for the life of an Assembly.
type Config struct {
	// TargetBytes is the size, in bytes on disk, at or above which a fragment is
	// complete. The chunk that crosses it is included. Not above 0: the default.
	TargetBytes int64
	// MaxAge is how long a fragment may wait for more chunks after its first was
	// added, so that a slow stream reaches the store as well. Not above 0: no bound.
	MaxAge time.Duration
}

// Assembly gathers committed chunks into the next fragment. Segment boundaries do
// not cut: a fragment may have spans of several segments.
//
//  1. the chunks added since the last cut follow each other without a gap
//  2. no chunk is added to a full fragment, except by a caller that ignores Full
type Assembly struct {
	cfg     Config
	cur     Fragment
	payload int64      // of records in cur
	since   pos.Millis // when the first chunk of cur was added
}

// New returns an empty assembly.
func New(cfg Config) *Assembly {
	if cfg.TargetBytes <= 0 {
		cfg.TargetBytes = DefaultTargetBytes
	}
	return &Assembly{cfg: cfg}
}

// Add appends a committed chunk at the time now. It fails if the chunk does not
// follow the one before it in the same fragment, or holds no record: then nothing
// changed, and the caller has to Reset and read again from the manifest's next.
func (a *Assembly) Add(ref segment.ChunkRef, now pos.Millis) error {
	h := ref.Header
	switch {
	case h.Next() <= h.ID || ref.Size <= 0:
		return fmt.Errorf("fragment: chunk %s of segment %s holds %d records in %d bytes: an empty chunk can't be uploaded",
			h.ID, ref.Segment, h.Records, ref.Size)
	case !a.Empty() && h.ID != a.cur.Next:
		return fmt.Errorf("fragment: chunk %s does not follow the fragment [%s, %s) being assembled",
			h.ID, a.cur.First, a.cur.Next)
	}
	f := &a.cur
	if a.Empty() {
		a.since = now
		f.First, f.FirstTime, f.LastTime = h.ID, h.Timestamp, h.Timestamp
	}
	f.Index = append(f.Index, IndexRecord{Offset: h.ID, Time: h.Timestamp, Position: DataStart + f.Size})
	f.Headers = append(f.Headers, h.Sum())
	f.Spans = extend(f.Spans, Span{Segment: ref.Segment, Start: ref.Position, End: ref.Position + ref.Size})
	f.Next, f.Epoch = h.Next(), h.Epoch
	f.LastTime = max(f.LastTime, h.Timestamp)
	f.Size += ref.Size
	a.payload += int64(h.DataSize)
	f.Chunks++
	return nil
}

func extend(spans []Span, s Span) []Span {
	if n := len(spans); n > 0 && spans[n-1].Segment == s.Segment && spans[n-1].End == s.Start {
		spans[n-1].End = s.End
		return spans
	}
	return append(spans, s)
}

// Empty reports whether no chunk waits.
func (a *Assembly) Empty() bool { return a.cur.Chunks == 0 }

// First returns the first offset that waits, NoOffset if none does.
func (a *Assembly) First() pos.Offset {
	if a.Empty() {
		return pos.NoOffset
	}
	return a.cur.First
}

// Next returns the offset the next chunk must begin at, NoOffset when any will do.
func (a *Assembly) Next() pos.Offset {
	if a.Empty() {
		return pos.NoOffset
	}
	return a.cur.Next
}

// Bytes returns the size of what waits, in bytes on disk.
func (a *Assembly) Bytes() int64 { return a.cur.Size }

// Payload returns how many of them are records, without the chunks' headers, filters
// and trailers.
func (a *Assembly) Payload() int64 { return a.payload }

// Chunks returns how many chunks wait.
func (a *Assembly) Chunks() int { return a.cur.Chunks }

// Target returns the size at which a fragment is complete.
func (a *Assembly) Target() int64 { return a.cfg.TargetBytes }

// Full reports whether the fragment must be cut at the time now: it reached its
// size, its number of chunks or its age.
func (a *Assembly) Full(now pos.Millis) bool {
	if a.cur.Size >= a.cfg.TargetBytes || a.cur.Chunks >= MaxChunks {
		return true
	}
	due, ok := a.Due()
	return ok && now >= due
}

// Due returns when the fragment reaches its age, not ok when it is empty or age
// never cuts.
func (a *Assembly) Due() (at pos.Millis, ok bool) {
	if a.Empty() || a.cfg.MaxAge <= 0 {
		return pos.NoMillis, false
	}
	return a.since.Add(a.cfg.MaxAge), true
}

// Cut returns what waits as a fragment and starts an empty one. It must not be
// called on an empty assembly, whose fragment would hold nothing.
func (a *Assembly) Cut() Fragment {
	f := a.cur
	a.Reset()
	return f
}

// Reset forgets what waits.
func (a *Assembly) Reset() { a.cur, a.payload, a.since = Fragment{}, 0, 0 }
