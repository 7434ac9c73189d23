package reader

import (
	"fmt"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/fetch"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/hooks"
)

// Config is what a reader is given.
type Config struct {
	Stream pos.StreamID
	Spec   resolve.Spec   // where to begin
	Owner  *actors.Handle // ends the reader with it; nil: only Stop does
	Prefix string         // of the object keys

	Hooks     *hooks.Hooks
	Disk      port.Disk
	Store     port.ObjectStore
	Manifests port.Manifests
	Metadata  port.Metadata
	// Tiering reports whether tiering is enabled on the node now. It is called within
	// the process and must not block.
	Tiering func() bool
	// Why says what the stream's manifest waits for while it is not known, empty if there
	// is nothing to say. It must not block either. nil: there never is.
	Why func() string
	// Budget is shared by all readers of the node.
	Budget  *Budget
	Metrics port.Metrics
	Log     zerolog.Logger
	// RangeBytes is the size of one request to the object store. Not above 0: the
	// default of core/fetch.
	RangeBytes int64
}

// reader is the shell. Between two messages, held is what the budget counts for it.
type reader struct {
	cfg     Config
	machine *fetch.Machine
	log     *hooks.Log // as of the last look
	cursor  *hooks.Cursor
	resting pos.Offset    // where the cursor stood that was closed to spare its file
	rest    *actors.Timer // when it is closed for that
	timers  map[uint64]*actors.Timer
	pulls   map[uint64]*actors.Request
	pulled  uint64 // last pull
	held    int64
	spared  int64 // bytes that the fetch in flight does not ask for, memory being short
	inputs  []fetch.Input
	effects []fetch.Effect
}

// New returns a reader. Its process's status is a fetch.Status.
func New(cfg Config) actors.Process {
	return &reader{
		cfg:     cfg,
		machine: fetch.New(fetch.Config{Stream: cfg.Stream, Prefix: cfg.Prefix, Spec: cfg.Spec, RangeBytes: cfg.RangeBytes}),
		timers:  map[uint64]*actors.Timer{}, pulls: map[uint64]*actors.Request{},
	}
}

// Init does nothing that can fail: the first Pull begins.
func (r *reader) Init(c *actors.Context) error {
	c.OnGone(func() { r.cfg.Budget.add(-r.held) })
	if r.cfg.Owner != nil {
		c.Monitor(r.cfg.Owner)
	}
	c.SetStatus(r.machine.Status())
	return nil
}

// Handle takes a Pull, or an answer to what the machine wanted done.
func (r *reader) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case *actors.Request:
		pull, ok := msg.Body.(fetch.Pull)
		if !ok {
			msg.Fail(fmt.Errorf("a reader was asked %T: send fetch.Pull", msg.Body))
			return nil
		}
		r.pulled++
		r.pulls[r.pulled] = msg
		r.step(c, fetch.Pulled{ID: r.pulled, MaxBytes: pull.MaxBytes, Wait: pull.Wait})
	case fetch.Input:
		r.step(c, msg)
	case rest:
		r.takeRest(msg)
	case actors.Down:
		return actors.Exit(actors.Normal, "its owner ended")
	}
	return nil
}

// Terminate gives the file back; open pulls are answered by the end itself.
func (r *reader) Terminate(*actors.Context, actors.Reason) { r.closeCursor() }

// step feeds the machine one input and all that follows from it at once.
func (r *reader) step(c *actors.Context, in fetch.Input) {
	r.inputs = append(r.inputs[:0], in)
	for i := 0; i < len(r.inputs); i++ {
		r.note(r.inputs[i])
		r.effects = r.machine.Step(r.inputs[i], r.effects[:0])
		for _, e := range r.effects {
			if answer := r.do(c, e); answer != nil {
				r.inputs = append(r.inputs, answer)
			}
		}
	}
	clear(r.inputs) // what was handed out must not be kept
	clear(r.effects)
	held := r.machine.Held() - r.spared
	r.cfg.Budget.add(held - r.held)
	r.held = held
	c.SetStatus(r.machine.Status())
}

// note keeps the shell's own books.
func (r *reader) note(in fetch.Input) {
	if fired, ok := in.(fetch.Fired); ok {
		delete(r.timers, fired.ID)
	}
	_, fetched := in.(fetch.Fetched)
	_, failed := in.(fetch.FetchFailed)
	if fetched || failed {
		r.spared = 0
	}
}

// do carries out one effect and returns its answer, if it has one at once.
func (r *reader) do(c *actors.Context, e fetch.Effect) fetch.Input {
	switch e := e.(type) {
	case fetch.Look:
		return r.look()
	case fetch.AskPointer:
		r.askPointer(c)
	case fetch.OpenLocal:
		return r.open(e.Place)
	case fetch.ReadLocal:
		return r.read(e.MaxBytes)
	case fetch.CloseLocal:
		r.closeCursor()
	case fetch.Fetch:
		return r.fetch(c, e)
	case fetch.Notify:
		r.listen(c, e.From)
	case fetch.SetTimer:
		r.timers[e.ID] = c.After(e.After, fetch.Fired{ID: e.ID})
	case fetch.StopTimer:
		if t := r.timers[e.ID]; t != nil {
			t.Stop()
			delete(r.timers, e.ID)
		}
	case fetch.Answer:
		r.answer(e)
	case fetch.Repositioned:
		r.repositioned(e.Moved)
	case fetch.Detour:
		r.cfg.Metrics.Count("reader_local_damage_total", 1, "healed", "true")
		r.cfg.Log.Warn().Str("stream", r.cfg.Stream.String()).Str("offset", e.At.String()).Str("to", e.To.String()).Str("why", e.Why).
			Msg("the local log is damaged; the object store has the records, reading goes on there")
	case fetch.Waiting:
		if e.Local && e.Err.Class == fetch.Damaged {
			r.cfg.Metrics.Count("reader_local_damage_total", 1, "healed", "false")
		}
		r.cfg.Metrics.Count("reader_failures_total", 1, "class", e.Err.Class.String())
		r.cfg.Log.Info().Str("stream", r.cfg.Stream.String()).Str("offset", e.Err.At.String()).Str("class", e.Err.Class.String()).
			Dur("again_in", e.After).Msg(e.Err.Why)
	}
	return nil
}

func (r *reader) answer(e fetch.Answer) {
	request := r.pulls[e.ID]
	delete(r.pulls, e.ID)
	if e.Err != nil {
		request.Fail(e.Err)
		return
	}
	tier, size := "local", 0
	if e.Chunks.Remote {
		tier = "remote"
	}
	for _, b := range e.Chunks.Chunks {
		size += len(b)
	}
	if size > 0 {
		r.cfg.Metrics.Count("reader_chunks_total", int64(len(e.Chunks.Chunks)), "tier", tier)
		r.cfg.Metrics.Count("reader_bytes_total", int64(size), "tier", tier)
	}
	request.Reply(e.Chunks)
}

func (r *reader) repositioned(m resolve.Moved) {
	r.cfg.Metrics.Count("reader_moves_total", 1, "why", m.Why.String())
	r.cfg.Metrics.Count("reader_moved_records_total", int64(m.To-m.From), "why", m.Why.String())
	r.cfg.Log.Warn().Str("stream", r.cfg.Stream.String()).Str("from", m.From.String()).Str("to", m.To.String()).Str("why", m.Why.String()).
		Msg("a reader was moved: the records in between exist no more")
}

// classOf tells what a failure of the store means to the machine.
func classOf(err error) fetch.Class {
	switch port.ClassOf(err) {
	case port.NotFound:
		return fetch.Gone
	case port.Throttled:
		return fetch.Throttled
	case port.Denied:
		return fetch.Denied
	case port.Checksum:
		return fetch.Damaged
	default:
		return fetch.Fault
	}
}
