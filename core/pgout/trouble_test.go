package pgout

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
)

// survey passes what is waited for and answers the look.
func (s *story) survey(change func(v *Survey)) {
	s.t.Helper()
	if s.m.stage == stWait {
		s.now = max(s.now, s.m.trouble.retryAt)
		s.step(&Tick{At: s.at()})
	}
	v := goodSurvey()
	v.Server.Publication.Tables = []Table{ordersTable}
	v.Loaded = []TableRow{{Key: TableKey("app", &ordersTable), Consistent: 100, Base: 100, SystemID: "7", Timeline: 1}}
	if change != nil {
		change(v)
	}
	s.step(&Surveyed{At: s.at(), Survey: *v})
}

// fail answers an effect with a failure and returns how long is waited.
func (s *story) fail(of Effect, class Class) time.Duration {
	s.t.Helper()
	s.step(&Failed{At: s.at(), Of: of, Fail: Failure{Class: class, Why: "told so"}})
	return time.Duration(s.m.trouble.retryAt-s.now) * time.Millisecond
}

// A stream that can't be decoded is a lost slot, whoever is told: Receive or StartStream.
func TestUnreadableIsSlotLost(t *testing.T) {
	for _, of := range []Effect{&Receive{}, &StartStream{}} {
		s := tell(t, testConfig)
		s.resume(confirmed)
		s.fail(of, Unreadable)
		s.survey(func(v *Survey) { v.Server.Publication = nil })
		if w := s.m.Status(s.now).Waiting; s.m.plan.Action != ActRefuse || w == nil || !strings.Contains(w.Hint, "CREATE PUBLICATION") {
			t.Fatalf("%+v, waiting %+v", s.m.plan, w)
		}
		s.survey(nil)
		if s.m.plan.Action != ActLoad || s.m.counters.Losses != 1 || !strings.Contains(s.m.plan.Why, `while publication "pub" did not exist`) {
			t.Fatalf("%+v, %+v", s.m.plan, s.m.counters)
		}
		s.loadAll()
		s.fail(&Receive{}, Unavailable)
		s.survey(nil)
		if s.m.plan.Action != ActResume || s.m.counters.Losses != 1 {
			t.Fatalf("loads again: %+v, %+v", s.m.plan, s.m.counters)
		}
	}
	cfg := testConfig
	cfg.OnSlotLost = SlotLostStop
	s := tell(t, cfg)
	s.resume(confirmed)
	s.fail(&Receive{}, Unreadable)
	s.survey(nil)
	if w := s.m.Status(s.now).Waiting; s.m.plan.Action != ActRefuse || !strings.Contains(w.Why, "can't be read any more") || !strings.Contains(w.Hint, "on_slot_lost") {
		t.Fatalf("%+v, waiting %+v", s.m.plan, w)
	}
}

// toLoad goes from a decision to load to where rows are read.
func (s *story) toLoad() {
	s.t.Helper()
	s.saved()
	s.step(&SlotDropped{At: s.at()})
	s.step(&SlotCreated{At: s.at(), Consistent: 800, Tables: []Table{ordersTable}})
	s.saved()
}

func (s *story) loadAll() {
	s.t.Helper()
	s.toLoad()
	s.step(&Rows{At: s.at(), Done: true})
	s.step(&Appended{At: s.at(), Next: 11})
	s.step(&Appended{At: s.at(), Next: s.m.log.next})
	s.step(&TablesSaved{At: s.at()})
	s.saved()
	s.started()
}

// Each failed load leaves its records in the stream.
func TestFailedLoadsBackOff(t *testing.T) {
	interrupted := func(v *Survey) { v.Row.Phase = PhaseLoading }
	s := tell(t, testConfig)
	s.step(&Up{At: s.at()})
	waits := map[Class]time.Duration{}
	for _, class := range []Class{Unavailable, Denied} {
		for range 12 {
			s.survey(interrupted)
			s.toLoad()
			waits[class] = s.fail(&Load{}, class)
		}
	}
	if waits[Unavailable] != time.Minute || waits[Denied] != time.Hour {
		t.Fatalf("waits %v", waits)
	}
	s.survey(interrupted)
	s.loadAll()
	s.fail(&Receive{}, Unavailable)
	s.survey(interrupted)
	s.toLoad()
	if wait := s.fail(&Load{}, Denied); wait > time.Minute {
		t.Fatalf("waits %s after a load that ended", wait)
	}
	for range 12 {
		s.survey(interrupted)
		s.toLoad()
		s.step(&Refused{At: s.at(), Next: 99})
	}
	if wait := s.m.trouble.retryAt - s.now; wait != 3600_000 {
		t.Fatalf("waits %d ms after refused appends", wait)
	}
}

// A table new in the publication that can't be read is not voided, and named.
func TestUnreadableNewTable(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	lines := Table{Relation: Relation{OID: 9, Schema: "public", Name: "lines"}, Member: 6, NoSelect: true}
	server := goodSurvey().Server
	server.Publication.Tables = []Table{lines, ordersTable}
	s.step(&Inspected{At: s.at(), Server: server})
	s.wal(1000)
	w := s.m.Status(s.now).Warnings
	if s.m.stage != stStream || len(w) != 1 || !strings.Contains(w[0].Hint, `GRANT SELECT ON "public"."lines"`) {
		t.Fatalf("%s, warnings %+v", s.m.stage, w)
	}
	server.Publication = &Publication{Name: "pub", Tables: []Table{{Relation: lines.Relation, Member: 6}, ordersTable}}
	s.step(&Inspected{At: s.at(), Server: server})
	if s.m.stage != stSubCreate {
		t.Fatalf("%s", s.m.stage)
	}
	for range 12 {
		s.fail(&CreateSlot{}, Denied)
		s.now = s.m.tables.retryAt
		s.step(&Tick{At: s.at()})
	}
	s.fail(&CreateSlot{}, Denied)
	if wait := s.m.tables.retryAt - s.now; wait != 3600_000 {
		t.Fatalf("waits %d ms", wait)
	}
}

// Whatever makes the stream begin anew though it was complete counts, once.
func TestLossesCount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(v *Survey)
		want   int64
	}{
		"nothing":           {nil, 0},
		"interrupted":       {func(v *Survey) { v.Row.Phase = PhaseLoading }, 0},
		"first load":        {func(v *Survey) { v.Row, v.Server.Slot = nil, nil }, 0},
		"another system":    {func(v *Survey) { v.Server.SystemID = "8" }, 1},
		"another timeline":  {func(v *Survey) { v.Server.Timeline = 2 }, 1},
		"WAL ends early":    {func(v *Survey) { v.Server.Flush = 499 }, 1},
		"slot gone":         {func(v *Survey) { v.Server.Slot = nil }, 1},
		"slot lost":         {func(v *Survey) { v.Server.Slot.WALStatus = "lost" }, 1},
		"slot too old":      {func(v *Survey) { v.Server.Slot.Confirmed = 99 }, 1},
		"slot moved":        {func(v *Survey) { v.Row.Confirmed = 449 }, 1},
		"the log lost some": {func(v *Survey) { v.Log.Next = 9 }, 1},
	} {
		s := tell(t, testConfig)
		s.step(&Up{At: s.at()})
		s.survey(c.change)
		if c.want > 0 {
			s.fail(&SaveRow{}, Conflict)
			s.survey(c.change)
		}
		if got := s.m.Status(s.now).Losses; got != c.want || int64(strings.Count(s.text.String(), "Warn error=true")) != c.want {
			t.Errorf("%s: %d losses\n%s", name, got, s.text.String())
		}
	}
}

// A server that has more WAL and sends nothing is not one that streams.
func TestSilentServer(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.wal(900)
	server := goodSurvey().Server
	server.Publication.Tables = []Table{ordersTable}
	inspect := func(flush pos.LSN, after pos.Millis) Status {
		server.Flush = flush
		s.step(&Inspected{At: s.at(), Server: server})
		s.now += after
		return s.m.Status(s.now)
	}
	if st := inspect(900, 3600_000); st.State != "streaming" || st.LagMillis != 0 {
		t.Fatalf("idle: %+v", st)
	}
	if st := inspect(1000, 20_000); st.State != "streaming" {
		t.Fatalf("20 s: %+v", st)
	}
	if st := inspect(1100, 1); st.State != "silent" || st.LagMillis != 3_620_001 || !strings.Contains(st.Waiting.Why, "server silent since") {
		t.Fatalf("longer: %+v, waiting %+v", st, st.Waiting)
	}
	s.wal(950)
	if st := inspect(1200, 20_000); st.State != "streaming" {
		t.Fatalf("it comes nearer: %+v", st)
	}
	s.now++
	if st := s.m.Status(s.now); st.State != "silent" {
		t.Fatalf("and stops: %+v", st)
	}
	s.wal(1200)
	if st := s.m.Status(s.now + 3600_000); st.State != "streaming" || st.Waiting != nil {
		t.Fatalf("it is there: %+v", st)
	}
}

// While the log takes nothing the server is silent because we do not listen; its WAL is
// still looked at.
func TestStuckLog(t *testing.T) {
	cfg := testConfig
	cfg.BatchRecords = 1
	for _, stage := range []stage{stLook, stLoad} {
		s := tell(t, cfg)
		s.resume(confirmed)
		switch stage {
		case stLook:
			s.step(&Down{At: s.at()})
			s.step(&Up{At: s.at()})
		default:
			s.fail(&Receive{}, Unavailable)
			s.survey(func(v *Survey) { v.Row.Phase = PhaseLoading })
			s.toLoad()
			s.step(&Rows{At: s.at(), Lines: [][]byte{[]byte("1\tnew\t\\N\tx\n"), []byte("2\tnew\t\\N\tx\n")}})
		}
		for n := range 5 {
			s.now += 30_000
			s.step(&Tick{At: s.at()})
			if !strings.HasSuffix(strings.TrimSpace(s.text.String()), "Inspect") {
				t.Fatalf("%s: not looked at\n%s", stage, s.text.String())
			}
			server := goodSurvey().Server
			server.Flush = pos.LSN(10_000 * (n + 1))
			s.step(&Inspected{At: s.at(), Server: server})
			st := s.m.Status(s.now)
			if st.Retained != int64(server.Flush-server.Slot.Restart) || st.State == "silent" || len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0].Why, "keeps its WAL") {
				t.Fatalf("%s: %+v", stage, st)
			}
		}
	}
}

// A server that is told to stop waits for a connected receiver to confirm what it was
// sent. Where the log can't take that, or can't sync it, the connection is given up.
func TestStandingLogLetsTheServerGo(t *testing.T) {
	cfg := testConfig
	cfg.BatchRecords = 1
	for _, c := range []struct {
		name  string
		stand func(s *story)
	}{
		{"takes nothing", func(*story) {}},
		{"syncs nothing", func(s *story) {
			for n := range 3 {
				s.step(&Appended{At: s.at(), Next: pos.Offset(11 + n)})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := tell(t, cfg)
			s.resume(confirmed)
			s.now += 3600_000 // an idle log stands still without harm
			s.step(&Tick{At: s.at()})
			s.wal(600, begin(600), orders, insert("1"), insert("2"), insert("3"))
			c.stand(s)
			s.now += 14_999
			s.step(&Tick{At: s.at()})
			if st := s.m.Status(s.now); s.m.stage != stStream || len(st.Warnings) != 1 || st.State == "silent" {
				t.Fatalf("before: %s, %+v\n%s", s.m.stage, st, s.text.String())
			}
			s.now++
			s.step(&Tick{At: s.at()})
			if _, ok := s.last[0].(*CloseAll); !ok || s.m.stage != stWait {
				t.Fatalf("the connection is kept\n%s", s.text.String())
			}
			s.now += 200
			s.step(&Tick{At: s.at()})
			if _, ok := s.last[0].(*Look); !ok {
				t.Fatalf("the log is not waited for\n%s", s.text.String())
			}
			if w := s.m.Status(s.now).Waiting; w == nil || w.Until != 0 || !strings.Contains(w.Why, "without a replication connection") {
				t.Fatalf("waiting: %+v", w)
			}
		})
	}
}

// What a refused start waited for is over once the load begins.
func TestLoadClearsTheTrouble(t *testing.T) {
	s := tell(t, testConfig)
	s.step(&Up{At: s.at()})
	s.survey(func(v *Survey) { v.Server.Publication = nil })
	if w := s.m.Status(s.now).Waiting; w == nil {
		t.Fatal("a survey without a publication is no trouble")
	}
	s.now += 60_000
	s.step(&Tick{At: s.at()})
	s.survey(func(v *Survey) { v.Row, v.Server.Slot = nil, nil })
	s.toLoad()
	if st := s.m.Status(s.now); st.State != "loading" || st.Waiting != nil {
		t.Fatalf("state %s, waiting %+v", st.State, st.Waiting)
	}
}

// WAL without an event is confirmed seldom, but at once to a server that waits for it: one
// that is being stopped.
func TestAServerThatAsksIsNotKeptWaiting(t *testing.T) {
	saves := func(s *story, asked bool) bool {
		s.now += 1500
		s.step(&Received{At: s.at(), Messages: []Wal{{End: 600 + pos.LSN(s.now%100_000), Asked: asked}}})
		for _, e := range s.last {
			if _, ok := e.(*SaveRow); ok {
				return true
			}
		}
		return false
	}
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.now += 20_000
	if !saves(s, false) {
		t.Fatalf("idle WAL is not confirmed\n%s", s.text.String())
	}
	s.saved()
	if saves(s, false) {
		t.Fatalf("idle WAL is confirmed again after 1.5 s\n%s", s.text.String())
	}
	if !saves(s, true) {
		t.Fatalf("a server that asks is kept waiting\n%s", s.text.String())
	}
	s.saved()
	if saves(s, false) {
		t.Fatalf("what was asked once holds for ever\n%s", s.text.String())
	}
}

// Loads that fail in a row are tried ever more rarely: at once after the first, at the
// longest wait for anything else after the second, and every hour in the end.
func TestLoadsThatFailBackOff(t *testing.T) {
	m := &Machine{cfg: Config{RetryMax: time.Minute}}
	for i, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 32, 60, 60} {
		if got := m.loadBackoff(i); got != want*time.Minute {
			t.Errorf("after %d loads it waits %s, want %s", i, got, want*time.Minute)
		}
	}
	if got := m.loadBackoff(1000); got != time.Hour {
		t.Errorf("in the end it waits %s", got)
	}
}

// What was taken and is not written is behind: a full disk is lag, though the server has sent
// all and its commit was new when it came.
func TestWhatWaitsForTheDiskIsLag(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.now = 1_000_100 // a tenth of a second after the commit
	s.wal(610, begin(600), orders, insert("1"), commit(600, 610))
	s.now += 1000
	lag := func(want int64) {
		t.Helper()
		if st := s.m.Status(s.now); st.LagMillis != want {
			t.Errorf("the lag is %d ms, want %d", st.LagMillis, want)
		}
	}
	s.wal(720) // nothing more is behind that: how long it waits is not counted anew
	s.now += 60_000
	lag(61_000)
	s.step(&Appended{At: s.at(), Next: s.m.log.next})
	lag(61_000) // a crash would take it
	s.step(&Synced{At: s.at(), Next: s.m.log.next})
	s.wal(730)
	lag(0)
}

// A disk that syncs nothing for long has the marks thinned out. Of two commits the later one
// stands for both, or what is not written would be confirmed; it waits since the earlier came.
func TestMarksThatAreThinnedOutKeepTheOldestTime(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	took := func(from, to pos.LSN) {
		var messages []Message
		for i := from; i < to; i++ {
			b, c := begin(600+20*i), commit(600+20*i, 610+20*i)
			b.Micros, c.Micros = int64(s.now)*1000, int64(s.now)*1000 // just now: nothing but the disk is behind
			messages = append(messages, b, orders, insert("1"), c)
		}
		s.wal(590+20*to, messages...)
		s.step(&Appended{At: s.at(), Next: s.m.log.next})
	}
	var came []pos.Millis
	next := []pos.Offset{s.m.log.next} // behind so many commits
	for i := range pos.LSN(6) {
		s.now += 1000
		took(i, i+1)
		came, next = append(came, s.now), append(next, s.m.log.next)
	}
	s.now += 1000
	took(6, maxMarks+1)
	if n := len(s.m.confirm.marks); n != maxMarks/2+1 {
		t.Fatalf("%d marks: they were not thinned out", n)
	}
	for synced, oldest := range []int{0, 0, 2, 2, 4} {
		s.step(&Synced{At: s.at(), Next: next[synced]})
		if got, want := s.m.Status(s.now).LagMillis, int64(s.now-came[oldest]); got != want {
			t.Errorf("%d commits are synced, and the lag is %d ms, want %d", synced, got, want)
		}
	}
}

// What was done to slot or server between the look and the beginning of replication is seen before
// anything is read: the next look decides by it.
func TestTheSlotChangesBeforeReplicationBegins(t *testing.T) {
	for what, change := range map[string]func(h *Held){
		"moved on": func(h *Held) { h.Confirmed++ }, "moved back": func(h *Held) { h.Confirmed-- },
		"another server": func(h *Held) { h.SystemID = "8" }, "another timeline": func(h *Held) { h.Timeline++ },
		"put back": func(h *Held) { h.Flush-- }, "as it was": func(*Held) {}, "written to": func(h *Held) { h.Flush++ },
	} {
		s := tell(t, testConfig)
		s.step(&Up{At: s.at()})
		s.fail(&Look{}, Unavailable) // which is over once it streams
		s.survey(confirmed)
		held := s.held()
		change(&held)
		s.step(&Started{At: s.at(), Held: held})
		same := what == "as it was" || what == "written to"
		has := func(e Effect) bool {
			return slices.ContainsFunc(s.last, func(f Effect) bool { return reflect.TypeOf(e) == reflect.TypeOf(f) })
		}
		if st := s.m.Status(s.now); has(&Receive{}) != same || has(&CloseAll{}) == same || (st.State == "streaming") != same || (st.Waiting == nil) != same ||
			!same && !strings.Contains(st.Waiting.Why, "changed before replication began") {
			t.Errorf("%s: %+v\n%s", what, st, s.text.String())
		}
		if s.survey(confirmed); !same && s.m.stage != stStart {
			t.Errorf("%s: does not go on: %s", what, s.m.stage)
		}
	}
}
