package storemonitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/probe"
	"millrace/core/upload"
	"millrace/registry"
)

// Config is what a store monitor is given.
type Config struct {
	// Claimant's store is the store itself, not behind the gate.
	Claimant port.Claimant
	Gate     *Gate
	// Registry has the replica readers, which are told what becomes of the store.
	Registry *registry.Registry
	Metrics  port.Metrics
	Log      zerolog.Logger

	Interval time.Duration // between looks while all is well; 0: 5 minutes
}

type monitor struct {
	cfg        Config
	machine    *probe.Machine
	start      time.Time
	timer      *actors.Timer
	asked      map[uint64]*actors.Request // who waits for a look, or for the marker to be put
	id         uint64                     // of the last of them
	tries      [probe.Whether + 1][]*actors.Task
	refused    error // of the last answer
	unrestored error // why the last marker was not put
	effects    []probe.Effect
}

// Restore asks a store monitor to put the marker where it is gone or damaged, because an
// operator says that the prefix is this cluster's. The answer is Restored, or what
// port.Claimant.Restore failed with.
type Restore struct{}

// Restored answers Restore.
type Restored struct {
	Put bool // the marker was not there, or damaged
}

// Look asks a store monitor whose the prefix is now, of which what it knows may be minutes old.
// The answer is Looked.
type Look struct{}

// Looked answers Look.
type Looked struct {
	Ours bool // the prefix was found to be this cluster's
}

// Messages to itself.
type (
	tick      struct{}
	claimed   answer
	probed    answer
	doubt     struct{} // an operation has failed
	stored    struct{} // one has not
	markerPut struct {
		put bool
		err error
	}
)

// New returns a store monitor. Its process's status is a probe.Status.
func New(cfg Config) actors.Process {
	return &monitor{
		cfg: cfg, start: time.Now(), asked: map[uint64]*actors.Request{},
		machine: probe.New(cfg.Interval),
	}
}

// Init begins the first look.
func (m *monitor) Init(c *actors.Context) error {
	m.cfg.Gate.tell(c.Self())
	m.step(c, probe.Start{Now: m.now(), Owned: m.cfg.Gate.Trusted(), Disowned: m.cfg.Gate.disowned()})
	return nil
}

// Handle takes one message.
func (m *monitor) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case claimed:
		m.step(c, probe.Claimed{Now: m.now(), Try: msg.try, Answer: m.answered(answer(msg))})
	case probed:
		m.step(c, probe.Probed{Now: m.now(), Try: msg.try, Answer: m.answered(answer(msg))})
	case doubt:
		m.cfg.Gate.doubted.Store(false)
		m.step(c, probe.Doubt{Now: m.now()})
	case stored:
		m.step(c, probe.Stored{Now: m.now()})
	case tick:
		m.step(c, probe.Tick{Now: m.now()})
	case *actors.Request:
		m.request(c, msg)
	case markerPut:
		m.markerPut(c, msg)
	}
	return nil
}

// request takes a question from outside.
func (m *monitor) request(c *actors.Context, r *actors.Request) {
	m.id++
	switch r.Body.(type) {
	case Look:
		m.asked[m.id] = r
		m.step(c, probe.Look{Now: m.now(), ID: m.id})
	case Restore:
		m.asked[m.id] = r
		m.step(c, probe.Restore{Now: m.now(), ID: m.id})
	default:
		r.Fail(fmt.Errorf("a store monitor can't answer a %T", r.Body))
	}
}

// restoreMarker begins a try at putting the marker.
func (m *monitor) restoreMarker(c *actors.Context, e probe.PutMarker) {
	c.Task("restore the marker", func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(port.WithTries(ctx, e.Tries), e.Within)
		defer cancel()
		put, err := m.cfg.Claimant.Restore(ctx)
		return markerPut{put, err}
	})
}

// markerPut takes how a try ended.
func (m *monitor) markerPut(c *actors.Context, p markerPut) {
	m.unrestored = p.err
	m.step(c, probe.MarkerPut{Now: m.now(), Put: p.put, Failed: p.err != nil, Late: port.ClassOf(p.err) == port.Timeout})
}

// restored answers an operator.
func (m *monitor) restored(e probe.Restored) {
	r := m.asked[e.ID]
	delete(m.asked, e.ID)
	if e.Failed {
		m.cfg.Log.Warn().Err(m.unrestored).Msg("the prefix of the object store could not be claimed for an operator")
		r.Fail(m.unrestored)
		return
	}
	r.Reply(Restored{Put: e.Put})
}

// Terminate has nothing to do: what the gate knows stays true.
func (m *monitor) Terminate(*actors.Context, actors.Reason) {}

// now is the wall clock of the start moved on by the monotonic one.
func (m *monitor) now() pos.Millis { return pos.MillisOf(m.start.Add(time.Since(m.start))) }

// answer is how a try at a question ended.
type answer struct {
	try probe.Try
	err error
}

// ask puts a question.
func (m *monitor) ask(c *actors.Context, q probe.Question, name string, try probe.Try, within time.Duration, put func(context.Context) error, message func(answer) any) {
	m.tries[q] = append(m.tries[q], c.Task(name, func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return message(answer{try, put(ctx)})
	}))
}

// answered says what the end of a try means. The gate is told of the error if it is closed for it.
func (m *monitor) answered(a answer) probe.Answer {
	m.refused = a.err
	return answerOf(a.err)
}

// drop ends what is open of a question.
func (m *monitor) drop(q probe.Question) {
	for _, t := range m.tries[q] {
		t.Cancel(nil)
	}
	m.tries[q] = nil
}

// answerOf says what a failure means.
func answerOf(err error) probe.Answer {
	if err == nil {
		return probe.Answer{Verdict: probe.Accessible}
	}
	a := probe.Answer{Why: err.Error(), Late: port.ClassOf(err) == port.Timeout}
	if foreign, ok := errors.AsType[*port.ForeignPrefixError](err); ok {
		a.Verdict, a.Owner = probe.Foreign, foreign.Owner.String()
		return a
	}
	if unmarked, ok := errors.AsType[*port.UnmarkedError](err); ok {
		if a.Verdict = probe.Unmarked; unmarked.Damaged != nil {
			a.Verdict = probe.Damaged
		}
		return a
	}
	// What the metadata store refuses says nothing of the object store.
	if said, ok := errors.AsType[*port.StoreError](err); ok && said.Class == port.NotFound {
		a.Verdict = probe.NoBucket
	} else if ok && said.Class == port.Denied {
		a.Verdict = probe.Denied
	}
	return a
}

func (m *monitor) step(c *actors.Context, in probe.Input) {
	m.effects = m.machine.Step(in, m.effects[:0])
	for _, e := range m.effects {
		switch e := e.(type) {
		case probe.Claim:
			m.cfg.Gate.stored.Store(false)
			m.ask(c, probe.Whose, "claim the prefix", e.Try, e.Within, m.cfg.Claimant.Claim, func(a answer) any { return claimed(a) })
		case probe.Probe:
			m.ask(c, probe.Whether, "probe the store", e.Try, e.Within, m.cfg.Claimant.Store.Probe, func(a answer) any { return probed(a) })
		case probe.Drop:
			m.drop(e.Question)
		case probe.Admit:
			m.cfg.Gate.admit()
		case probe.Refuse:
			m.cfg.Gate.refuse(m.refused)
			m.toReplicaReaders(upload.StoreDisowned{})
		case probe.Suspect:
			m.cfg.Gate.suspend()
			m.toReplicaReaders(upload.StoreDisowned{})
		case probe.Owned:
			m.toReplicaReaders(upload.StoreOwned{})
		case probe.Looked:
			m.asked[e.ID].Reply(Looked{Ours: e.Ours})
			delete(m.asked, e.ID)
		case probe.PutMarker:
			m.restoreMarker(c, e)
		case probe.Restored:
			m.restored(e)
		case probe.Reclaimed:
			m.toReplicaReaders(upload.StoreReclaimed{})
		case probe.Away:
			m.toReplicaReaders(upload.StoreAway{Since: e.Since, Why: e.Why})
		case probe.Back:
			m.toReplicaReaders(upload.StoreBack{})
		case probe.Wake:
			m.timer.Stop()
			m.timer = c.After(e.At.Sub(m.now()), tick{})
		case probe.Note:
			m.note(e)
		}
	}
	s := m.machine.Status()
	c.SetStatus(s)
	m.cfg.Metrics.Gauge("store_accessible", accessible(s))
}

// toReplicaReaders sends to all that run. One that starts meanwhile has its name before it asks
// the gate, which has moved before.
func (m *monitor) toReplicaReaders(msg any) {
	for _, n := range m.cfg.Registry.Names("replica_reader") {
		m.cfg.Registry.Send(n, msg)
	}
}

// accessible is 0 once the store has said no, and until it says yes.
func accessible(s probe.Status) float64 {
	if s.State == probe.StateNo {
		return 0
	}
	return 1
}

func (m *monitor) note(n probe.Note) {
	s, event := n.Status, m.cfg.Log.Info()
	text := "the object store is accessible"
	switch {
	case s.UnsureSince != 0:
		event, text = m.cfg.Log.Warn().Str("why", s.UnsureWhy), "it is not known whether the object store is accessible; it is asked again"
	case s.Verdict == probe.Unsure:
		text = "the prefix of the object store is ours again"
	case s.State == probe.StateNo:
		event, text = m.cfg.Log.Error().Str("why", s.Why), "the object store is not accessible: nothing is uploaded until it is; local logs and captures go on"
	}
	event.Str("accessible", s.String()).Str("before", n.Before.String()).Msg(text)
}
