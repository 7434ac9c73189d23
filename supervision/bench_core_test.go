package supervision_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/supervision"
	"millrace/supervision/decide"
)

// coreBench drives machines of package decide alone, with a made-up world below them.
type coreBench struct {
	record
	now  time.Duration
	last uint64 // incarnation
	top  *coreSup
}

// coreSup is one supervisor: what the shell keeps, without processes.
type coreSup struct {
	b       *coreBench
	flags   supervision.Flags
	m       *decide.Machine
	parts   map[string]part
	subs    map[string]*coreSup // child supervisors that run
	parent  *coreSup
	self    uint64 // incarnation under the parent
	queue   []decide.Event
	failed  string
	exiting bool
	down    bool
	reply   *decide.Reply
	draft   part // of the call being carried out
}

func newCoreBench() bench { return &coreBench{} }

func (b *coreBench) start(flags supervision.Flags, parts ...part) string {
	s, err := b.newSup(flags, parts)
	b.top = s
	return err
}

func (b *coreBench) newSup(flags supervision.Flags, parts []part) (*coreSup, string) {
	s := &coreSup{b: b, flags: flags, parts: map[string]part{}, subs: map[string]*coreSup{}}
	var specs []decide.Spec
	for _, p := range parts {
		s.parts[p.id] = p
		specs = append(specs, p.spec())
	}
	m, err := decide.New(flags, specs)
	if err != nil {
		s.down = true
		return s, err.Error()
	}
	s.m = m
	s.step(decide.Boot{})
	if s.failed != "" {
		s.down = true
		return s, "{error,{shutdown,{failed_to_start_child," + s.failed + "}}}"
	}
	return s, "ok"
}

func (p part) spec() decide.Spec {
	kind := supervision.Worker
	if p.flags != nil {
		kind = supervision.Supervisor
	}
	return decide.Spec{ID: p.id, Restart: p.restart, Significant: p.signif, Shutdown: p.limit(), Kind: kind}
}

func (s *coreSup) step(ev decide.Event) {
	due := s.m.Step(ev, s.b.now, nil)
	for len(due) > 0 {
		a := due[0]
		due = due[1:]
		for _, answer := range s.execute(a) {
			due = append(due, s.m.Step(answer, s.b.now, nil)...)
		}
	}
}

func (s *coreSup) execute(a decide.Action) []decide.Event {
	switch a := a.(type) {
	case decide.Start:
		return []decide.Event{s.startPart(a.ID)}
	case decide.Stop:
		return []decide.Event{s.stopPart(a)}
	case decide.StopAll:
		return s.stopParts(a)
	case decide.RetryLater:
		s.queue = append(s.queue, decide.Retry(a))
	case decide.BootFailed:
		s.failed = a.ID + "," + a.Why
	case decide.Exit:
		s.exiting = true
	case decide.Reply:
		s.reply = &a
	case decide.Forget, decide.Ready, decide.Report: // ask for nothing
	}
	return nil
}

func (s *coreSup) startPart(id string) decide.Event {
	p, ok := s.parts[id]
	if !ok {
		p = s.draft
	}
	s.b.last++
	incarnation := s.b.last
	if p.flags != nil {
		sub, err := s.b.newSup(*p.flags, p.parts)
		if err != "ok" {
			return decide.Failed{ID: id, Why: err}
		}
		sub.parent, sub.self = s, incarnation
		s.subs[id] = sub
		return decide.Started{ID: id, Incarnation: incarnation}
	}
	outcome := ""
	if n := s.b.bump(id); p.init != nil {
		outcome = p.init(n)
	}
	switch outcome {
	case "":
		return decide.Started{ID: id, Incarnation: incarnation}
	case "ignore":
		return decide.Ignored{ID: id}
	}
	return decide.Failed{ID: id, Why: outcome}
}

// stopPart stops a child: the world's time goes by for as long as it takes.
func (s *coreSup) stopPart(a decide.Stop) decide.Event {
	p := s.parts[a.ID]
	limit, limited := a.Shutdown.Limit()
	if sub := s.subs[a.ID]; sub != nil {
		delete(s.subs, a.ID)
		sub.step(decide.ShutdownAll{})
		sub.down = true
		return decide.Stopped{ID: a.ID}
	}
	if a.Shutdown.IsBrutal() {
		return decide.Stopped{ID: a.ID}
	}
	if p.trap {
		s.b.note("{stopping,%s,shutdown}", a.ID)
	}
	if limited && p.linger > limit {
		s.b.now += limit
		return decide.Stopped{ID: a.ID, Fault: "killed"}
	}
	s.b.now += p.linger
	if p.trap {
		s.b.note("{stopped,%s}", a.ID)
	}
	return decide.Stopped{ID: a.ID}
}

// stopParts lets every child begin at the same time.
func (s *coreSup) stopParts(all decide.StopAll) []decide.Event {
	began, latest := s.b.now, s.b.now
	var events []decide.Event
	for _, a := range all.Children {
		s.b.now = began
		events = append(events, s.stopPart(a))
		latest = max(latest, s.b.now)
	}
	s.b.now = latest
	return events
}

// turn handles what is queued, and the supervisor's own end.
func (s *coreSup) turn() {
	for !s.exiting && len(s.queue) > 0 {
		ev := s.queue[0]
		s.queue = s.queue[1:]
		s.step(ev)
	}
	if s.exiting && !s.down {
		s.step(decide.ShutdownAll{})
		s.down = true
		if s.parent != nil {
			s.parent.queue = append(s.parent.queue, decide.Exited{Incarnation: s.self, Why: "shutdown"})
			s.parent.turn()
		}
	}
}

func (b *coreBench) settle(d time.Duration) { b.now += d }

// find returns the supervisor of the child at path, and the child's id.
func (b *coreBench) find(path string) (*coreSup, string) {
	s := b.top
	for {
		id, rest, deeper := strings.Cut(path, "/")
		if !deeper {
			return s, id
		}
		s, path = s.subs[id], rest
	}
}

func (b *coreBench) exit(path, reason string) {
	s, id := b.find(path)
	for _, i := range s.m.Which() {
		if i.Spec.ID == id && i.Incarnation != 0 {
			abnormal := reason == "crash" || reason == "kill"
			s.queue = append(s.queue, decide.Exited{Incarnation: i.Incarnation, Abnormal: abnormal, Why: reason})
		}
	}
	s.turn()
}

func (b *coreBench) down() string { return b.top.state() }

func (s *coreSup) state() string {
	if s.down {
		return "{down,shutdown}"
	}
	return "alive"
}

func (b *coreBench) kid(path string) string {
	s, id := b.find(path)
	if s == nil {
		return "gone"
	}
	if sub := s.subs[id]; sub != nil && sub.down {
		delete(s.subs, id)
	}
	for _, i := range s.m.Which() {
		if i.Spec.ID == id {
			return shown(i.State)
		}
	}
	return "gone"
}

func shown(s decide.State) string {
	if s == decide.Running {
		return "pid"
	}
	return s.String()
}

func (b *coreBench) starts(id string) int { return b.begun[id] }

func (b *coreBench) which() string {
	var items []string
	for _, i := range b.top.m.Which() {
		items = append(items, pair(i.Spec.ID, shown(i.State)))
	}
	return list(items)
}

func (b *coreBench) count() string { return counted(b.top.m.Count()) }

func counted(n supervision.Counts) string {
	return fmt.Sprintf("[{specs,%d},{active,%d},{supervisors,%d},{workers,%d}]", n.Specs, n.Active, n.Supervisors, n.Workers)
}

var answers = map[decide.Answer]string{
	decide.OK: "ok", decide.OKIgnored: "{ok,undefined}", decide.AlreadyStarted: "already_started",
	decide.AlreadyPresent: "{error,already_present}", decide.NotFound: "{error,not_found}",
	decide.StillRunning: "{error,running}", decide.StillRestarting: "{error,restarting}",
	decide.NotSimple: "{error,simple_one_for_one}", decide.StartFailed: "{error,failed}", decide.BadSpec: "{error,bad_spec}",
}

func (b *coreBench) call(ev decide.Event) string {
	b.top.reply = nil
	b.top.step(ev)
	b.top.turn()
	return answers[b.top.reply.Answer]
}

func (b *coreBench) add(p part) string {
	b.top.draft = p
	answer := b.call(decide.StartChild{Spec: p.spec()})
	if slices.Contains([]string{"ok", "{ok,undefined}"}, answer) {
		b.top.parts[p.id] = p
	}
	return answer
}

func (b *coreBench) terminate(id string) string { return b.call(decide.TerminateChild{ID: id}) }
func (b *coreBench) restart(id string) string   { return b.call(decide.RestartChild{ID: id}) }
func (b *coreBench) remove(id string) string    { return b.call(decide.DeleteChild{ID: id}) }

func (b *coreBench) stop() time.Duration {
	began := b.now
	b.top.step(decide.ShutdownAll{})
	b.top.down = true
	return b.now - began
}
