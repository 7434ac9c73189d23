package segment

import (
	"time"

	"millrace/core/chunk"
	"millrace/core/pos"
)

// Config is what is fixed while a log runs.
type Config struct {
	Mode             SyncMode
	SyncEvery        time.Duration // Interval: between syncs. Interval, Never: the least time to the next sync asked for
	SegmentMaxBytes  int64         // a segment that has reached it is rolled before the next chunk
	SegmentMaxChunks int64         // likewise
	Retention        Retention     // at the start; Retain changes it
}

// Defaults and limits of Config.
const (
	DefaultSegmentBytes  = 500_000_000
	DefaultSegmentChunks = 256_000
	DefaultSyncEvery     = time.Second
)

func (c Config) withDefaults() Config {
	if c.SegmentMaxBytes <= 0 {
		c.SegmentMaxBytes = DefaultSegmentBytes
	}
	c.SegmentMaxBytes = min(c.SegmentMaxBytes, MaxSegmentBytes)
	if c.SegmentMaxChunks <= 0 {
		c.SegmentMaxChunks = DefaultSegmentChunks
	}
	if c.SyncEvery <= 0 {
		c.SyncEvery = DefaultSyncEvery
	}
	return c
}

// Segment is one pair of files.
type Segment struct {
	First, Next         pos.Offset
	Bytes               int64 // of the segment file
	Chunks              int64 // so the index has IndexSize(Chunks) bytes
	FirstTime, LastTime pos.Millis
}

// EpochEnd says that the records of Epoch end before End, and begin where those of
// the epoch before end.
type EpochEnd struct {
	Epoch pos.Epoch
	End   pos.Offset
}

// Mark is a chunk that may still be cut.
type Mark struct {
	ID, Next pos.Offset
	Segment  pos.Offset
	Position int64
	Chunk    int64 // how many chunks stand before it in the segment
}

// State is what a machine is up to.
type State uint8

// The states of a machine.
const (
	Opening State = iota // Open is under way
	Waiting              // for a time at which to try again what the world refused
	Running
	Stuck // cannot go on without an operator
	Ended // the writer must end: a sync failed
)

var stateNames = [...]string{"opening", "waiting", "running", "stuck", "ended"}

// String names the state as the status shows it.
func (s State) String() string { return stateNames[s] }

// Machine is one local log. Not safe for concurrent use. Invariants, while found:
//
//	S1  there is a segment; each begins where the one before ends; only the active
//	    one may be empty; a segment has at least its header's bytes
//	S2  segments[0].First <= committed <= last, synced <= last
//	S3  last is where the active segment ends
//	S4  marks are the chunks of [committed, last), without gap, in order
//	S5  closed segments are synced: active.First <= synced, and the synced bytes and
//	    chunks lie within the active segment
//	S6  epochs and their ends rise strictly; the last one ends at last; none ends at
//	    or before the first offset
//	S7  lastChunk < committed, or there is none
//	S8  what was published is committed, and neither first nor committed nor synced
//	    ever falls
//	S9  in mode Always nothing unsynced is left without a sync under way
type Machine struct {
	cfg       Config
	state     State
	found     bool
	epoch     pos.Epoch
	retention Retention
	seam      pos.Offset
	captured  pos.Offset // NoOffset: nobody captures into this log
	born      pos.Offset // where the log began when it was found
	fromStore bool
	damage    string

	log  tail // grows and is cut at its end
	head head // committed, published, deleted
	wait wait // until when, why
	undo undo
	keep struct {
		roll, write tail // the log's end before the Roll and the Write of the last step
		syncing     bool // before the cut of the last step
	}
	fx effects
}

// undo says what a Failed is about that comes now: the effects of the step before.
type undo uint8

const (
	undoNone  undo = iota
	undoTail       // roll and write: keep holds the log's end
	undoBirth      // the first segment of an empty log
	undoCut
)

// tail is what a batch changes and a failed effect restores.
type tail struct {
	segments []Segment
	active   Segment // copy of the last of segments, in the copies under keep
	epochs   []EpochEnd
	epochEnd EpochEnd // likewise
	marks    []Mark   // a queue; marks[gone:] is what it holds
	last     pos.Offset

	synced       pos.Offset
	syncedBytes  int64 // of the active segment
	syncedChunks int64 // of the active segment
	syncing      bool  // a Sync is under way
	cutUnsynced  bool  // the log was cut and not synced since
}

// head is what a commit or retention changes.
type head struct {
	gone      int // marks before this one are committed
	committed pos.Offset
	lastChunk pos.Offset
	published View
	shown     bool         // something was published
	reshaped  bool         // the set of segments has changed since it was published
	retainDue bool         // a roll has closed a segment since retention was applied
	doomed    []pos.Offset // segments whose files could not be removed
	cuts      int
}

// wait is what the machine waits for.
type wait struct {
	until    pos.Millis
	why      string
	attempts int
	dirty    bool // the active segment's end must be cut before the next write
	lastSync pos.Millis
	wantSync bool
	doomed   pos.Millis // when to remove again what could not be removed
}

// New returns a log's machine. Its first input is Tick, its first effect Open.
func New(cfg Config) *Machine {
	cfg = cfg.withDefaults()
	return &Machine{cfg: cfg, state: Waiting, retention: cfg.Retention, seam: pos.NoOffset, captured: pos.NoOffset}
}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	if _, failed := in.(*Failed); !failed {
		m.undo = undoNone
	}
	switch in := in.(type) {
	case *Failed:
		return m.failed(in, out)
	case *Found:
		return m.foundLog(in, out)
	case *Batch:
		return m.append(chunk.Header{ID: m.log.last, Records: in.Records, Epoch: m.epoch, Timestamp: in.Now}, in.Size, out)
	case *Foreign:
		if m.CheckForeign(in.Header) != nil {
			return out
		}
		return m.append(in.Header, in.Header.Size(), out)
	case *Synced:
		return m.syncDone(in, out)
	case *Committed:
		return m.commit(in, out)
	case *Cut:
		return m.cut(in, out)
	case *Retain:
		return m.retain(in, out)
	case *Tick:
		return m.tick(in, out)
	}
	return out
}

// Ready reports whether a batch may be written now.
func (m *Machine) Ready() bool { return m.state == Running }

// State tells what the machine is up to, and since when not: why it waits, is stuck
// or has ended.
func (m *Machine) State() (State, string) { return m.state, m.wait.why }

// Found reports whether the log's folder has been analysed: offsets are known.
func (m *Machine) Found() bool { return m.found }

// Next is the offset of the next record; NoOffset until the log is found.
func (m *Machine) Next() pos.Offset {
	if !m.found {
		return pos.NoOffset
	}
	return m.log.last
}

// Epoch is the writer's.
func (m *Machine) Epoch() pos.Epoch { return m.epoch }

// Committed is the offset up to which the log is committed.
func (m *Machine) Committed() pos.Offset { return m.head.committed }

// Clean reports whether all that was written is synced and committed.
func (m *Machine) Clean() bool {
	return m.found && m.log.synced == m.log.last && m.head.committed == m.log.last && !m.wait.dirty
}

// Active is the active segment as it stands.
func (m *Machine) Active() Segment { return *m.active() }

// Born tells where the log began when it was found, and whether that was taken from
// the object store because the log itself was lost or behind it.
func (m *Machine) Born() (at pos.Offset, fromStore bool) { return m.born, m.fromStore }

// Alone is what a log without other replicas may commit: what is synced under
// Always, else what is written.
func (m *Machine) Alone() pos.Offset {
	if m.cfg.Mode == Always {
		return m.log.synced
	}
	return m.log.last
}

// Unsettled reports whether a Committed would have an effect, given that everything
// below Alone is committed.
func (m *Machine) Unsettled() bool {
	return m.found && (m.Alone() > m.head.committed || m.head.retainDue || !m.head.shown || m.head.reshaped ||
		m.view() != m.head.published)
}

// Epochs lists the epochs of the log's records, oldest first. It is the caller's.
func (m *Machine) Epochs() []EpochEnd { return append([]EpochEnd(nil), m.log.epochs...) }

// Segments lists the segments, oldest first. It is the caller's.
func (m *Machine) Segments() []Segment { return append([]Segment(nil), m.log.segments...) }

// Status describes the log; Held and a finer State are the shell's.
func (m *Machine) Status() Status {
	s := Status{
		State: m.state.String(), Epoch: m.epoch, Sync: m.cfg.Mode.String(), Retention: m.retention, Damage: m.damage,
		First: pos.NoOffset, Committed: pos.NoOffset, Synced: pos.NoOffset, Last: pos.NoOffset,
	}
	if m.state != Running && m.state != Opening {
		s.Why = m.wait.why
	}
	if m.state == Waiting {
		s.Until = m.wait.until
	}
	if m.found {
		v := m.view()
		s.First, s.Committed, s.Synced, s.Last, s.Bytes = v.First, v.Committed, v.Synced, v.Last, v.Bytes
		s.Segments = len(m.log.segments)
	}
	return s
}

func (m *Machine) active() *Segment { return &m.log.segments[len(m.log.segments)-1] }

func (m *Machine) bytes() int64 {
	var sum int64
	for i := range m.log.segments {
		sum += m.log.segments[i].Bytes
	}
	return sum
}

func (m *Machine) view() View {
	v := View{
		First: min(m.log.segments[0].First, m.head.committed), Committed: m.head.committed,
		Synced: min(m.log.synced, m.head.committed), Last: m.log.last, LastChunk: m.head.lastChunk, Bytes: m.bytes(),
	}
	if v.LastChunk < v.First {
		v.LastChunk = pos.NoOffset
	}
	return v
}

// publish shows the present view if it differs from what was shown.
func (m *Machine) publish(out []Effect) []Effect {
	v := m.view()
	if m.head.shown && !m.head.reshaped && v == m.head.published {
		return out
	}
	m.fx.publish = Publish{View: v}
	if m.head.reshaped || !m.head.shown {
		firsts := make([]pos.Offset, len(m.log.segments))
		for i := range firsts {
			firsts[i] = m.log.segments[i].First
		}
		m.fx.publish.Segments = firsts
	}
	m.head.published, m.head.shown, m.head.reshaped = v, true, false
	return append(out, &m.fx.publish)
}
