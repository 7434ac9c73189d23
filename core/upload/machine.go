package upload

import (
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
)

// Machine is one replica reader.
//
// Invariants, which check verifies:
//
//	U1 fragments under way follow each other and the live manifest, in the order
//	   they were cut: each begins at or above the offset it comes after, which is where
//	   the one before it ends
//	U2 the live manifest is the persisted one with the pending edits applied, and both
//	   are well-formed
//	U3 before the anchor is written nothing is submitted, uploaded or put
//	U4 the fragments that are cut and not persisted stay within the bounds of Config
//	U5 what is assembled, and what was read ahead, continues the last cut fragment or
//	   lies above it
//	U6 no two fragments share an id or a ref, and a fragment has a ref only from its
//	   submission to its end
//	U7 pending edits have a persist under way, or a time at which one starts
//	U8 what the manifest replica was told is what the pointer names
//	U9 nothing is under way, and nobody waits for a cut, but while the log is open
//	U10 nobody waits for what is known to be stored
type Machine struct {
	cfg   Config
	gen   Gen
	phase phase
	until pos.Millis // waiting, stalled, short: when to go on; 0 in short: when the log moves
	why   string     // waiting, stalled, short, and while it is tried again; stopped
	fails int        // resolutions that did not lead to a persist, in a row

	pointer Pointer            // in the metadata store
	stored  *manifest.Manifest // what it names; nil before it is known
	shown   bool               // the manifest replica was told of stored
	// lost: the pointer names a manifest that is not in the store, or is damaged, or the first
	// object that it names is not there.
	lost bool
	// disowned: the store is not known to be the cluster's. The local log frees nothing for being in it.
	disowned bool
	root     *manifest.Manifest // read, while objects that it names are looked for
	// asked is what the store is asked for while resolving, a key or a prefix, and unanswered how
	// often that failed in a row, of each that did since the manifest was last known.
	asked      string
	unanswered map[string]int
	// resetting: an operator gives up what is lost, see reset.go.
	resetting *resetting
	// contradicted: the log is known to disagree with stored, and the edit that cures it
	// is not persisted yet. Until then nobody is told of stored.
	contradicted bool
	live         *manifest.Draft
	now          *manifest.Manifest // what live holds
	edits        []manifest.Edit    // from stored to now
	since        pos.Millis         // of the oldest of edits that no persist carries
	applied      load               // fragments among edits
	drops        []string           // keys that edits took out of the manifest
	persist      persist
	anchor       retry
	anchors      anchorState

	bounds   Bounds // of the store
	drain    drain
	assembly *fragment.Assembly
	flights  []*flight // in the order they were cut

	away     retry // fails > 0: the store failed, or is said to be away, and has stored nothing since
	failures failures

	lastFlight FlightID
	lastRef    pace.Ref
	waiters    []waiter
	cuts       []cut
	wake       pos.Millis // the last Wake; 0: none
	counts     Counts

	at  Stamp    // of the input being applied
	out []Effect // being collected
}

type phase uint8

const (
	phaseNew       phase = iota
	phaseResolving       // ReadPointer, ReadRoot, ListRoots or LookFor is under way
	phaseWaiting         // resolves anew at until
	phaseStalled         // the same, but somebody has to act
	phasePlacing         // Inspect is under way
	phaseShort           // the log is shorter than the manifest, or can't be looked at: inspects anew
	phaseOpen
	phaseStopped
)

// retry is a thing that is tried again.
type retry struct {
	fails   int        // in a row
	at      pos.Millis // not before
	since   pos.Millis // the first of them
	lasting bool       // the last was one that does not pass by itself
	stuck   bool       // one of them was: a stall from the first of them on
	why     string     // the last
}

func (r *retry) failed(res Result, at Stamp) {
	if r.fails == 0 {
		r.since = at.Now
	}
	r.fails++
	r.lasting, r.why = res.Fault != FaultTransient, res.Why
	r.stuck = r.stuck || r.lasting
	r.at = at.Now.Add(pause(res.Fault, r.fails, at.UID))
}

// load is a number of fragments and the bytes of their chunks.
type load struct {
	count int
	bytes int64
}

// New returns a machine that waits for its Start.
func New(cfg Config) *Machine {
	cfg = cfg.withDefaults()
	return &Machine{cfg: cfg, assembly: fragment.New(cfg.Fragment)}
}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	m.at, m.out = in.stamp(), out
	m.dispatch(in)
	m.pump()
	out, m.out = m.out, nil
	return out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) note(level Level, text string) { m.emit(Note{Level: level, Text: text}) }

func (m *Machine) dispatch(in Input) {
	if m.phase == phaseStopped {
		return
	}
	switch in := in.(type) {
	case Start:
		m.disowned = in.Disowned
		m.emit(ShowPending{})
		m.resolve()
	case Tick:
		m.wake = 0 // whatever is still to come needs a new Wake, also if this one came early
		m.tick()
	case PointerRead:
		m.pointerRead(in)
	case RootRead:
		m.rootRead(in)
	case RootsListed:
		m.rootsListed(in)
	case LookedFor:
		m.lookedFor(in)
	case Inspected:
		m.inspected(in)
	case ReplicaUp:
		m.show()
	case Await:
		m.await(in)
	case ForceCut:
		m.forceCut(in)
	case Retain:
		m.bounds = in.Bounds
	case StreamDeleted:
		m.deleted()
	case StoreAway:
		m.storeAway(in)
	case StoreBack:
		m.storeBack()
	case StoreOwned:
		m.storeOwned()
	case StoreDisowned:
		m.storeDisowned()
	case StoreReclaimed:
		m.storeReclaimed()
	case Reset:
		m.reset(in)
	case Granted:
		m.granted(in)
	case GovernorUp:
		m.governorUp()
	case ChunksRead:
		m.chunksRead(in)
	case Moved:
		m.moved(in)
	case AnchorPut:
		m.anchorPut(in)
	case Sent:
		m.sent(in)
	case Uploaded:
		m.uploaded(in)
	case RootPut:
		m.rootPut(in)
	case PointerSwapped:
		m.pointerSwapped(in)
	}
}

func (m *Machine) tick() {
	if m.until == 0 || m.at.Now < m.until {
		return
	}
	switch m.phase {
	case phaseWaiting, phaseStalled:
		m.resolve()
	case phaseShort:
		m.inspect()
	default: // nothing waits for a time
	}
}

// pump starts whatever can be started now, and asks to be woken for the rest.
func (m *Machine) pump() {
	if m.phase == phaseOpen {
		m.expire()
		m.gather()
	}
	m.force()
	m.expireWaiters()
	if m.phase == phaseOpen {
		m.transfer()
	}
	if m.phase == phaseOpen {
		m.retain()
		m.startPersist()
		m.read()
	}
	m.setWake()
}

// setWake asks for a Tick at the earliest time at which something can be started.
func (m *Machine) setWake() {
	at := pos.Millis(0)
	earliest := func(t pos.Millis) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	switch m.phase {
	case phaseWaiting, phaseStalled, phaseShort:
		earliest(m.until)
	case phaseOpen:
		m.wakeTransfers(earliest)
		m.wakePersist(earliest)
		m.wakeDrain(earliest)
		m.wakeRetention(earliest)
		m.wakeForced(earliest)
		m.wakeStalled(earliest)
	default: // an answer comes, or nothing
	}
	m.wakeWaiters(earliest)
	if at != m.wake && at != 0 {
		m.emit(Wake{At: at})
	}
	m.wake = at
}

// restart learns the truth anew: what is under way may rest on another one.
func (m *Machine) restart(why string) {
	m.fails++
	m.drop(why)
	m.shown = false
	m.emit(ShowPending{})
	m.waitFor(phaseWaiting, m.at.Now.Add(pause(FaultLasting, m.fails, m.at.UID)), why)
}

// drop ends all that is under way, and what comes back of it is ignored.
func (m *Machine) drop(why string) {
	m.gen++
	if refs := m.refs(); len(refs) > 0 {
		m.emit(Withdraw{Refs: refs})
	}
	m.emit(Abort{})
	m.assembly.Reset()
	m.flights, m.drain, m.persist = nil, drain{}, persist{}
	m.edits, m.applied, m.drops = nil, load{}, nil
	m.live, m.now, m.contradicted = nil, nil, false
	m.endReset("it was interrupted: " + why)
	m.anchors, m.anchor, m.lost = anchorUnknown, retry{}, false
	m.away = retry{}
}

func (m *Machine) waitFor(p phase, until pos.Millis, why string) {
	m.phase, m.until, m.why = p, until, why
}

// deleted ends everything: the stream is no more.
func (m *Machine) deleted() {
	m.drop("the stream was deleted")
	m.stored, m.shown = nil, false
	m.emit(Forget{})
	m.phase, m.until, m.why = phaseStopped, 0, "the stream was deleted"
	m.emit(Stop{Why: m.why})
}
