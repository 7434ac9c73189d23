package fetch

import (
	"fmt"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// Step applies one input and appends to out what must now be done, in order.
// Answers that are no longer waited for change nothing.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	switch in := in.(type) {
	case Pulled:
		out = m.pulled(in, out)
	case Seen:
		out = m.seen(in, out)
	case PointerSeen:
		if m.s.phase == Asking {
			// At once, and whether or not the pull is still open: the answer ages.
			m.s.phase, m.s.pointer = Seeking, in.Pointer
			out = append(out, Look{})
		}
	case Opened:
		m.opened(in)
	case LocalRead:
		out = m.localRead(in, out)
	case Fetched:
		out = m.fetched(in, out)
	case FetchFailed:
		out = m.fetchFailed(in, out)
	case FetchRefused:
		if in.ID == m.s.remote.inflight {
			m.s.remote.inflight, m.s.crowded = 0, true
		}
	case Woken:
		m.s.parked = false
	case Fired:
		out = m.fired(in, out)
	}
	return m.drive(out)
}

func (m *Machine) pulled(in Pulled, out []Effect) []Effect {
	if m.s.pull.open {
		out = m.refuse(&Error{Class: Superseded, Stream: m.cfg.Stream, At: m.s.next, Why: "a later pull took its place"}, out)
	}
	if in.MaxBytes <= 0 {
		in.MaxBytes = DefaultMaxBytes
	}
	m.s.ids++
	m.s.pull = pull{open: true, id: in.ID, timer: m.s.ids, max: in.MaxBytes}
	m.s.crowded = false
	out = append(out, SetTimer{ID: m.s.ids, After: max(in.Wait, 0)})
	if len(m.s.ready.chunks) > 0 {
		return m.answer(out)
	}
	if m.s.retry.timer != 0 && m.answerNow(m.s.retry.last) {
		return m.refuse(m.s.retry.last, out)
	}
	return out
}

func (m *Machine) fired(in Fired, out []Effect) []Effect {
	switch {
	case m.s.pull.open && in.ID == m.s.pull.timer:
		if m.s.retry.last != nil {
			return m.refuse(m.s.retry.last, out)
		}
		return m.answer(out)
	case in.ID == m.s.retry.timer:
		m.s.retry.timer = 0
	}
	return out
}

// drive takes the next step that needs no input, until something is under way or
// nobody waits.
func (m *Machine) drive(out []Effect) []Effect {
	for !m.s.busy && m.s.retry.timer == 0 {
		if !m.s.pull.open {
			return m.readAhead(out)
		}
		switch m.s.phase {
		case Seeking:
			m.s.busy = true
			return append(out, Look{})
		case Local:
			if m.s.parked {
				return out
			}
			m.s.busy = true
			return append(out, ReadLocal{MaxBytes: m.s.pull.max})
		case Indexing:
			return m.fetchIndex(out)
		case Data:
			var again bool
			if out, again = m.hand(out); !again {
				return out
			}
		default:
			return out
		}
	}
	return out
}

// seek goes looking for the next offset again, or for the first one if it was
// never found.
func (m *Machine) seek() {
	m.s.phase = Seeking
	m.s.remote = remote{}
	if m.s.next.Valid() {
		m.s.spec = resolve.At(m.s.next)
	}
}

// maxSeeks is how often a reader may seek in a row without finding a chunk or the
// tail: segments and fragments go while it looks, but not that fast.
const maxSeeks = 4

func (m *Machine) seen(in Seen, out []Effect) []Effect {
	if !m.s.busy || m.s.phase != Seeking && m.s.phase != Data {
		return out
	}
	m.s.busy = false
	if !in.Running {
		return m.wait(Unavailable, "the stream's log does not run on this node: is the stream there, and its writer up?", out)
	}
	m.s.committed = in.Known.Committed
	if m.s.phase == Data {
		if h, state := m.head(); state == headWhole && h.Next() > m.s.committed {
			return m.park(out)
		}
		return out
	}
	if m.s.broken != "" {
		return m.detour(in.Known, out)
	}
	in.Known.Pointer, m.s.pointer = m.s.pointer, resolve.PointerUnasked
	if m.s.seeks++; m.s.seeks > maxSeeks {
		m.s.seeks = 0
		return m.wait(Unavailable, "the place of the next record changed each time it was looked for", out)
	}
	return m.place(resolve.Resolve(m.s.spec, in.Known), in.Known.Row.Seq, out)
}

// maxDoubts is how often the same manifest must say that records are nowhere before
// it is believed. With the clock of Unavailable it takes 3 s; a manifest is on its
// way for milliseconds.
const maxDoubts = 5

// doubt waits for a manifest that may be on its way.
func (m *Machine) doubt(d resolve.Doubtful, seq pos.Revision, out []Effect) []Effect {
	if m.s.doubts == 0 || m.s.doubted != seq {
		m.s.doubts, m.s.doubted = 0, seq
	}
	if m.s.doubts++; m.s.doubts > maxDoubts {
		m.s.doubts = 0
		return m.place(d.Then, seq, out)
	}
	m.s.seeks = 0
	return m.wait(Unavailable, "the next records left the local log, and the manifest that may have them is not here yet", out)
}

// place goes where resolve says, by the manifest numbered seq.
func (m *Machine) place(p resolve.Place, seq pos.Revision, out []Effect) []Effect {
	switch p := p.(type) {
	case resolve.Unavailable:
		m.s.seeks = 0
		if p.Lasting {
			return m.wait(Disabled, p.Why, out)
		}
		return m.wait(Unavailable, p.Why, out)
	case resolve.Doubtful:
		return m.doubt(p, seq, out)
	case resolve.Ask:
		m.s.phase, m.s.busy = Asking, true
		return append(out, AskPointer{})
	case resolve.LocalAt:
		out = m.move(p.Moved, out)
		m.stand(p.At)
		return m.open(p, out)
	case resolve.LocalLast, resolve.LocalTime:
		return m.open(p, out)
	case resolve.RemoteAt:
		out = m.move(p.Moved, out)
		m.stand(p.At)
		m.enter(remote{entry: p.Entry}, p.At == p.Entry.First)
	case resolve.RemoteTime:
		m.enter(remote{entry: p.Entry, byTime: true, time: p.Time}, false)
	}
	return out
}

func (m *Machine) open(p resolve.Place, out []Effect) []Effect {
	m.s.retry.overcome(Unavailable, Disabled)
	m.s.phase, m.s.busy = Opening, true
	return append(out, OpenLocal{Place: p})
}

// enter begins a fragment, at its first chunk or where its index will say.
func (m *Machine) enter(r remote, first bool) {
	m.s.retry.overcome(Unavailable, Disabled)
	r.pos = fragment.DataStart
	m.s.remote, m.s.phase = r, Indexing
	if first {
		m.s.phase = Data
	}
}

// stand makes o the next offset to hand out. Chunks are the same in both tiers: once
// one was handed out, the next begins where it ended, wherever it is read.
func (m *Machine) stand(o pos.Offset) {
	m.s.aligned = m.s.aligned && o == m.s.next
	m.s.next = o
	if !m.s.ready.from.Valid() {
		m.s.ready.from = o
	}
}

func (m *Machine) move(moved *resolve.Moved, out []Effect) []Effect {
	if moved == nil {
		return out
	}
	if !m.s.ready.from.Valid() {
		m.s.ready.from = moved.From
	}
	if m.s.moved != nil {
		m.s.moved.To = moved.To
	} else {
		first := *moved
		m.s.moved = &first
	}
	return append(out, Repositioned{Moved: *moved})
}

func (m *Machine) opened(in Opened) {
	if m.s.phase != Opening {
		return
	}
	m.s.phase, m.s.busy = Local, false
	if m.s.spec.Kind == resolve.KindLast || m.s.spec.Kind == resolve.KindTimestamp {
		m.stand(in.At)
		m.s.spec = resolve.At(in.At)
	}
}

func (m *Machine) localRead(in LocalRead, out []Effect) []Effect {
	if m.s.phase != Opening && m.s.phase != Local || !m.s.busy {
		return out
	}
	m.s.busy = false
	for _, c := range in.Chunks {
		if err := m.follows(c.Header); err != nil {
			return m.localDamage(err.Error(), out)
		}
		m.take(c.Header, c.Bytes, false)
	}
	if len(m.s.ready.chunks) > 0 {
		if m.s.pull.open {
			return m.answer(out)
		}
		return out
	}
	switch in.End {
	case EndFull:
		return out
	case EndTail:
		m.progress()
		return m.park(out)
	case EndFailed:
		return m.leaveLocal(Fault, in.Why, out)
	case EndDamaged:
		return m.localDamage(in.Why, out)
	default:
		return m.leaveLocal(0, "", out)
	}
}

// localDamage closes the cursor and looks for the next offset in the object store. A
// reader that never found its first offset can't: it does not know what to look for.
func (m *Machine) localDamage(why string, out []Effect) []Effect {
	if !m.s.next.Valid() {
		return local(m.leaveLocal(Damaged, why, out))
	}
	m.s.broken = why
	return m.leaveLocal(0, "", out)
}

// detour goes on in the object store if it has the next offset, whose local copy is
// damaged. Otherwise only an operator can help, or the upload of what the disk brings
// back: the local log is tried again after a time.
func (m *Machine) detour(k resolve.Known, out []Effect) []Effect {
	why := m.s.broken
	m.s.broken = ""
	p, ok := resolve.Covered(m.s.next, k)
	if !ok {
		return local(m.wait(Damaged, why+"; the object store is not known to have it", out))
	}
	m.s.seeks = 0 // whatever goes wrong there waits: it is no running in circles
	out = append(out, Detour{At: p.At, To: p.Entry.Next, Why: why})
	m.enter(remote{entry: p.Entry}, p.At == p.Entry.First)
	return out
}

// local marks the Waiting that was appended last.
func local(out []Effect) []Effect {
	for i := len(out) - 1; i >= 0; i-- {
		if w, ok := out[i].(Waiting); ok {
			w.Local = true
			out[i] = w
			break
		}
	}
	return out
}

// leaveLocal closes the cursor and seeks again, after a time if class is not 0.
func (m *Machine) leaveLocal(class Class, why string, out []Effect) []Effect {
	out = append(out, CloseLocal{})
	m.seek()
	if class != 0 {
		return m.wait(class, why, out)
	}
	return out
}

// park waits until more is committed.
func (m *Machine) park(out []Effect) []Effect {
	m.s.parked = true
	from := m.s.next
	if m.s.phase == Data {
		from = m.s.committed
	}
	return append(out, Notify{From: from})
}

// follows reports why a chunk can't be the next one.
func (m *Machine) follows(h chunk.Header) error {
	if h.ID > m.s.next || h.Next() <= m.s.next || m.s.aligned && h.ID != m.s.next {
		return fmt.Errorf("a chunk of the records [%s, %s) stands where %s must follow", h.ID, h.Next(), m.s.next)
	}
	return nil
}

// take makes a chunk ready, if it is user data, and goes on behind it.
func (m *Machine) take(h chunk.Header, b []byte, far bool) {
	m.s.next, m.s.aligned = h.Next(), true
	m.progress()
	if h.Type == chunk.User {
		m.s.ready.chunks = append(m.s.ready.chunks, b)
		m.s.ready.bytes += len(b)
		m.s.ready.remote = far
	}
}

// answer ends the open pull with what is ready.
func (m *Machine) answer(out []Effect) []Effect {
	r := &m.s.ready
	out = append(out, StopTimer{ID: m.s.pull.timer}, Answer{ID: m.s.pull.id, Chunks: Chunks{
		From: r.from, Next: m.s.next, Chunks: r.chunks, Moved: m.s.moved, Remote: r.remote,
	}})
	m.s.pull, m.s.moved = pull{}, nil
	m.s.ready = ready{from: m.s.next}
	return out
}

// refuse ends the open pull with an error.
func (m *Machine) refuse(err *Error, out []Effect) []Effect {
	out = append(out, StopTimer{ID: m.s.pull.timer}, Answer{ID: m.s.pull.id, Err: err})
	m.s.pull = pull{}
	return out
}
