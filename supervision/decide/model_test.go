package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// env is the world below one machine, and what an onlooker may conclude from watching:
// it knows rules, not states.
type env struct {
	t          *rapid.T
	flags      Flags
	m, twin    *Machine // the twin gets the same events and must say the same
	now        time.Duration
	specs      map[string]Spec
	order      []string // ids as declared
	live       map[string]uint64
	restarting map[string]Retry
	attempts   []int64 // when restarts were tried, in ms
	last       uint64
	over       bool
	exit       string
	stoppable  bool // the supervisor may be told to stop while it starts a child,
	cancelled  bool // and was: nothing may start any more
	fallible   bool // the shell may fail while it carries an action out,
	broken     bool // and did

	// of the present operation
	restart bool // it is a restart: its starts are an attempt
	charged bool
	failed  bool // a start has failed
	starts  []string
	stops   []string
	replies []Reply
	parked  []string
}

func newEnv(t *rapid.T) *env {
	flags := Flags{
		Strategy:     Strategy(rapid.IntRange(0, 3).Draw(t, "strategy")),
		Intensity:    rapid.IntRange(0, 3).Draw(t, "intensity"),
		Period:       time.Duration(rapid.IntRange(1, 50).Draw(t, "period")) * time.Millisecond,
		AutoShutdown: AutoShutdown(rapid.IntRange(0, 2).Draw(t, "auto")),
	}
	e := &env{t: t, flags: flags, specs: map[string]Spec{}, live: map[string]uint64{}, restarting: map[string]Retry{}}
	var specs []Spec
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 4, few - 1, few + 1}).Draw(t, "children")
	if flags.Strategy == SimpleOneForOne {
		n = 1
	}
	for i := range n {
		specs = append(specs, e.spec(fmt.Sprint("s", i)))
	}
	var err error
	if e.m, err = New(flags, specs); err != nil {
		t.Fatal(err)
	}
	if e.twin, err = New(flags, specs); err != nil {
		t.Fatal(err)
	}
	if flags.Strategy != SimpleOneForOne {
		for _, s := range specs {
			e.declare(s)
		}
	}
	return e
}

func (e *env) spec(id string) Spec {
	s := Spec{ID: id, Restart: Restart(rapid.IntRange(0, 2).Draw(e.t, "restart")), Shutdown: After(time.Second)}
	s.Significant = e.flags.AutoShutdown != NeverShutdown && s.Restart != Permanent && rapid.Bool().Draw(e.t, "significant")
	return s
}

func (e *env) declare(s Spec) {
	e.specs[s.ID] = s
	e.order = append(e.order, s.ID)
}

// do gives one event with all that follows, and checks what an onlooker can.
func (e *env) do(ev Event) {
	e.charged, e.failed, e.starts, e.stops, e.replies, e.parked = false, false, nil, nil, nil, nil
	due := e.step(ev)
	for len(due) > 0 {
		a := due[0]
		due = due[1:]
		if last, failed := e.fail(a); failed {
			due = e.step(last)
			continue
		}
		answers := e.execute(a)
		if len(answers) > 0 && len(due) > 0 {
			e.t.Fatalf("%T is not the last action of its step", a)
		}
		for _, answer := range answers {
			due = append(due, e.step(answer)...)
		}
	}
	e.checkOrder()
	e.checkSpecs()
}

// fail lets the shell fail, now and then, while it carries out an action that awaits an
// answer: what it did has happened, and in place of the answer comes the end. What was
// stopped by then may as well live, since to stop it again is the same.
func (e *env) fail(a Action) (last ShutdownAll, failed bool) {
	start, starts := a.(Start)
	_, stops := a.(Stop)
	_, stopsAll := a.(StopAll)
	if !starts && !stops && !stopsAll || !e.fallible || e.exit != "" || rapid.IntRange(0, 7).Draw(e.t, "fails") > 0 {
		return last, false
	}
	if starts && rapid.Bool().Draw(e.t, "begun") {
		e.last++
		e.live[start.ID] = e.last
		last.Started = Started{ID: start.ID, Incarnation: e.last}
	} else if live := liveIDs(e); len(live) > 0 && rapid.Bool().Draw(e.t, "names another") {
		last.Started = Started{ID: live[0], Incarnation: e.live[live[0]]}
	}
	e.broken, e.exit, e.starts, e.stops = true, "the shell failed", nil, nil
	clear(e.restarting)
	return last, true
}

func (e *env) step(ev Event) []Action {
	actions := e.m.Step(ev, e.now, nil)
	if same := e.twin.Step(ev, e.now, nil); fmt.Sprint(actions) != fmt.Sprint(same) {
		e.t.Fatalf("%T gives %v and %v", ev, actions, same)
	}
	if err := e.m.check(); err != nil {
		e.t.Fatalf("after %T: invariant %v", ev, err)
	}
	return actions
}

func (e *env) execute(a Action) []Event {
	switch a := a.(type) {
	case Start:
		return []Event{e.start(a)}
	case Stop:
		return []Event{e.stop(a)}
	case StopAll:
		var answers []Event
		for _, s := range a.Children {
			answers = append(answers, e.stop(s))
		}
		return rapid.Permutation(answers).Draw(e.t, "ends")
	case RetryLater:
		e.restarting[a.ID] = Retry(a)
	case Forget:
		if _, alive := e.live[a.ID]; alive {
			e.t.Fatalf("%s is forgotten alive", a.ID)
		}
		delete(e.specs, a.ID)
		delete(e.restarting, a.ID)
		e.order = slices.DeleteFunc(e.order, func(id string) bool { return id == a.ID })
	case Exit:
		if e.exit = a.Why; a.Why == "" {
			e.t.Fatal("exit without a reason")
		}
		if broke := e.within()+1 > e.flags.Intensity; a.GaveUp && !broke {
			e.t.Fatalf("gave up with %d restarts of %d", e.within(), e.flags.Intensity)
		}
		clear(e.restarting)
	case BootFailed:
		e.over = true
		clear(e.restarting)
		if len(e.live) > 0 {
			e.t.Fatalf("boot failed and %v live", e.live)
		}
	case Reply:
		e.replies = append(e.replies, a)
	case Report:
		if a.Kind == ChildParked {
			e.parked = append(e.parked, a.ID)
		}
	case Ready: // asks for nothing
	}
	return nil
}

func (e *env) start(a Start) Event {
	if e.live[a.ID] != 0 {
		e.t.Fatalf("%s is started while it lives", a.ID)
	}
	if _, known := e.specs[a.ID]; !known || e.exit != "" {
		e.t.Fatalf("start of %s", a.ID)
	}
	if e.failed || e.cancelled {
		e.t.Fatalf("%s is started after a failure, or a stop", a.ID)
	}
	if e.restart && !e.charged {
		e.charged = true
		e.attempts = append(e.attempts, e.now.Milliseconds())
		if n := e.within(); n > e.flags.Intensity {
			e.t.Fatalf("%d attempts to restart within %v, %d are allowed", n, e.flags.Period, e.flags.Intensity)
		}
	}
	delete(e.restarting, a.ID)
	e.starts = append(e.starts, a.ID)
	if e.stoppable && rapid.IntRange(0, 7).Draw(e.t, "told to stop") == 0 {
		e.cancelled = true
		clear(e.restarting)
		return Cancelled(a)
	}
	switch rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "ok", "ignore", "fail"}).Draw(e.t, "init") {
	case "ignore":
		return Ignored(a)
	case "fail":
		e.failed = true
		return Failed{ID: a.ID, Why: "no"}
	}
	e.last++
	e.live[a.ID] = e.last
	return Started{ID: a.ID, Incarnation: e.last}
}

// within counts the attempts in the closed window that ends now.
func (e *env) within() int {
	n := 0
	for _, at := range e.attempts {
		if e.now.Milliseconds()-at <= e.flags.Period.Milliseconds() {
			n++
		}
	}
	return n
}

func (e *env) stop(a Stop) Event {
	if e.live[a.ID] != a.Incarnation || a.Incarnation == 0 {
		e.t.Fatalf("stop of incarnation %d of %s, %d lives", a.Incarnation, a.ID, e.live[a.ID])
	}
	delete(e.live, a.ID)
	e.stops = append(e.stops, a.ID)
	return Stopped{ID: a.ID, Fault: rapid.SampledFrom([]string{"", "late"}).Draw(e.t, "fault")}
}

// checkOrder: starts follow the order of declaration, stops its reverse, and nothing
// starts before the last stop of an operation. Under SimpleOneForOne there is no order.
func (e *env) checkOrder() {
	if e.flags.Strategy == SimpleOneForOne {
		return
	}
	at := func(id string) int { return slices.Index(e.order, id) }
	known := func(ids []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return at(id) < 0 })
	}
	inOrder := func(a, b string) int { return at(a) - at(b) }
	if starts := known(e.starts); !slices.IsSortedFunc(starts, inOrder) {
		e.t.Fatalf("started in order %v, declared %v", starts, e.order)
	}
	stops := known(e.stops)
	slices.Reverse(stops)
	if !slices.IsSortedFunc(stops, inOrder) {
		e.t.Fatalf("stopped in the reverse of %v, declared %v", stops, e.order)
	}
}

// checkSpecs compares what the machine shows with what was seen.
func (e *env) checkSpecs() {
	shown := map[string]bool{}
	for _, i := range e.m.Which() {
		shown[i.Spec.ID] = true
		if i.Incarnation != e.live[i.Spec.ID] {
			e.t.Fatalf("%s is shown with incarnation %d, %d lives", i.Spec.ID, i.Incarnation, e.live[i.Spec.ID])
		}
		if _, waits := e.restarting[i.Spec.ID]; waits && e.exit == "" && !e.over && i.State != Restarting {
			e.t.Fatalf("%s waits for its retry and is shown %v", i.Spec.ID, i.State)
		}
	}
	for id := range e.specs {
		if !shown[id] {
			e.t.Fatalf("the specification of %s is gone without Forget", id)
		}
	}
	if n := e.m.Count(); n.Active != len(e.live) || n.Workers+n.Supervisors != len(e.specs) {
		e.t.Fatalf("counted %+v, %d live of %d", n, len(e.live), len(e.specs))
	}
}

// end lets a live child end by itself and checks rules 2, 3 and 4.
func (e *env) end(id string, abnormal bool) {
	s, incarnation := e.specs[id], e.live[id]
	delete(e.live, id)
	restarted := s.Restart == Permanent || s.Restart == Transient && abnormal
	spent := s.Significant && !restarted && e.flags.AutoShutdown != NeverShutdown
	if e.flags.AutoShutdown == AllSignificant {
		for other, o := range e.specs {
			_, waits := e.restarting[other]
			spent = spent && (other == id || !o.Significant || e.live[other] == 0 && !waits)
		}
	}
	gaveUp := !abnormal && rapid.Bool().Draw(e.t, "gave up")
	broke := e.tryRestart(id, restarted, Exited{Incarnation: incarnation, Abnormal: abnormal, GaveUp: gaveUp, Why: "test"})
	switch {
	case e.broken:
	case (gaveUp && !restarted) != slices.Equal(e.parked, []string{id}):
		e.t.Fatalf("end of %+v, gave up %v: parked %v", s, gaveUp, e.parked)
	case (spent || broke) != (e.exit != ""):
		e.t.Fatalf("end of %+v: exit %q; significance spent %v, budget broken %v", s, e.exit, spent, broke)
	case !restarted && len(e.starts) > 0:
		e.t.Fatalf("%v started after the end of %+v", e.starts, s)
	case restarted && !broke && (len(e.starts) == 0 || e.flags.Strategy < RestForOne && !slices.Equal(e.starts, []string{id})):
		e.t.Fatalf("%v started after the end of %+v", e.starts, s)
	case s.Restart == Temporary && e.m.Has(id):
		e.t.Fatalf("temporary %s kept its specification", id)
	}
}

// tryRestart gives an event that restarts the child, or does not, and returns whether that
// is beyond the budget.
func (e *env) tryRestart(id string, restart bool, ev Event) (broke bool) {
	if restart {
		// What stands in the group is started again along with it.
		from := slices.Index(e.order, id)
		for i, other := range e.order {
			if other == id || e.flags.Strategy == OneForAll || e.flags.Strategy == RestForOne && i > from {
				delete(e.restarting, other)
			}
		}
	}
	broke = restart && e.within()+1 > e.flags.Intensity
	e.restart = restart
	e.do(ev)
	e.restart = false
	return broke
}

// act does one thing that can happen to a supervisor that is up.
func (e *env) act() {
	e.now += time.Duration(rapid.IntRange(0, 20).Draw(e.t, "wait")) * time.Millisecond
	live, id := liveIDs(e), e.anyID()
	switch act := rapid.SampledFrom([]string{"end", "end", "end", "retry", "retry", "stale", "add", "terminate", "restart", "delete"}).Draw(e.t, "act"); act {
	case "end":
		if len(live) > 0 {
			e.end(rapid.SampledFrom(live).Draw(e.t, "ends"), rapid.Bool().Draw(e.t, "abnormal"))
		}
	case "retry":
		if r, waits := e.restarting[id]; waits {
			if broke := e.tryRestart(id, true, r); broke != (e.exit != "") && !e.broken {
				e.t.Fatalf("retry of %s: exit %q, budget broken %v", id, e.exit, broke)
			}
		}
	case "stale":
		e.do(Retry{ID: id, Attempt: e.restarting[id].Attempt + 1})
		e.do(Exited{Incarnation: e.last + 1, Abnormal: true})
		if len(e.starts) > 0 {
			e.t.Fatalf("%v started for nothing", e.starts)
		}
	default:
		e.ask(id, act)
	}
}

// ask makes one of the calls.
func (e *env) ask(id, what string) {
	switch what {
	case "add":
		e.add(id)
	case "terminate":
		delete(e.restarting, id)
		e.call(id, TerminateChild{ID: id}, OK, NotFound)
		if e.live[id] != 0 {
			e.t.Fatalf("%s lives after terminate", id)
		}
	case "restart":
		e.call(id, RestartChild{ID: id}, e.ifVacant(id, OK, OKIgnored, StartFailed)...)
	case "delete":
		e.call(id, DeleteChild{ID: id}, e.ifVacant(id, OK)...)
	}
}

// ifVacant returns the answers to a call that wants a child without a process.
func (e *env) ifVacant(id string, answers ...Answer) []Answer {
	_, known := e.specs[id]
	_, waits := e.restarting[id]
	switch {
	case e.flags.Strategy == SimpleOneForOne:
		return []Answer{NotSimple}
	case !known:
		return []Answer{NotFound}
	case waits:
		return []Answer{StillRestarting}
	case e.live[id] != 0:
		return []Answer{StillRunning}
	}
	return answers
}

// anyID returns the id of a child there is or was, or of none.
func (e *env) anyID() string {
	return rapid.SampledFrom([]string{"s0", "s1", "s2", "s3", "s5", "s8", "d0", "d1", "d2"}).Draw(e.t, "id")
}

func (e *env) add(id string) {
	s := e.spec(id)
	_, known := e.specs[id]
	_, waits := e.restarting[id]
	bad := rapid.IntRange(0, 9).Draw(e.t, "bad") == 0
	if bad {
		s.Restart, s.Significant = Permanent, true
	}
	want := []Answer{OK, OKIgnored, StartFailed}
	switch {
	case bad:
		want = []Answer{BadSpec}
	case e.live[id] != 0 || waits && e.flags.Strategy == SimpleOneForOne:
		want = []Answer{AlreadyStarted}
	case known || waits:
		want = []Answer{AlreadyPresent}
	default:
		e.declare(s)
	}
	e.call(id, StartChild{Spec: s}, want...)
}

// call gives a call, which is answered once, with one of these, and ends nothing.
func (e *env) call(id string, ev Event, answers ...Answer) {
	live, late := e.live[id], e.cancelled
	e.do(ev)
	if e.broken { // the caller hears of that
		return
	}
	_, adds := ev.(StartChild)
	_, restarts := ev.(RestartChild)
	if e.cancelled && (!late || adds || restarts) && slices.Contains(answers, StartFailed) {
		answers = []Answer{Leaving}
	}
	if len(e.replies) != 1 || e.replies[0].ID != id || !slices.Contains(answers, e.replies[0].Answer) || e.exit != "" {
		e.t.Fatalf("%+v: answers %+v, want one of %v; exit %q", ev, e.replies, answers, e.exit)
	}
	if a := e.replies[0].Answer; adds && (a == StartFailed || a == Leaving) && e.m.Has(id) {
		e.t.Fatalf("%+v: answer %v, and its specification stays", ev, a)
	}
	if r := e.replies[0]; r.Answer == AlreadyStarted && r.Incarnation != live || r.Answer == OK && len(e.starts) > 0 && r.Incarnation != e.live[id] {
		e.t.Fatalf("%+v: answer %+v, %d lives", ev, r, e.live[id])
	}
}

func (e *env) shutdown() {
	if !e.broken {
		e.exit = "shutdown"
		clear(e.restarting)
		e.do(ShutdownAll{})
	}
	if len(e.live) > 0 {
		e.t.Fatalf("%v outlive the supervisor", e.live)
	}
	e.over = true
}

func liveIDs(e *env) []string {
	var ids []string
	for _, id := range e.order {
		if e.live[id] != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestModel(t *testing.T) {
	for range 20 {
		checkModel(t)
	}
}

func checkModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEnv(t)
		end := rapid.IntRange(0, 3).Draw(t, "end")
		e.fallible, e.stoppable = end == 0, end == 1
		e.do(Boot{})
		for i := 0; i < 40 && !e.over && e.exit == "" && !e.cancelled; i++ {
			e.act()
		}
		for range rapid.IntRange(0, 3).Draw(t, "late calls") {
			if e.cancelled && e.exit == "" {
				e.ask(e.anyID(), rapid.SampledFrom([]string{"add", "terminate", "restart", "delete"}).Draw(t, "late"))
			}
		}
		if !e.over {
			e.shutdown()
		}
	})
}
