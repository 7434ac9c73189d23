package writer

import (
	"fmt"

	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
)

// analysis is what a log's folder holds. Nothing is changed to find out.
type analysis struct {
	segments []segment.Segment // one contiguous log, oldest first, the last one active
	epochs   []segment.EpochEnd
	active   *end           // nil: the folder holds no segment
	empty    []segment.Pair // newer than the active segment, without a whole chunk; oldest first
	rebuilt  []rebuilt      // indexes of closed segments that must be written anew
	damage   []string       // for the status
	broken   string         // where whole chunks follow a broken one in the newest segments
}

// rebuilt is an index as it should be.
type rebuilt struct {
	first   pos.Offset
	records []segment.IndexRecord
}

// end is the newest segment that holds a chunk, or the only one.
type end struct {
	pair    segment.Pair
	segment segment.Segment // as it will be after the repair
	epochs  []segment.EpochEnd
	last    segment.IndexRecord // of the last chunk, if segment.Chunks > 0
	walked  bool                // else the index is believed and nothing needs repair
	walk    segment.WalkEnd
	records []segment.IndexRecord // if walked
}

func (e *end) lastChunk() pos.Offset {
	if e.segment.Chunks == 0 {
		return pos.NoOffset
	}
	return e.last.ID
}

// analyse reads the newest segment and looks at the others' indexes. An empty newest
// segment gives way to the one before it, unless that is whole and ends elsewhere. Older
// segments that do not join the log are no part of it and stay where they are.
func (o *opener) analyse(f segment.Folder) (*analysis, error) {
	a := &analysis{}
	older := f.Pairs
	for len(older) > 0 && (a.active == nil || a.active.segment.Chunks == 0) {
		e, err := o.newest(older[len(older)-1])
		if err != nil {
			return nil, err
		}
		a.judge(e)
		if a.active != nil && e.walk.Torn == "" && e.segment.Next != a.active.pair.First {
			break
		}
		a.active, a.empty = e, f.Pairs[len(older):]
		older = older[:len(older)-1]
	}
	if a.active == nil {
		return a, nil
	}
	a.segments, a.epochs = []segment.Segment{a.active.segment}, a.active.epochs
	for ; len(older) > 0; older = older[:len(older)-1] {
		ok, err := o.older(a, older[len(older)-1])
		if err != nil {
			return nil, err
		}
		if !ok {
			a.damage = append(a.damage, fmt.Sprintf("%d segments up to %s do not join the log, which begins at %s: left alone",
				len(older), segment.FileName(older[len(older)-1].First), a.segments[0].First))
			break
		}
	}
	return a, nil
}

// judge notes what is wrong with the end of the log.
func (a *analysis) judge(e *end) {
	if e.walk.Torn == "" {
		return
	}
	text := fmt.Sprintf("%s is broken at %d (%s)", segment.FileName(e.pair.First), e.walk.Bytes, e.walk.Torn)
	if e.walk.Damaged {
		text += ", and whole chunks follow"
		a.broken = text
		a.damage = append(a.damage, text+": cut there")
	}
}

// newest reads one of the newest segments: by its index after a clean stop, else as a
// whole.
func (o *opener) newest(p segment.Pair) (*end, error) {
	f, err := o.cfg.Disk.Open(string(o.cfg.Stream), segment.FileName(p.First), false)
	if err != nil {
		return nil, err
	}
	defer giveBack(f)
	if o.rec.Clean {
		e, err := o.byIndex(p, f)
		if e != nil || err != nil {
			return e, err
		}
	}
	e := &end{pair: p, walked: true, segment: segment.Segment{First: p.First}}
	w := segment.NewWalk(p.First, p.Bytes, true)
	err = hooks.Walk(f, w, func(r segment.ChunkRef) bool {
		e.records = append(e.records, r.Record())
		return true
	})
	if err != nil {
		return nil, err
	}
	e.walk = w.End()
	for n := len(e.records); n > 0 && e.records[n-1].Position >= e.walk.Bytes; n-- {
		e.records = e.records[:n-1]
	}
	at := func(i int64) (segment.IndexRecord, bool) { return e.records[i], true }
	return e, e.fill(int64(len(e.records)), max(e.walk.Bytes, segment.FileHeaderSize), e.walk.Next, at)
}

// byIndex believes the index if its last record is that of a whole chunk with which the
// segment ends; nil if it isn't.
func (o *opener) byIndex(p segment.Pair, f port.File) (*end, error) {
	x := hooks.OpenIndex(o.cfg.Disk, o.cfg.Stream, p.First)
	if x == nil {
		return nil, nil
	}
	defer x.Close()
	e := &end{pair: p, segment: segment.Segment{First: p.First}}
	if x.Len() == 0 && p.Index == segment.FileHeaderSize && p.Bytes == segment.FileHeaderSize {
		return e, e.fill(0, segment.FileHeaderSize, p.First, x.Record)
	}
	last, ok := x.Record(x.Len() - 1)
	if !ok || p.Index != segment.IndexSize(x.Len()) {
		return nil, nil
	}
	chunks := 0
	w := segment.NewWalkFrom(segment.Place{Segment: p.First, Position: last.Position, Next: last.ID}, p.Bytes, true)
	err := hooks.Walk(f, w, func(segment.ChunkRef) bool {
		chunks++
		return true
	})
	if err != nil {
		return nil, err
	}
	if e := w.End(); chunks != 1 || e.Torn != "" || e.Bytes != p.Bytes {
		return nil, nil
	}
	if err := e.fill(x.Len(), p.Bytes, w.End().Next, x.Record); err != nil {
		return nil, nil
	}
	return e, nil
}

// fill describes a segment by its index records.
func (e *end) fill(n, bytes int64, next pos.Offset, at func(int64) (segment.IndexRecord, bool)) error {
	s, epochs, ok := describe(e.pair.First, n, bytes, next, at)
	if !ok {
		return fmt.Errorf("%s: its records contradict each other", segment.IndexName(e.pair.First))
	}
	e.segment, e.epochs = s, epochs
	if n > 0 {
		e.last, _ = at(n - 1)
	}
	return nil
}

// describe makes a segment's description from its index records; false if they do not fit
// together.
func describe(first pos.Offset, n, bytes int64, next pos.Offset, at func(int64) (segment.IndexRecord, bool)) (segment.Segment, []segment.EpochEnd, bool) {
	s := segment.Segment{First: first, Next: next, Bytes: bytes, Chunks: n}
	if n == 0 {
		return s, nil, true
	}
	begin, ok1 := at(0)
	last, ok2 := at(n - 1)
	epochs, ok3 := segment.Epochs(n, next, at)
	s.FirstTime, s.LastTime = begin.Timestamp, last.Timestamp
	return s, epochs, ok1 && ok2 && ok3 && begin.ID == first && begin.Position == segment.FileHeaderSize
}

// older puts a closed segment before the log; false if it does not end where the log
// begins. An index that does not fit its segment is made anew from the chunks' headers.
func (o *opener) older(a *analysis, p segment.Pair) (bool, error) {
	f, err := o.cfg.Disk.Open(string(o.cfg.Stream), segment.FileName(p.First), false)
	if err != nil {
		return false, err
	}
	defer giveBack(f)
	next := a.segments[0].First
	s, epochs, ok := o.closed(p, f, next)
	if !ok {
		var r rebuilt
		if r, ok, err = rebuild(p, f, next); err != nil || !ok {
			return false, err
		}
		at := func(i int64) (segment.IndexRecord, bool) { return r.records[i], true }
		if s, epochs, ok = describe(p.First, int64(len(r.records)), p.Bytes, next, at); !ok {
			return false, nil
		}
		a.rebuilt = append(a.rebuilt, r)
	}
	joined, ok := segment.JoinEpochs(epochs, a.epochs)
	if ok {
		a.segments, a.epochs = append([]segment.Segment{s}, a.segments...), joined
	}
	return ok, nil
}

// closed describes a closed segment by its index, if that agrees with the chunks at both
// of its ends.
func (o *opener) closed(p segment.Pair, f port.File, next pos.Offset) (s segment.Segment, epochs []segment.EpochEnd, ok bool) {
	x := hooks.OpenIndex(o.cfg.Disk, o.cfg.Stream, p.First)
	if x == nil {
		return s, nil, false
	}
	defer x.Close()
	if x.Len() == 0 || p.Index != segment.IndexSize(x.Len()) {
		return s, nil, false
	}
	last, ok := x.Record(x.Len() - 1)
	if !ok {
		return s, nil, false
	}
	var b [chunk.HeaderSize]byte
	if n, err := f.ReadAt(b[:], last.Position); err != nil && n < len(b) {
		return s, nil, false
	}
	h, err := chunk.ParseHeader(b[:])
	if err != nil || h.ID != last.ID || h.Next() != next || last.Position+h.Size() != p.Bytes {
		return s, nil, false
	}
	return describe(p.First, x.Len(), p.Bytes, next, x.Record)
}

// rebuild makes the index of a closed segment; false if its chunks do not reach from its
// first offset to next.
func rebuild(p segment.Pair, f port.File, next pos.Offset) (r rebuilt, ok bool, err error) {
	r.first = p.First
	w := segment.NewWalk(p.First, p.Bytes, false)
	err = hooks.Walk(f, w, func(c segment.ChunkRef) bool {
		r.records = append(r.records, c.Record())
		return true
	})
	e := w.End()
	return r, e.Bytes == p.Bytes && e.Next == next && len(r.records) > 0, err
}
