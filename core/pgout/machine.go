package pgout

import (
	"fmt"

	"millrace/core/pos"
)

// stage is where a capture stands.
type stage uint8

const (
	stDown          stage = iota // no writer
	stWait                       // until retryAt, then look
	stLook                       // Look is out
	stFree                       // EndBackend is out
	stSaveCreating               // row{creating}, then
	stDrop                       // drop our slot, then
	stCreate                     // create it and open its snapshot, then
	stSaveLoading                // row{loading}, then
	stLoad                       // void and load, then
	stDrain                      // wait until all is committed, then
	stSaveTables                 // rows of the tables, then
	stSaveStreaming              // row{streaming, E}, then
	stStart                      // start replication, then
	stStream                     // stream; and for tables new in the publication:
	stSubCreate                  // temporary slot and snapshot, then
	stSubLoad                    // void and load them, then
	stSubDrain                   // wait until all is committed, then
	stSubSaveEvent               // row{streaming, E}, then
	stSubSaveTables              // rows of the tables, then stStream again
)

var stageNames = [...]string{"writer down", "waiting", "looking", "freeing slot", "saving creating", "dropping slot", "creating slot",
	"saving loading", "loading", "draining load", "saving tables", "saving streaming", "starting", "streaming",
	"creating temporary slot", "loading new tables", "draining new tables", "saving new event", "saving new tables"}

func (s stage) String() string { return stageNames[s] }

func (s stage) sub() bool { return s >= stSubCreate }

// saving reports whether the stage is about a SaveRow.
func (s stage) saving() bool {
	return s == stSaveCreating || s == stSaveLoading || s == stSaveStreaming || s == stSubSaveEvent
}

// Machine is the progress of one capture. Its invariants:
//
//	I1 records leave in the order of their positions, each position once, between two voids
//	I2 a confirmation never passes an event that is not fsynced
//	I3 a confirmation never passes an event above the stored E
//	I4 nothing is confirmed inside a transaction beyond the commit before it
//	I5 one append is in flight, and while the batch behind it is full nothing more is taken
//	I6 at most one SaveRow, one Receive, one Load and one WatchSync are outstanding
type Machine struct {
	cfg   Config
	gen   uint64
	now   pos.Millis
	stage stage
	asked bool // the stage's own effect is out
	out   []Effect

	trouble  trouble
	broke    string // not empty: history broke in the stream, so load anew
	cantRead string // not empty: the slot's WAL can't be decoded, and why
	counted  string // the loss counted last: it is found again until the load has begun
	lookedAt pos.Millis
	inspect  inspecting
	plan     Decision
	row      Row
	saveWhy  purpose // what the SaveRow outstanding is for
	server   Server
	tables   tables
	load     loading
	stream   streaming
	log      outbox
	confirm  confirming
	timerAt  pos.Millis
	counters Counters

	lastCommit pos.Millis // of the last transaction taken
	asOf       pos.Millis // nothing committed before this is missing
}

// purpose says what a SaveRow is for.
type purpose uint8

const (
	saveNone purpose = iota
	saveStage
	saveConfirm
)

// New returns the machine of a capture whose stream has no writer yet.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg.withDefaults()}
	m.log.pen = pen{maxValue: m.cfg.MaxValue, room: maxRecord}
	m.tables.init()
	return m
}

// Step applies one input and appends to out what must now be done, in order.
func (m *Machine) Step(in Input, out []Effect) []Effect {
	m.out = out
	at := in.at()
	m.now = max(m.now, at.Now)
	if at.Gen == m.gen || !in.answers() {
		m.take(in)
	}
	m.pump()
	m.setTimer()
	out, m.out = m.out, nil
	return out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) enter(s stage) { m.stage, m.asked = s, false }

// halt forgets the attempt: what it has out is answered to nobody.
func (m *Machine) halt(s stage) {
	m.gen++
	m.saveWhy = saveNone
	m.load = loading{}
	m.stream = streaming{}
	m.inspect = inspecting{}
	m.log.reset()
	m.confirm.reset()
	m.emit(&CloseAll{})
	m.enter(s)
}

func (m *Machine) begin() {
	m.halt(stLook)
	m.trouble.clear()
}

// take takes what happened, or what an effect of this attempt brought.
func (m *Machine) take(in Input) {
	switch in := in.(type) {
	case *Up:
		m.begin()
	case *Down:
		m.halt(stDown)
	case *Tick:
		m.timerAt = 0
	case *Surveyed:
		m.surveyed(&in.Survey)
	case *Freed:
		m.retryIn(m.cfg.RetryMin)
	case *RowSaved:
		m.rowSaved(in.Row)
	case *SlotDropped:
		m.enter(stCreate)
	case *SlotCreated:
		m.slotCreated(in)
	case *Rows:
		m.rows(in)
	case *TablesSaved:
		m.tablesSaved()
	case *Started:
		m.started(&in.Held)
	case *Received:
		m.stream.asked = false
		m.stream.inbox = append(m.stream.inbox, in.Messages...)
	case *Appended:
		m.log.appended(in.Next)
		m.log.movedAt = m.now
	case *Refused:
		m.again(fmt.Sprintf("the stream's log ends at offset %s, not at %s: reading its tail again", in.Next, m.log.expected()))
	case *Synced:
		m.log.watching = false
		m.log.synced = max(m.log.synced, in.Next)
		m.log.movedAt = m.now
	case *Inspected:
		m.inspected(&in.Server)
	case *Failed:
		m.failed(in)
	}
}

// surveyed decides what to do at start.
func (m *Machine) surveyed(s *Survey) {
	m.server = s.Server
	m.row = Row{}
	if s.Row != nil {
		m.row = *s.Row
	}
	d := m.decide(s)
	m.plan = d
	if d.Lost != "" {
		m.lost(fmt.Sprintf("%s: %s", d.Why, d.Lost))
	} else if d.Broke {
		m.lost(d.Why)
	}
	switch d.Action {
	case ActRefuse:
		m.fail(Failure{Class: Misconfigured, Why: d.Why, Hint: d.Hint})
	case ActFree:
		m.trouble.set(d.Why, "")
		m.enter(stFree)
	case ActLoad:
		m.trouble.clear()
		m.emit(&Warn{Text: "loading: " + d.Why})
		m.log.start(s.Log.Next, Mark{Position: s.tail(), Offset: s.Log.Next - 1}, Tail{})
		m.enter(stSaveCreating)
	case ActResume:
		m.log.start(s.Log.Next, Mark{Position: s.tail(), Offset: s.Log.Next - 1}, s.Tail)
		m.confirm.start(m.row.Event, s.Server.Slot.Confirmed)
		m.counted, m.trouble.loads = "", 0
		m.tables.resume(m.cfg.Name, &m.row, s.Loaded, s.Server.Publication.Tables, s.Server.Flush)
		m.stream.begin(s.Tail.Open && s.Tail.Found, d.Resent, s.tail().LSN)
		m.enter(stStart)
	}
}

// decide is Decide with what the last attempts found in the stream.
func (m *Machine) decide(s *Survey) Decision {
	d := Decide(m.cfg, s)
	if d.Action != ActResume {
		return d
	}
	switch {
	case m.broke != "":
		d = Decision{Action: ActLoad, Why: m.broke, Broke: true}
	case m.cantRead != "":
		d = slotLost(m.cfg, fmt.Sprintf("replication slot %q can't be read any more: changes were made while publication %q did not exist (%s)",
			m.cfg.Slot, m.cfg.Publication, m.cantRead))
	}
	return permitted(d, &s.Server)
}

// lost counts a loss and says so, once as long as it is found again.
func (m *Machine) lost(what string) {
	if m.counted == what {
		return
	}
	m.counted = what
	m.counters.Losses++
	m.emit(&Warn{Error: true, Text: what})
}

// started begins to stream, if what replication has begun from is what was decided by. Until it has
// begun whoever may can move the slot, or make it anew, behind the look that decided: the server
// begins at the slot's own place without a word if that is further on. What has changed is for the
// next look to decide by.
func (m *Machine) started(h *Held) {
	what := ""
	switch {
	case h.SystemID != m.row.SystemID || h.Timeline != m.row.Timeline || h.Flush < m.server.Flush:
		what = "the server"
	case h.Confirmed != m.confirm.confirmed:
		what = fmt.Sprintf("replication slot %q", m.cfg.Slot)
	}
	if what != "" {
		m.fail(Failure{Class: Unavailable, Why: what + " changed before replication began; both are looked at again",
			Hint: "find out who restores the server, or drops, makes or advances its slots, while the capture starts"})
		return
	}
	m.trouble.clear()
	m.stream.startedAt = m.now
	m.inspect.at = m.now.Add(m.cfg.RetryMin)
	m.enter(stStream)
}

func (m *Machine) rowSaved(row Row) {
	why := m.saveWhy
	m.saveWhy = saveNone
	m.row = row
	if why == saveConfirm {
		m.confirmSaved()
		return
	}
	switch m.stage {
	case stSaveCreating:
		m.enter(stDrop)
	case stSaveLoading:
		m.beginLoad()
	case stSaveStreaming:
		m.broke, m.cantRead, m.counted, m.trouble.loads = "", "", "", 0
		m.confirm.start(row.Event, row.Consistent)
		m.stream.begin(false, false, 0)
		m.enter(stStart)
	case stSubSaveEvent:
		m.confirm.stored = row.Event
		m.enter(stSubSaveTables)
	default: // saves no row
	}
}

// pump emits whatever the state now calls for.
func (m *Machine) pump() {
	m.letGo()
	if m.stage == stWait && m.now >= m.trouble.retryAt {
		m.trouble.retryAt = 0
		m.enter(stLook)
	}
	if m.stage == stStream {
		m.pumpStream()
	}
	if m.stage == stLoad || m.stage == stSubLoad {
		m.pumpLoad()
	}
	m.flush()
	m.pumpStage()
	m.pumpInspect()
	m.pumpConfirm()
	if m.log.mustWatch() {
		if m.log.movedAt == 0 {
			m.log.movedAt = m.now
		}
		m.log.watching = true
		m.emit(&WatchSync{Gen: m.gen, From: m.log.synced})
	}
}

// pumpStage emits the effect the stage is about, once.
func (m *Machine) pumpStage() {
	if m.stage == stDrain || m.stage == stSubDrain {
		m.drained()
	}
	if m.asked || m.stage.saving() && m.saveWhy != saveNone {
		return
	}
	m.asked = true
	switch m.stage {
	case stLook:
		m.lookedAt, m.inspect.at = m.now, m.now.Add(m.cfg.InspectEvery)
		m.emit(&Look{Gen: m.gen})
	case stFree:
		m.emit(&EndBackend{Gen: m.gen, PID: m.plan.PID})
	case stSaveCreating, stSaveLoading, stSaveStreaming, stSubSaveEvent:
		m.saveWhy = saveStage
		m.emit(&SaveRow{Gen: m.gen, Row: m.announced()})
	case stDrop:
		m.emit(&DropSlots{Gen: m.gen, Names: m.oldSlots()})
	case stCreate, stSubCreate:
		m.emit(&CreateSlot{Gen: m.gen, Temporary: m.stage == stSubCreate})
	case stSaveTables, stSubSaveTables:
		m.emit(&SaveTables{Gen: m.gen, Rows: m.load.tableRows(m.cfg.Name, &m.row)})
	case stStart:
		m.emit(&StartStream{Gen: m.gen, At: m.log.last.LSN})
	default: // waits, or goes on with every input
	}
}

// announced is the row as it must stand before the stage's act.
func (m *Machine) announced() Row {
	r := m.row
	switch m.stage {
	case stSaveCreating:
		r.Stream, r.Slot, r.Phase = m.cfg.Stream, m.cfg.Slot, PhaseCreating
		r.SystemID, r.Timeline = m.server.SystemID, m.server.Timeline
		r.Consistent, r.Confirmed, r.Event = 0, 0, Mark{Offset: pos.NoOffset}
	case stSaveLoading:
		r.Phase, r.Consistent, r.Confirmed = PhaseLoading, m.load.consistent, m.load.consistent
	case stSaveStreaming, stSubSaveEvent:
		r.Phase, r.Event = PhaseStreaming, m.log.last
	default: // saves no row
	}
	return r
}

func (m *Machine) oldSlots() []string {
	if m.plan.DropOld != "" {
		return []string{m.cfg.Slot, m.plan.DropOld}
	}
	return []string{m.cfg.Slot}
}
