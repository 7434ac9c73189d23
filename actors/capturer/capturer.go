package capturer

import (
	"fmt"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/registry"
)

type capturer struct {
	cfg     Config
	machine *pgout.Machine
	start   time.Time
	effects []pgout.Effect
	timer   *actors.Timer
	shown   pgout.Status
	counted pgout.Status

	log    *hooks.Log // of the writer that is up; nil: none
	writer actors.MonitorRef
	lines  *lines // open connections

	tasks    map[*actors.Task]bool
	draining bool           // an attempt was given up and its tasks have not all ended
	waiting  []pgout.Effect // until they have
	asked    map[actors.Ref]func(*actors.Context, actors.Reply)
}

type (
	tick  struct{}
	look  struct{}
	pulse struct{}
	// synced is what the log's Notify sends.
	synced struct {
		log *hooks.Log
		gen uint64
	}
	// done is the end of a task: its answer, and a connection it opened.
	done struct {
		task   *actors.Task
		answer pgout.Input
		snap   port.Snapshot
		repl   port.Replication
	}
)

// New returns a capturer. Its process's status is a pgout.Status.
func New(cfg Config) actors.Process {
	return &capturer{cfg: cfg, start: time.Now(), machine: pgout.New(cfg.machine()), lines: &lines{},
		tasks: map[*actors.Task]bool{}, asked: map[actors.Ref]func(*actors.Context, actors.Reply){}}
}

// Init registers the name and begins to look for the writer.
func (k *capturer) Init(c *actors.Context) error {
	if !k.cfg.Registry.Register(c, registry.Name{Kind: "capturer", ID: k.cfg.Name, Node: string(k.cfg.Node)}) {
		return fmt.Errorf("capture %q: another capturer is registered on node %s", k.cfg.Name, k.cfg.Node)
	}
	c.OnExit(k.lines.end)
	k.cfg.Registry.Subscribe(c, registry.Name{Kind: "writer", ID: string(k.cfg.Stream), Node: string(k.cfg.Node)})
	k.publish(c)
	c.After(beat, pulse{})
	c.After(seek, look{})
	return nil
}

// Terminate closes the connections: the server frees the slot at once.
func (k *capturer) Terminate(*actors.Context, actors.Reason) {
	k.lines.end()
	k.cfg.Metrics.Forget("capture", k.cfg.Name)
}

// Handle takes one message.
func (k *capturer) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case look:
		k.seek(c)
		if k.log == nil {
			c.After(seek, look{})
		}
	case registry.Registered:
		k.seek(c)
	case actors.Down:
		k.writerDown(c, msg)
	case actors.Reply:
		k.replied(c, msg)
	case done:
		k.ended(c, msg)
	case synced:
		if msg.log == k.log && msg.log.Alive() {
			k.step(c, &pgout.Synced{At: k.at(msg.gen), Next: msg.log.Synced()})
		}
	case tick:
		k.step(c, &pgout.Tick{At: k.at(0)})
	case pulse:
		k.publish(c)
		c.After(beat, pulse{})
	}
	return nil
}

// seek takes the writer that runs now, if none was known.
func (k *capturer) seek(c *actors.Context) {
	l, ok := k.cfg.Hooks.Lookup(k.cfg.Stream)
	if k.log != nil || !ok || !l.Alive() {
		return
	}
	k.log = l
	k.writer = c.Monitor(l.Writer)
	k.step(c, &pgout.Up{At: k.at(0)})
}

func (k *capturer) writerDown(c *actors.Context, d actors.Down) {
	if k.log == nil || d.Ref != k.writer {
		return
	}
	k.log = nil
	k.step(c, &pgout.Down{At: k.at(0)})
	c.After(seek, look{})
}

// now is the wall clock of the start moved on by the monotonic one.
func (k *capturer) now() pos.Millis { return pos.MillisOf(k.start.Add(time.Since(k.start))) }

func (k *capturer) at(gen uint64) pgout.At { return pgout.At{Gen: gen, Now: k.now()} }

func (k *capturer) step(c *actors.Context, in pgout.Input) {
	k.effects = k.machine.Step(in, k.effects[:0])
	for _, e := range k.effects {
		k.execute(c, e)
	}
	if s := k.machine.Status(k.now()); s.State != k.shown.State || s.Doing != k.shown.Doing {
		k.publish(c)
	}
}

func (k *capturer) execute(c *actors.Context, e pgout.Effect) {
	switch e := e.(type) {
	case *pgout.Timer:
		k.timer.Stop()
		k.timer = c.After(e.At.Sub(k.now()), tick{})
	case *pgout.Warn:
		event := k.cfg.Log.Warn()
		if e.Error {
			event = k.cfg.Log.Error()
		}
		event.Str("capture", k.cfg.Name).Msg(e.Text)
	case *pgout.Confirm:
		k.lines.confirm(e.LSN)
	case *pgout.WatchSync:
		if k.log != nil {
			k.log.Notify(c.Self(), e.From, true, synced{k.log, e.Gen})
		}
	case *pgout.CloseAll:
		k.giveUp(c)
	case *pgout.Look, *pgout.SaveRow, *pgout.SaveTables, *pgout.DropSlots, *pgout.EndBackend, *pgout.CreateSlot,
		*pgout.CloseSnapshot, *pgout.Load, *pgout.StartStream, *pgout.Receive, *pgout.Inspect, *pgout.Append:
		if k.draining {
			k.waiting = append(k.waiting, e)
			return
		}
		k.begin(c, e)
	}
}

// giveUp cancels what is out and closes the connections.
func (k *capturer) giveUp(c *actors.Context) {
	k.waiting = nil
	k.draining = true
	for t := range k.tasks {
		t.Cancel(nil)
	}
	k.close(c, k.lines.take())
	k.drained(c)
}

// ended takes the answer of a task; the last of a given up attempt lets the next begin.
func (k *capturer) ended(c *actors.Context, d done) {
	delete(k.tasks, d.task)
	if k.draining {
		k.close(c, d)
		k.drained(c)
		return
	}
	k.lines.adopt(d.snap, d.repl)
	if saved, ok := d.answer.(*pgout.RowSaved); ok {
		k.captured(&saved.Row)
	}
	if looked, ok := d.answer.(*pgout.Surveyed); ok { // what was saved may not have been told
		k.captured(looked.Survey.Row)
	}
	if d.answer != nil {
		k.step(c, d.answer)
	}
}

// captured tells the writer up to where the capture goes on by its own row. A row of an earlier
// stream means nothing here, and does no harm: before there is anything to need, a load stores one
// that needs all.
func (k *capturer) captured(row *pgout.Row) {
	if k.log != nil && row != nil {
		k.log.Writer.Send(segment.Captured{Next: row.Event.Offset + 1})
	}
}

// drained lets the next attempt begin once nothing of the last one runs.
func (k *capturer) drained(c *actors.Context) {
	if len(k.tasks) > 0 {
		return
	}
	k.draining = false
	next := k.waiting
	k.waiting = nil
	for _, e := range next {
		k.begin(c, e)
	}
}

// close closes connections in a task: it may take a moment.
func (k *capturer) close(c *actors.Context, d done) {
	if d.snap != nil || d.repl != nil {
		k.task(c, "close", func(*task) done { d.close(); return done{} })
	}
}

func (d *done) close() {
	if d.snap != nil {
		d.snap.Close()
	}
	if d.repl != nil {
		d.repl.Close()
	}
}

// replied takes the writer's answers.
func (k *capturer) replied(c *actors.Context, r actors.Reply) {
	take, ok := k.asked[r.Ref]
	if !ok {
		return
	}
	delete(k.asked, r.Ref)
	take(c, r)
}

// settled goes on with a look: all that was appended before is committed now, or refused.
func (k *capturer) settled(c *actors.Context, e *pgout.Look, r actors.Reply) {
	if r.Err != nil {
		k.step(c, k.failed(e, e.Gen, r.Err))
		return
	}
	if k.log != nil && !k.draining {
		k.survey(c, e, k.log)
	}
}

func (k *capturer) appended(e *pgout.Append, r actors.Reply) pgout.Input {
	switch body := r.Body.(type) {
	case segment.Appended:
		return &pgout.Appended{At: k.at(e.Gen), Next: body.Next}
	case segment.Refused:
		return &pgout.Refused{At: k.at(e.Gen), Next: body.Next}
	}
	if r.Err == nil {
		r.Err = fmt.Errorf("stream %s: its writer answered an append with %T", k.cfg.Stream, r.Body)
	}
	return k.failed(e, e.Gen, r.Err)
}

// logTrouble is why the log takes no records, by its writer's own account.
func (k *capturer) logTrouble() []pgout.Warning {
	if k.log == nil {
		return nil
	}
	if w, ok := k.log.Writer.Status().(segment.Status); ok && w.Why != "" {
		return []pgout.Warning{{Why: fmt.Sprintf("the stream's log is %s and takes no records, so the server keeps its WAL: %s", w.State, w.Why)}}
	}
	return nil
}

// publish shows the status, and counts on.
func (k *capturer) publish(c *actors.Context) {
	s := k.machine.Status(k.now())
	s.Warnings = append(s.Warnings, k.logTrouble()...)
	if s.State != k.shown.State {
		event := k.cfg.Log.Info().Str("capture", k.cfg.Name).Str("state", s.State)
		if s.Waiting != nil {
			event = event.Str("why", s.Waiting.Why).Str("hint", s.Waiting.Hint)
		}
		event.Msg("capture")
	}
	k.shown = s
	c.SetStatus(s)
	m, name := k.cfg.Metrics, k.cfg.Name
	m.Count("capture_events_total", s.Events-k.counted.Events, "capture", name)
	m.Count("capture_commits_total", s.Commits-k.counted.Commits, "capture", name)
	m.Count("capture_losses_total", s.Losses-k.counted.Losses, "capture", name)
	m.Gauge("capture_lag_seconds", float64(s.LagMillis)/1000, "capture", name)
	m.Gauge("capture_in_flight_bytes", float64(s.InFlight), "capture", name)
	if s.Retained >= 0 {
		m.Gauge("capture_retained_wal_bytes", float64(s.Retained), "capture", name)
	}
	k.counted = s
}
