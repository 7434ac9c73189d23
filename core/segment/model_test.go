package segment_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
)

// disk is what a shell would do to files, kept as lists of chunks, with faults drawn at
// random. It fails the test when an effect does not fit what lies there.
type disk struct {
	t     *rapid.T
	m     *segment.Machine
	mode  segment.SyncMode
	files map[pos.Offset]*segmentFile
	sync  *segment.Sync // under way
	shown segment.View
	now   pos.Millis
	epoch pos.Epoch
	ended string
	opens int
	fault bool // draw faults

	captured pos.Offset
	alone    bool // nothing that was written is cut
}

type segmentFile struct {
	chunks []segment.Mark
	sizes  []int64
	times  []pos.Millis
	epochs []pos.Epoch
	synced int  // chunks that survive a power loss
	torn   bool // something that is no chunk stands at the end
}

func (f *segmentFile) bytes() int64 {
	n := int64(segment.FileHeaderSize)
	for _, s := range f.sizes {
		n += s
	}
	return n
}

func (f *segmentFile) cut(n int) {
	f.chunks, f.sizes, f.times, f.epochs = f.chunks[:n], f.sizes[:n], f.times[:n], f.epochs[:n]
	f.synced, f.torn = min(f.synced, n), false
}

// step feeds one input and does what comes out.
func (d *disk) step(in segment.Input) {
	effects := d.m.Step(in, nil)
	if err := d.m.Check(); err != nil {
		d.t.Fatalf("after %T %+v: %v", in, in, err)
	}
	for _, e := range effects {
		if f := d.do(e, in); f != nil {
			f.Now = d.now
			d.step(f)
			return
		}
	}
}

// settle does what a shell does after each step.
func (d *disk) settle(alone bool) {
	for n := 0; alone && d.m.Unsettled() && d.ended == ""; n++ {
		if n > 10 {
			d.t.Fatalf("does not settle: %+v", d.m.Status())
		}
		d.step(&segment.Committed{Next: d.m.Alone(), Now: d.now})
	}
	if at, ok := d.m.Due(); ok && at <= d.now && d.ended == "" {
		before := fmt.Sprint(d.m.Status(), at)
		d.step(&segment.Tick{Now: d.now})
		if at, ok := d.m.Due(); ok && at <= d.now && fmt.Sprint(d.m.Status(), at) == before {
			d.t.Fatalf("a tick at %d changed nothing and is due again: %s", d.now, before)
		}
	}
}

func (d *disk) fails(what string) bool {
	return d.fault && rapid.IntRange(0, 9).Draw(d.t, what+" fails") == 0
}

func (d *disk) do(e segment.Effect, in segment.Input) *segment.Failed {
	switch e := e.(type) {
	case *segment.Open:
		d.opens++
	case *segment.Roll:
		return d.roll(e)
	case *segment.Write:
		return d.write(e, in)
	case *segment.Sync:
		if d.sync != nil {
			d.t.Fatalf("two syncs at a time")
		}
		s := *e
		d.sync = &s
	case *segment.Publish:
		d.publish(e)
	case *segment.Truncate:
		return d.truncate(e)
	case *segment.Remove:
		if d.alone && e.Segment >= d.shown.First {
			d.t.Fatalf("segment %s is removed, and readers see what is in it: %+v", e.Segment, d.shown)
		}
		if d.fails("remove") {
			return &segment.Failed{Op: segment.OpRemove, Segment: e.Segment, Why: "remove"}
		}
		delete(d.files, e.Segment)
	}
	return nil
}

// notNeeded demands that a capture whose row is behind can find the last record once the segment
// has left the log. What the capture says later binds nothing that has left it before, be its
// files there or not.
func (d *disk) notNeeded(segment pos.Offset) {
	f := d.files[segment]
	if d.captured == pos.NoOffset || !d.alone || f == nil || len(f.chunks) == 0 {
		return
	}
	last := f.chunks[len(f.chunks)-1].Next
	for first, other := range d.files {
		if first > segment && other.synced > 0 {
			return // it is there after a power loss
		}
	}
	if last > d.captured {
		d.t.Fatalf("segment %s has left the log, the last that is on disk and ends at %s, and the capture knows of what is below %s", segment, last, d.captured)
	}
}

func (d *disk) roll(e *segment.Roll) *segment.Failed {
	if old := d.files[e.Old]; e.Old != pos.NoOffset {
		if d.fails("sync at a roll") {
			return &segment.Failed{Op: segment.OpRollSync, Why: "roll sync"}
		}
		if old == nil || old.torn {
			d.t.Fatalf("roll of %s, which is %+v", e.Old, old)
		}
	}
	if d.fails("roll") {
		return &segment.Failed{Op: segment.OpRoll, Why: "roll"}
	}
	if e.Old != pos.NoOffset {
		old := d.files[e.Old]
		old.synced = len(old.chunks)
	}
	if old := d.files[e.New]; old != nil && len(old.chunks) > 0 {
		d.t.Fatalf("roll to %s, which holds chunks", e.New)
	}
	d.files[e.New] = &segmentFile{}
	return nil
}

func (d *disk) write(e *segment.Write, in segment.Input) *segment.Failed {
	f := d.files[e.Segment]
	if f == nil || f.torn || e.Position != f.bytes() || e.IndexAt != segment.IndexSize(int64(len(f.chunks))) {
		d.t.Fatalf("write %+v to %+v", e, f)
	}
	var size int64
	var records uint32
	switch in := in.(type) {
	case *segment.Batch:
		size, records = in.Size, in.Records
	case *segment.Foreign:
		size, records = in.Header.Size(), in.Header.Records
	case *segment.Found, *segment.Synced, *segment.Committed, *segment.Failed, *segment.Cut, *segment.Retain, *segment.Tick:
		d.t.Fatalf("%T makes the machine write %+v", in, e)
	}
	failed := d.fails("write")
	if !failed || rapid.Bool().Draw(d.t, "chunk is on disk") {
		f.chunks = append(f.chunks, segment.Mark{
			ID: e.Index.ID, Next: e.Index.ID + pos.Offset(records), Segment: e.Segment, Position: e.Position, Chunk: int64(len(f.chunks)),
		})
		f.sizes = append(f.sizes, size)
		f.times, f.epochs = append(f.times, e.Index.Timestamp), append(f.epochs, e.Index.Epoch)
	}
	if failed {
		f.torn = true
		return &segment.Failed{Op: segment.OpWrite, Why: "write"}
	}
	return nil
}

func (d *disk) truncate(e *segment.Truncate) *segment.Failed {
	d.ended = e.End
	f := d.files[e.Segment]
	n := 0
	for at := int64(segment.FileHeaderSize); at < e.Bytes; n++ {
		if f == nil || n == len(f.chunks) {
			d.t.Fatalf("truncate %+v of %+v", e, f)
		}
		if at += f.sizes[n]; at > e.Bytes {
			d.t.Fatalf("truncate %+v cuts a chunk of %+v", e, f)
		}
	}
	if e.Index != segment.IndexSize(int64(n)) {
		d.t.Fatalf("truncate %+v leaves %d chunks", e, n)
	}
	if n < len(f.chunks) && f.chunks[n].ID < d.shown.Synced {
		d.t.Fatalf("truncate %+v cuts what was published as synced: %+v", e, d.shown)
	}
	if d.fails("truncate") {
		return &segment.Failed{Op: segment.OpTruncate, Why: "truncate"}
	}
	f.cut(n)
	return nil
}

// publish checks that what readers may see is there, and synced where that is promised.
func (d *disk) publish(e *segment.Publish) {
	at := e.First
	for _, first := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[first]
		for i, c := range f.chunks {
			if c.Next <= e.First || c.ID >= e.Committed {
				continue
			}
			if c.ID != at {
				d.t.Fatalf("published %+v, but the disk goes on at %s after %s", e.View, c.ID, at)
			}
			at = c.Next
			if must := d.mode == segment.Always || c.ID < e.Synced; must && i >= f.synced {
				d.t.Fatalf("published %+v, but %s is not synced", e.View, c.ID)
			}
			if c.Next == e.Committed && c.ID != e.LastChunk {
				d.t.Fatalf("published %+v, the last chunk is %s", e.View, c.ID)
			}
		}
	}
	if at != e.Committed {
		d.t.Fatalf("published %+v, but the disk ends at %s", e.View, at)
	}
	if e.First < d.shown.First || e.Committed < d.shown.Committed || e.Synced < d.shown.Synced {
		d.t.Fatalf("published %+v after %+v", e.View, d.shown)
	}
	for first := range d.files {
		if first >= d.shown.First && first < e.First {
			d.notNeeded(first)
		}
	}
	d.shown = e.View
}

// synced ends the sync that is under way.
func (d *disk) synced() {
	s := d.sync
	if s == nil {
		return
	}
	d.sync = nil
	if d.fails("sync") {
		d.step(&segment.Failed{Op: segment.OpSync, Why: "sync", Now: d.now})
		return
	}
	if f := d.files[s.Segment]; f != nil {
		for i, c := range f.chunks {
			if c.Next <= s.Done.Next {
				f.synced = max(f.synced, i+1)
			}
		}
	}
	s.Done.Now = d.now
	d.step(&s.Done)
}

// powerLoss leaves what is synced, and of the rest a part from its beginning.
func (d *disk) powerLoss() {
	for _, first := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[first]
		f.cut(rapid.IntRange(f.synced, len(f.chunks)).Draw(d.t, "chunks left"))
		f.synced = len(f.chunks)
	}
	d.sync = nil
}

// found is what recovery would find: the newest run of files that join, without an empty
// newest one behind others.
func (d *disk) found() *segment.Found {
	in := &segment.Found{Epoch: d.epoch, LastChunk: pos.NoOffset, Now: d.now}
	firsts := slices.Sorted(maps.Keys(d.files))
	for i := len(firsts) - 1; i >= 0; i-- {
		s, epochs, last := d.describe(firsts[i])
		if len(in.Segments) > 0 && s.Next != in.Segments[0].First {
			break
		}
		if s.Chunks == 0 && i > 0 && len(in.Segments) == 0 {
			if before, _, _ := d.describe(firsts[i-1]); before.Next == s.First {
				delete(d.files, firsts[i])
				continue
			}
		}
		if len(in.Segments) == 0 {
			in.Committed, in.LastChunk = s.Next, last
		}
		in.Segments = append([]segment.Segment{s}, in.Segments...)
		if joined, ok := segment.JoinEpochs(epochs, in.Epochs); ok {
			in.Epochs = joined
		}
	}
	return in
}

func (d *disk) describe(first pos.Offset) (segment.Segment, []segment.EpochEnd, pos.Offset) {
	f := d.files[first]
	s := segment.Segment{First: first, Next: first, Bytes: f.bytes(), Chunks: int64(len(f.chunks))}
	var epochs []segment.EpochEnd
	last := pos.NoOffset
	for i, c := range f.chunks {
		if i == 0 {
			s.FirstTime = f.times[0]
		}
		s.Next, s.LastTime, last = c.Next, f.times[i], c.ID
		if n := len(epochs); n > 0 && epochs[n-1].Epoch == f.epochs[i] {
			epochs[n-1].End = c.Next
		} else {
			epochs = append(epochs, segment.EpochEnd{Epoch: f.epochs[i], End: c.Next})
		}
	}
	return s, epochs, last
}

// header is that of a chunk another replica may send next.
func (d *disk) header(records uint32) chunk.Header {
	e := d.m.Epoch()
	if ends := d.m.Epochs(); len(ends) > 0 {
		e = max(ends[len(ends)-1].Epoch, e-1)
	}
	return chunk.Header{
		Entries: uint16(records), Records: records, Timestamp: d.now, Epoch: e, ID: d.m.Next(), DataSize: 4 * records,
	}
}
