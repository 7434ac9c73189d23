package pgout

import (
	"fmt"
	"strings"
	"testing"

	"millrace/core/pos"
)

// story steps a machine and tells what it does, one effect a line.
type story struct {
	t    *testing.T
	m    *Machine
	now  pos.Millis
	text strings.Builder
	last []Effect
}

func tell(t *testing.T, cfg Config) *story {
	return &story{t: t, m: New(cfg), now: 1_000_000}
}

// gen is the generation of the newest effect that has one.
func (s *story) at() At { return At{Gen: s.m.gen, Now: s.now} }

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

func (s *story) step(in Input) {
	s.t.Helper()
	s.say("%s", strings.TrimPrefix(fmt.Sprintf("%T", in), "*pgout."))
	s.last = s.m.Step(in, nil)
	if err := s.m.Check(); err != nil {
		s.t.Fatalf("%v\n%s", err, s.text.String())
	}
	for _, e := range s.last {
		s.say("\t%s", describe(s.t, e))
	}
}

func describe(t *testing.T, e Effect) string {
	switch e := e.(type) {
	case *Append:
		text := fmt.Appendf(nil, "Append at %s", e.ExpectNext)
		for _, r := range e.Records {
			d, err := DecodeRecord(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			text = fmt.Appendf(text, "; %c %s %s", d.Op, d.Source.Table, d.Position())
			if d.Source.Snapshot != SnapshotNo {
				text = append(text, " "+string(d.Source.Snapshot)...)
			}
			if d.Source.Last {
				text = append(text, " last"...)
			}
		}
		return string(text)
	case *SaveRow:
		r := e.Row
		return fmt.Sprintf("SaveRow %s timeline %d consistent %s E %s at %s, confirmed %s, revision %s", r.Phase, r.Timeline, r.Consistent, r.Event.Position, r.Event.Offset, r.Confirmed, r.Revision)
	case *SaveTables:
		var keys []string
		for _, r := range e.Rows {
			keys = append(keys, fmt.Sprintf("%s from %s", r.Key, r.Consistent))
		}
		return "SaveTables " + strings.Join(keys, ", ")
	case *Load:
		return "Load " + e.Table.FullName()
	case *Timer:
		return fmt.Sprintf("Timer in %d ms", e.At-1_000_000)
	case *StartStream:
		return "StartStream at " + e.At.String()
	case *Confirm:
		return "Confirm " + e.LSN.String()
	case *WatchSync:
		return "WatchSync above " + e.From.String()
	case *DropSlots:
		return fmt.Sprintf("DropSlots %v", e.Names)
	case *CreateSlot:
		return fmt.Sprintf("CreateSlot temporary=%v", e.Temporary)
	case *EndBackend:
		return fmt.Sprintf("EndBackend %d", e.PID)
	case *Warn:
		return fmt.Sprintf("Warn error=%v %s", e.Error, e.Text)
	case *Look, *Receive, *Inspect, *CloseSnapshot, *CloseAll: // their name says it all
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", e), "*pgout.")
}

func (s *story) saved() {
	s.t.Helper()
	for _, e := range s.last {
		if save, ok := e.(*SaveRow); ok {
			row := save.Row
			row.Revision++
			s.step(&RowSaved{At: s.at(), Row: row})
			return
		}
	}
	s.t.Fatalf("no row is being saved\n%s", s.text.String())
}

func (s *story) wal(end pos.LSN, messages ...Message) {
	s.t.Helper()
	var batch []Wal
	for _, m := range messages {
		batch = append(batch, Wal{Data: Encode(nil, m), End: end})
	}
	if len(messages) == 0 {
		batch = []Wal{{End: end}}
	}
	s.step(&Received{At: s.at(), Messages: batch})
}

var ordersTable = Table{Relation: *orders, Member: 5}

func insert(id string) *Insert {
	return &Insert{Relation: orders.OID, New: Tuple{text(id), null, null, null}}
}

func begin(final pos.LSN) *Begin {
	return &Begin{Final: final, Micros: 1_000_000_000, XID: uint32(final)}
}
func commit(final, end pos.LSN) *Commit {
	return &Commit{Final: final, End: end, Micros: 1_000_000_000}
}

// resumed is a machine that streams behind goodSurvey, whose tail is replaced.
func (s *story) resume(change func(v *Survey)) {
	s.t.Helper()
	v := goodSurvey()
	v.Server.Publication.Tables = []Table{ordersTable}
	v.Loaded = []TableRow{{Key: TableKey("app", &ordersTable), Consistent: 100, Base: 100, SystemID: "7", Timeline: 1}}
	if change != nil {
		change(v)
	}
	s.step(&Up{At: s.at()})
	s.step(&Surveyed{At: s.at(), Survey: *v})
	s.started()
	s.step(&Synced{At: s.at(), Next: v.Log.Next})
}

// started begins replication, from a slot and a server that are as they were decided by.
func (s *story) started() {
	s.t.Helper()
	s.step(&Started{At: s.at(), Held: s.held()})
}

func (s *story) held() Held {
	return Held{SystemID: s.m.row.SystemID, Timeline: s.m.row.Timeline, Flush: s.m.server.Flush, Confirmed: s.m.confirm.confirmed}
}

// confirmed: the tail's transaction was confirmed, and does not come again.
func confirmed(v *Survey) { v.Server.Slot.Confirmed = 548 }

func (s *story) golden(name string) { golden(s.t, name, s.text.String()) }

func TestStoryFirstLoad(t *testing.T) {
	s := tell(t, testConfig)
	v := goodSurvey()
	v.Row, v.Server.Slot, v.Tail, v.Log.Next = nil, nil, Tail{}, 0
	s.step(&Up{At: s.at()})
	s.step(&Surveyed{At: s.at(), Survey: *v})
	s.step(&Synced{At: s.at(), Next: 0})
	s.step(&RowSaved{At: s.at(), Row: Row{Stream: "__app_1", SystemID: "7", Timeline: 1, Slot: "millrace", Phase: PhaseCreating, Event: Mark{Offset: -1}, Revision: 1}})
	s.step(&SlotDropped{At: s.at()})
	s.step(&SlotCreated{At: s.at(), Consistent: 0x200, Tables: []Table{ordersTable}})
	s.saved()
	s.step(&Rows{At: s.at(), Lines: [][]byte{[]byte("1\tnew\t\\N\tx\n"), []byte("2\tnew\t\\N\tx\n")}})
	s.step(&Rows{At: s.at(), Done: true})
	s.step(&Appended{At: s.at(), Next: 2})
	s.step(&Appended{At: s.at(), Next: 4})
	s.step(&TablesSaved{At: s.at()})
	s.saved()
	s.started()
	s.say("# a commit record may begin at the consistent point")
	s.wal(0x200, begin(0x200), orders, insert("3"), insert("4"))
	s.step(&Appended{At: s.at(), Next: 5})
	s.wal(0x230, commit(0x200, 0x230))
	s.step(&Appended{At: s.at(), Next: 6})
	s.say("# nothing is confirmed before it is fsynced, nor before E speaks for it")
	s.now += 2000
	s.step(&Synced{At: s.at(), Next: 6})
	s.saved()
	s.golden("first_load.txt")
}

func TestStoryResentTransaction(t *testing.T) {
	first := tell(t, testConfig)
	first.resume(confirmed)
	first.wal(600, begin(600), orders, insert("1"), insert("2"), insert("3"))
	var scan TailScan
	var bodies [][]byte
	for _, e := range first.last {
		if a, ok := e.(*Append); ok {
			for _, r := range a.Records {
				bodies = append(bodies, r.Body)
			}
		}
	}
	if _, err := scan.Chunk(10, bodies); err != nil || !scan.Tail.Open || scan.Tail.Offset != 12 {
		t.Fatalf("%+v, %v", scan.Tail, err)
	}
	crashed := func(v *Survey) { v.Tail, v.Log.Next = scan.Tail, 13 }
	s := tell(t, testConfig)
	s.say("# the log ends inside the transaction at %s", scan.Tail.Position)
	s.resume(crashed)
	s.wal(600, begin(600), orders, insert("1"), insert("2"))
	s.wal(600)
	s.wal(700, insert("3"), commit(600, 648))
	s.golden("resent.txt")

	for name, messages := range map[string][]Message{
		"another row":           {begin(600), orders, insert("1"), insert("9")},
		"a change is missing":   {begin(600), orders, insert("1"), commit(600, 648)},
		"another transaction":   {begin(601), orders, insert("1")},
		"another commit time":   {&Begin{Final: 600, Micros: 5, XID: 600}, orders, insert("1")},
		"another id":            {&Begin{Final: 600, Micros: 1_000_000_000, XID: 7}, orders, insert("1")},
		"another kind of event": {begin(600), orders, &Delete{Relation: orders.OID, OldKind: OldKey, Old: insert("1").New}},
	} {
		s := tell(t, testConfig)
		s.resume(crashed)
		s.wal(600, messages...)
		if s.m.broke == "" || s.m.stage != stWait {
			t.Errorf("%s: history did not break\n%s", name, s.text.String())
			continue
		}
		s.now += 1000
		s.step(&Tick{At: s.at()})
		v := goodSurvey()
		crashed(v)
		s.step(&Surveyed{At: s.at(), Survey: *v})
		if s.m.plan.Action != ActLoad {
			t.Errorf("%s: %+v", name, s.m.plan)
		}
	}
	s = tell(t, testConfig)
	s.resume(crashed)
	s.wal(601)
	if s.m.broke == "" {
		t.Errorf("a keepalive beyond the tail's transaction, which did not come\n%s", s.text.String())
	}
}

func TestStoryKeepalives(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.say("# re-reading old WAL: below what is confirmed")
	s.now += 2000
	s.wal(400)
	s.say("# inside a transaction")
	s.wal(600, begin(600), orders, insert("1"), insert("2"))
	s.wal(650)
	s.say("# behind it, but its records are not fsynced")
	s.wal(700, commit(600, 648))
	s.wal(710)
	s.step(&Appended{At: s.at(), Next: 12})
	s.step(&Appended{At: s.at(), Next: 13})
	s.step(&Synced{At: s.at(), Next: 12})
	s.step(&Synced{At: s.at(), Next: 13})
	s.saved()
	s.say("# nothing new in the log: the row is written now and then, for what is confirmed")
	s.now += 2000
	s.wal(90000)
	s.now += 8000
	s.step(&Tick{At: s.at()})
	s.saved()
	s.say("# an empty transaction")
	s.now += 10000
	s.wal(90100, begin(90010), commit(90010, 90058))
	s.saved()
	s.say("# much WAL")
	s.now += 1000
	s.wal(90058 + 16<<20)
	s.saved()
	s.golden("keepalives.txt")
}

func TestStoryTroubles(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.say("# the log does not end where it was thought to")
	s.wal(600, begin(600), orders, insert("1"), insert("2"), commit(600, 648))
	s.step(&Refused{At: s.at(), Next: 30})
	s.say("# late answers of the attempt are dropped")
	s.step(&Appended{At: At{Gen: s.m.gen - 1, Now: s.now}, Next: 12})
	s.now += 100
	s.step(&Tick{At: s.at()})
	s.say("# the server is away, again and again")
	for range 3 {
		s.step(&Failed{At: s.at(), Of: &Look{}, Fail: Failure{Class: Unavailable, Why: "connection refused"}})
		s.now += 60_000
		s.step(&Tick{At: s.at()})
	}
	s.say("# the slot is held")
	v := goodSurvey()
	confirmed(v)
	s.step(&Surveyed{At: s.at(), Survey: *v})
	s.step(&Failed{At: s.at(), Of: &StartStream{}, Fail: Failure{Class: SlotInUse, Why: "slot is active", PID: 77}})
	s.step(&Freed{At: s.at()})
	s.say("# the writer goes and comes")
	s.step(&Down{At: s.at()})
	s.step(&Up{At: s.at()})
	s.say("# bytes that make no sense")
	s.step(&Surveyed{At: s.at(), Survey: *v})
	s.started()
	s.step(&Received{At: s.at(), Messages: []Wal{{Data: []byte("Z")}}})
	s.golden("troubles.txt")
}

func TestStoryNewTable(t *testing.T) {
	lines := Table{Relation: Relation{OID: 9, Schema: "public", Name: "lines", Identity: IdentityFull, Columns: []Column{{Name: "id", Key: true, Type: oidInt4, Mod: -1}}}, Member: 6}
	row := func(id string) *Insert { return &Insert{Relation: 9, New: Tuple{text(id)}} }
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.say("# a table that was not loaded: its changes are dropped, and the server is looked at")
	s.wal(600, begin(600), &lines.Relation, row("1"), orders, insert("1"))
	server := goodSurvey().Server
	server.Flush = 648
	server.Publication = &Publication{Name: "pub", Tables: []Table{lines, ordersTable}}
	s.step(&Inspected{At: s.at(), Server: server})
	s.say("# it is loaded between two transactions")
	s.wal(648, row("2"), commit(600, 648), begin(700), row("3"), insert("2"), commit(700, 748), begin(1000), row("4"), commit(1000, 1048))
	s.step(&SlotCreated{At: s.at(), Consistent: 1000, Tables: []Table{lines, ordersTable}})
	s.step(&Appended{At: s.at(), Next: 11})
	s.step(&Rows{At: s.at(), Lines: [][]byte{[]byte("1\n"), []byte("2\n"), []byte("3\n")}, Done: true})
	s.step(&Appended{At: s.at(), Next: 12})
	s.step(&Appended{At: s.at(), Next: 16})
	s.saved()
	s.step(&TablesSaved{At: s.at()})
	s.golden("new_table.txt")
}

// A schema change is told once, in front of the first change under it, also when the
// transaction comes again.
func TestSchemaMessages(t *testing.T) {
	wide := *orders
	wide.Columns = append(append([]Column(nil), orders.Columns...), Column{Name: "extra", Type: oidInt4, Mod: -1})
	row := &Insert{Relation: orders.OID, New: Tuple{text("2"), null, null, null, text("5")}}
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.wal(600, begin(600), orders, insert("1"), &wide, row, row, commit(600, 648))
	s.step(&Appended{At: s.at(), Next: 15})
	s.wal(700, begin(700), &wide, row, commit(700, 748))
	want := []string{"Append at 10; m orders 0/258 0m; c orders 0/258 0; m orders 0/258 1m; c orders 0/258 1; c orders 0/258 2 last", "Append at 15; c orders 0/2BC 0 last"}
	for _, w := range want {
		if !strings.Contains(s.text.String(), w+"\n") {
			t.Errorf("no %q in\n%s", w, s.text.String())
		}
	}
}

// The same inputs give the same effects, byte for byte.
func TestDeterminism(t *testing.T) {
	run := func() string {
		s := tell(t, testConfig)
		s.resume(nil)
		for i := range 50 {
			lsn := pos.LSN(600 + 100*i)
			s.wal(lsn, begin(lsn), orders, insert("1"), insert("2"), commit(lsn, lsn+48))
			s.wal(lsn + 60)
			s.now += 500
			s.step(&Tick{At: s.at()})
			if i%3 == 0 {
				s.step(&Appended{At: s.at(), Next: s.m.log.next})
				s.step(&Synced{At: s.at(), Next: s.m.log.next})
			}
		}
		return s.text.String()
	}
	if a, b := run(), run(); a != b {
		t.Errorf("%s\n\nand then\n\n%s", a, b)
	}
}

// While an append is in flight and the batch behind it is full, nothing more is taken.
func TestBoundedInFlight(t *testing.T) {
	cfg := testConfig
	cfg.BatchRecords = 4
	s := tell(t, cfg)
	s.resume(confirmed)
	batch := []Message{begin(600), orders}
	for range 100 {
		batch = append(batch, insert("1"))
	}
	s.wal(600, batch...)
	for n := 10; n < 30; {
		if got := s.m.log.next - s.m.log.committed; got > 9 {
			t.Fatalf("%d records are in flight", got)
		}
		for _, e := range s.last {
			if _, ok := e.(*Receive); ok && s.m.stream.handled < len(s.m.stream.inbox) {
				t.Fatal("asks for more while the inbox is not empty")
			}
			if a, ok := e.(*Append); ok {
				n = int(a.ExpectNext) + len(a.Records)
			}
		}
		s.step(&Appended{At: s.at(), Next: pos.Offset(n)})
	}
}

// E can't be stored for a while: events flow on, nothing is confirmed past it.
func TestMetadataOutage(t *testing.T) {
	s := tell(t, testConfig)
	s.resume(confirmed)
	s.wal(600, begin(600), orders, insert("1"), commit(600, 648))
	s.step(&Appended{At: s.at(), Next: 12})
	s.now += 5000
	s.step(&Synced{At: s.at(), Next: 12})
	var save *SaveRow
	for _, e := range s.last {
		if e, ok := e.(*SaveRow); ok {
			save = e
		}
	}
	s.step(&Failed{At: s.at(), Of: save, Fail: Failure{Class: Unavailable, Why: "store down"}})
	s.wal(700, begin(700), insert("2"), commit(700, 748))
	if strings.Contains(s.text.String(), "Confirm") || !strings.Contains(s.text.String(), "Append at 12") || len(s.m.Status(s.now).Warnings) != 1 {
		t.Fatal(s.text.String())
	}
	s.now += 5000
	s.step(&Tick{At: s.at()})
	s.saved()
	if !strings.HasSuffix(s.text.String(), "Confirm 0/288\n") {
		t.Fatal(s.text.String())
	}
	s.step(&Failed{At: s.at(), Of: save, Fail: Failure{Class: Conflict, Why: "another revision"}})
	if s.m.stage != stWait {
		t.Fatalf("a conflict and still %s", s.m.stage)
	}
}
