package fetch

import (
	"fmt"

	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// Bounds of one range, in bytes.
const (
	DefaultRangeBytes = 4 << 20
	// MaxRangeBytes is the most that is asked of the store at once; a larger chunk
	// takes several ranges.
	MaxRangeBytes = 64 << 20
	// minNeed is the least that is read when memory is short.
	minNeed = 64 << 10
)

// Config is what stays the same for the life of a reader.
type Config struct {
	Stream pos.StreamID
	Prefix string       // of the object keys
	Spec   resolve.Spec // where to begin
	// RangeBytes is the size of one request to the object store. Not above 0:
	// DefaultRangeBytes; at most MaxRangeBytes.
	RangeBytes int64
}

// Phase is what a reader is doing.
type Phase uint8

// Phases of a Machine.
const (
	Seeking Phase = iota
	Asking
	Opening
	Local
	Indexing
	Data
)

// String returns the phase's name, as the status shows it.
func (p Phase) String() string {
	switch p {
	case Seeking:
		return "seeking"
	case Asking:
		return "asking"
	case Opening:
		return "opening"
	case Local:
		return "local"
	case Indexing:
		return "index"
	case Data:
		return "data"
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Machine is one reader's state.
//
//  1. a fetch is in flight only in the phases index and data
//  2. there is a fragment, and a buffer, in the phases index and data only
//  3. the buffer lies within the fragment's data, and it begins with a chunk
//  4. in the phase data the next offset is the fragment's, or the one after it
//  5. nothing is ready and a pull open at the same time
//  6. while it waits before it tries again, nothing else is under way
//  7. an open pull always waits for something that will come: an answer of the
//     shell, a fetch, a retry, or more data at the tail
//  8. once a chunk was handed out, the next one begins where it ended, or the answer
//     names what was passed over
type Machine struct {
	cfg Config
	s   state
}

type state struct {
	phase     Phase
	spec      resolve.Spec // what to resolve when seeking
	next      pos.Offset   // next offset to hand out, NoOffset while not known
	committed pos.Offset   // at least this much is committed
	aligned   bool         // next is where a chunk begins, not only within one
	pointer   resolve.Pointer
	seeks     int // since a chunk came or the tail was reached

	broken string // why the local chunk at next can't be read, while the store is looked at for it

	doubts  int // how often the manifest numbered doubted was not believed
	doubted pos.Revision

	busy    bool // Look, AskPointer, OpenLocal or ReadLocal is unanswered
	parked  bool // nothing to read before Woken: Notify is unanswered
	crowded bool // read-ahead was refused since the last pull

	pull   pull
	ready  ready
	moved  *resolve.Moved // not yet told to the consumer
	remote remote
	retry  retry
	ids    uint64 // last timer or fetch
}

// pull is the open Pull; open is false if there is none.
type pull struct {
	open  bool
	id    uint64
	timer uint64
	max   int
}

// ready is what was read and not yet handed out.
type ready struct {
	from   pos.Offset // where the last answer ended
	chunks [][]byte
	bytes  int
	remote bool
}

// remote is a fragment being read.
type remote struct {
	entry    manifest.Entry
	byTime   bool // the index is to be searched by time, not by next
	time     pos.Millis
	pos      int64 // in the object, of the buffer's first byte
	buf      []byte
	inflight uint64 // fetch that is unanswered, 0 if none
	asked    int64  // bytes of that fetch
	failed   int    // fetches in a row, of what comes next
}

func (r *remote) end() int64  { return fragment.DataStart + r.entry.Size }
func (r *remote) left() int64 { return r.end() - r.pos - int64(len(r.buf)) }
func (r *remote) none() bool  { return r.entry.UID.IsZero() }

// retry is the time before something that failed is tried again.
type retry struct {
	timer  uint64 // 0 while not waiting
	last   *Error // not yet overcome
	clocks [len(clockBounds)]clock
}

// New returns a reader that has not begun.
func New(cfg Config) *Machine {
	if cfg.RangeBytes <= 0 {
		cfg.RangeBytes = DefaultRangeBytes
	}
	cfg.RangeBytes = min(cfg.RangeBytes, MaxRangeBytes)
	m := &Machine{cfg: cfg}
	m.s.spec, m.s.next, m.s.ready.from = cfg.Spec, pos.NoOffset, pos.NoOffset
	return m
}

// Held returns the bytes the reader holds or has asked for.
func (m *Machine) Held() int64 {
	held := int64(len(m.s.remote.buf)) + int64(m.s.ready.bytes)
	if m.s.remote.inflight != 0 {
		held += m.s.remote.asked
	}
	return held
}

// Status is what an operator sees of a reader.
type Status struct {
	Phase    string     `json:"phase"`
	Next     pos.Offset `json:"next"`
	Fragment pos.Offset `json:"fragment"` // first offset of the fragment being read, -1 if none
	Buffered int64      `json:"buffered_bytes"`
	Pulled   bool       `json:"pulled"`            // somebody waits for an answer
	Waiting  string     `json:"waiting,omitempty"` // what failed and is tried again
}

// Status returns what an operator sees.
func (m *Machine) Status() Status {
	s := Status{Phase: m.s.phase.String(), Next: m.s.next, Fragment: pos.NoOffset, Buffered: m.Held(), Pulled: m.s.pull.open}
	if !m.s.remote.none() {
		s.Fragment = m.s.remote.entry.First
	}
	if m.s.retry.last != nil {
		s.Waiting = m.s.retry.last.Error()
	}
	return s
}

// check reports which invariant of Machine does not hold.
func (m *Machine) check() error {
	s, r := &m.s, &m.s.remote
	far := s.phase == Indexing || s.phase == Data
	switch {
	case r.inflight != 0 && !far:
		return fmt.Errorf("invariant 1: a fetch is in flight while %s", s.phase)
	case r.none() == far, len(r.buf) > 0 && s.phase != Data:
		return fmt.Errorf("invariant 2: fragment %+v, %d bytes, while %s", r.entry, len(r.buf), s.phase)
	case far && (r.pos < fragment.DataStart || r.left() < 0):
		return fmt.Errorf("invariant 3: %d bytes at %d, the data ends at %d", len(r.buf), r.pos, r.end())
	case s.phase == Data && (s.next < r.entry.First || s.next > r.entry.Next):
		return fmt.Errorf("invariant 4: next is %d in the fragment [%d, %d)", s.next, r.entry.First, r.entry.Next)
	case s.parked && (s.busy || r.inflight != 0 || s.retry.timer != 0 || s.phase != Local && s.phase != Data):
		return fmt.Errorf("invariant 6: parked while %s, and something is under way", s.phase)
	case s.pull.open && len(s.ready.chunks) > 0:
		return fmt.Errorf("invariant 5: %d chunks are ready while a pull is open", len(s.ready.chunks))
	case s.retry.timer != 0 && (r.inflight != 0 || s.busy):
		return fmt.Errorf("invariant 6: waiting, while fetch %d or a shell's answer (%v) is under way", r.inflight, s.busy)
	case s.pull.open && !s.busy && r.inflight == 0 && s.retry.timer == 0 && !s.parked:
		return fmt.Errorf("invariant 7: a pull is open while %s and nothing is under way", s.phase)
	}
	return nil
}
