package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"pgregory.net/rapid"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/core/segment"
)

const (
	stream = pos.StreamID("__s_1")
	prefix = "mr"
)

// sealed returns a chunk of n records.
func sealed(typ chunk.Type, first pos.Offset, n int, at pos.Millis, size int) segmentChunk {
	var data []byte
	for i := range n {
		body := bytes.Repeat([]byte{byte(first) + byte(i)}, size)
		data = binary.BigEndian.AppendUint32(data, uint32(len(body)))
		data = append(data, body...)
	}
	h := chunk.Header{Type: typ, Entries: uint16(n), Records: uint32(n), Timestamp: at, Epoch: 1, ID: first,
		CRC: crc32.ChecksumIEEE(data), DataSize: uint32(len(data))}
	return segmentChunk{h, append(h.Append(nil), data...)}
}

type segmentChunk struct {
	chunk.Header
	bytes []byte
}

// world is a stream with both its tiers, and the shell of one reader of it.
type world struct {
	chunks    []segmentChunk // all there ever were
	committed int            // of them
	floor     int            // first one on local disk
	objects   map[string][]byte
	live      *manifest.Manifest // what is in the store
	row       manifest.Row       // what the node knows of it
	seq       pos.Revision
	tiering   bool
	pointer   resolve.Pointer
	running   bool
	uid       pos.UID
	damaged   map[int]bool // chunks whose local copy is not what was written
	detours   []pos.Offset

	m      *Machine
	cursor int // next chunk, -1 if none is open
	fetch  *Fetch
	notify *Notify
	asked  bool
	timers map[uint64]bool
	pull   uint64 // open, 0 if none
	timer  uint64 // of the open pull
	pulls  uint64
	at     pos.Offset // where the consumer stands
	begun  bool
	got    []pos.Offset // ids of the chunks delivered
	errs   []*Error
	waits  []Class
	moves  []resolve.Moved
	fail   func(string, ...any)
	steps  int
	trace  func(string)
}

func newWorld(spec resolve.Spec, fail func(string, ...any)) *world {
	return &world{
		objects: map[string][]byte{}, live: manifest.New(0), running: true, tiering: true,
		row:     manifest.Row{State: manifest.StateResolved, Manifest: manifest.New(0)},
		m:       New(Config{Stream: stream, Prefix: prefix, Spec: spec, RangeBytes: 150}),
		damaged: map[int]bool{}, cursor: -1, timers: map[uint64]bool{}, at: pos.NoOffset, fail: fail,
	}
}

func (w *world) offset(i int) pos.Offset {
	if i < len(w.chunks) {
		return w.chunks[i].ID
	}
	if i == 0 {
		return 0
	}
	return w.chunks[i-1].Next()
}

func (w *world) append(typ chunk.Type, records, size int, at pos.Millis) {
	w.chunks = append(w.chunks, sealed(typ, w.offset(len(w.chunks)), records, at, size))
}

// upload makes a fragment of up to n committed chunks that follow the manifest's
// next, or begin at the local floor if that has passed it.
func (w *world) upload(n int) {
	if !w.tiering {
		return
	}
	from := w.floor
	for from < w.committed && w.chunks[from].ID < w.live.Next {
		from++
	}
	a := fragment.New(fragment.Config{TargetBytes: 1 << 30})
	b := fragment.Header()
	for i := from; i < min(from+n, w.committed); i++ {
		c := w.chunks[i]
		if err := a.Add(segment.ChunkRef{Header: c.Header, Position: int64(len(b)), Size: c.Size()}, 0); err != nil {
			w.fail("%v", err)
		}
		b = append(b, c.bytes...)
	}
	if a.Empty() {
		return
	}
	f := a.Cut()
	w.uid++
	f.UID = w.uid
	tail, _ := fragment.Tail(&f, fragment.Checksum(0, b))
	w.objects[fragment.Key(prefix, stream, f.First, f.UID)] = append(b, tail...)
	w.edit(manifest.AppendEdit(w.live, manifest.EntryOf(&f)))
}

func (w *world) edit(e manifest.Edit) {
	m, err := w.live.Apply(e)
	if err != nil {
		w.fail("%v", err)
	}
	w.live = m
}

// expire removes the oldest fragment from the store.
func (w *world) expire() {
	if w.live.Empty() {
		return
	}
	e := w.live.Entries[0]
	w.edit(manifest.RemoveHeadEdit(w.live, 1))
	delete(w.objects, fragment.Key(prefix, stream, e.First, e.UID))
}

func (w *world) publish() {
	w.seq++
	w.row = manifest.Row{State: manifest.StateResolved, Seq: w.seq, Manifest: w.live}
}

// step feeds one input and all that follows from it at once.
func (w *world) step(in Input) {
	queue := []Input{in}
	for len(queue) > 0 {
		if w.steps++; w.steps > 100_000 {
			w.fail("the machine runs in circles: %+v", w.m.Status())
		}
		in, queue = queue[0], queue[1:]
		effects := w.m.Step(in, nil)
		if w.trace != nil {
			w.trace(fmt.Sprintf("%T%+v", in, brief(in)))
		}
		for _, e := range effects {
			if w.trace != nil {
				w.trace(fmt.Sprintf("    %T%+v", e, briefEffect(e)))
			}
			if answer := w.do(e); answer != nil {
				queue = append(queue, answer)
			}
		}
		if len(queue) == 0 {
			w.check()
		}
	}
}

func (w *world) check() {
	if err := w.m.check(); err != nil {
		w.fail("%v", err)
	}
}

func (w *world) do(e Effect) Input {
	switch e := e.(type) {
	case Look:
		return w.look()
	case AskPointer:
		w.asked = true
	case OpenLocal:
		return w.open(e.Place)
	case ReadLocal:
		return w.read(e.MaxBytes)
	case CloseLocal:
		w.cursor = -1
	case Fetch:
		if w.fetch != nil {
			w.fail("two fetches at a time")
		}
		w.fetch = &e
	case Notify:
		if w.notify != nil {
			w.fail("two listeners at a time")
		}
		w.notify = &e
	case SetTimer:
		w.timers[e.ID] = true
		if w.pull != 0 && w.timer == 0 {
			w.timer = e.ID
		}
	case StopTimer:
		delete(w.timers, e.ID)
	case Answer:
		w.answer(e)
	case Repositioned:
		w.repositioned(e.Moved)
	case Detour:
		w.detours = append(w.detours, e.At)
	case Waiting:
		w.waits = append(w.waits, e.Err.Class)
	}
	return nil
}

func (w *world) look() Input {
	return Seen{Running: w.running, Known: resolve.Known{
		First: w.offset(w.floor), Committed: w.offset(w.committed), Tiering: w.tiering, Row: w.row,
	}}
}

func (w *world) open(p resolve.Place) Input {
	if !w.running {
		return LocalRead{End: EndGone}
	}
	w.cursor = w.committed
	switch p := p.(type) {
	case resolve.LocalAt:
		if p.At < w.offset(w.floor) {
			w.cursor = -1
			return LocalRead{End: EndTrimmed}
		}
		for i := w.committed - 1; i >= w.floor && w.chunks[i].Next() > p.At; i-- {
			w.cursor = i
		}
	case resolve.LocalTime:
		for i := w.committed - 1; i >= w.floor; i-- {
			if w.chunks[i].Timestamp >= p.Time {
				w.cursor = i
			}
		}
	case resolve.LocalLast:
		for i := w.floor; i < w.committed; i++ {
			if w.chunks[i].Type == chunk.User {
				w.cursor = i
			}
		}
	case resolve.RemoteAt, resolve.RemoteTime, resolve.Doubtful, resolve.Ask, resolve.Unavailable:
		w.fail("%T is no place in the local log", p)
	}
	return Opened{At: w.offset(w.cursor)}
}

func (w *world) read(maxBytes int) Input {
	var r LocalRead
	for size := 0; size < maxBytes; {
		switch {
		case !w.running:
			r.End = EndGone
			return r
		case w.cursor < w.floor:
			r.End = EndTrimmed
			return r
		case w.cursor >= w.committed:
			r.End = EndTail
			return r
		case w.damaged[w.cursor]:
			r.End, r.Why = EndDamaged, "planned"
			return r
		}
		c := w.chunks[w.cursor]
		r.Chunks = append(r.Chunks, Chunk{Header: c.Header, Bytes: c.bytes})
		size += len(c.bytes)
		w.cursor++
	}
	return r
}

func (w *world) send(maxBytes int) {
	w.pulls++
	if w.pull != 0 {
		w.fail("the test pulls twice")
	}
	w.pull = w.pulls
	w.step(Pulled{ID: w.pulls, MaxBytes: maxBytes})
}

// respond answers the fetch in flight from what the store holds now, at most n
// bytes of it.
func (w *world) respond(n int64) {
	f := *w.fetch
	w.fetch = nil
	b, ok := w.objects[f.Key]
	if !ok {
		w.step(FetchFailed{ID: f.ID, Class: Gone, Why: "no such object"})
		return
	}
	to := min(f.Off+min(f.N, n), int64(len(b)))
	w.step(Fetched{ID: f.ID, Data: bytes.Clone(b[min(f.Off, to):to])})
}

func (w *world) wake() {
	if w.notify != nil && (!w.running || w.offset(w.committed) > w.notify.From) {
		w.notify = nil
		w.step(Woken{})
	}
}

// settle answers everything that is under way, and lets the pull's own time run
// out only when nothing else can happen.
func (w *world) settle() {
	for w.pull != 0 {
		switch {
		case w.fetch != nil:
			w.respond(1 << 30)
		case w.asked:
			w.asked = false
			w.step(PointerSeen{Pointer: w.pointer})
		case w.notify != nil && w.offset(w.committed) > w.notify.From:
			w.wake()
		default:
			w.fire()
		}
	}
}

// fire lets a retry's time pass, or else the pull's.
func (w *world) fire() {
	for id := range w.timers {
		if id != w.timer {
			delete(w.timers, id)
			w.step(Fired{ID: id})
			return
		}
	}
	delete(w.timers, w.timer)
	w.step(Fired{ID: w.timer})
}

// drain brings the world to rest and reads to its end.
func (w *world) drain() {
	w.running, w.tiering = true, true
	for i := range w.damaged {
		if !w.covered(i) {
			delete(w.damaged, i) // nothing but a repair helps
		}
	}
	w.committed = len(w.chunks)
	w.publish()
	for i := 0; w.at != w.offset(w.committed); i++ {
		if i > 500 {
			w.fail("the reader does not reach the end, %d: %+v", w.offset(w.committed), w.m.Status())
		}
		if w.pull == 0 {
			w.send(rapidMax)
		}
		w.settle()
		for len(w.timers) > 0 {
			w.fire() // what is left is a retry, the error of which was answered at once
		}
	}
}

// covered reports whether the object store has chunk i.
func (w *world) covered(i int) bool {
	j, ok := w.live.Find(w.chunks[i].ID)
	return ok && w.live.Entries[j].First <= w.chunks[i].ID
}

const rapidMax = 1 << 20

func brief(in Input) any {
	if in, ok := in.(Seen); ok {
		return fmt.Sprintf(" local [%s, %s) remote %d running %v", in.Known.First, in.Known.Committed, in.Known.Row.State, in.Running)
	}
	if in, ok := in.(LocalRead); ok {
		return fmt.Sprintf(" %d chunks, end %d", len(in.Chunks), in.End)
	}
	if in, ok := in.(Fetched); ok {
		return fmt.Sprintf(" %d: %d bytes", in.ID, len(in.Data))
	}
	return in
}

func briefEffect(e Effect) any {
	if e, ok := e.(Answer); ok {
		if e.Err != nil {
			return " " + e.Err.Error()
		}
		s := fmt.Sprintf(" [%s, %s) %d chunks remote %v", e.Chunks.From, e.Chunks.Next, len(e.Chunks.Chunks), e.Chunks.Remote)
		if e.Chunks.Moved != nil {
			s += fmt.Sprintf(" moved %+v", *e.Chunks.Moved)
		}
		return s
	}
	if e, ok := e.(Waiting); ok {
		return fmt.Sprintf(" %s for %s", e.Err.Error(), e.After)
	}
	if e, ok := e.(OpenLocal); ok {
		if at, ok := e.Place.(resolve.LocalAt); ok {
			return fmt.Sprintf(" at %s", at.At)
		}
	}
	return e
}

// anySpec draws where to begin.
func anySpec(t *rapid.T) resolve.Spec {
	switch rapid.IntRange(0, 4).Draw(t, "spec") {
	case 0:
		return resolve.Last()
	case 1:
		return resolve.Next()
	case 2:
		return resolve.At(pos.Offset(rapid.IntRange(0, 30).Draw(t, "offset")))
	case 3:
		return resolve.Since(pos.Millis(rapid.IntRange(0, 200).Draw(t, "time")))
	}
	return resolve.First()
}
