package pgout

import (
	"strings"
	"testing"

	"millrace/core/pos"
)

var testConfig = Config{Name: "app", Stream: "__app_1", Slot: "millrace", Publication: "pub"}

// goodSurvey is a capture that streams: E is the last record.
func goodSurvey() *Survey {
	last := Mark{Position: Position{LSN: 500, Seq: 2}, Offset: 9}
	return &Survey{
		Row:  &Row{Stream: "__app_1", SystemID: "7", Timeline: 1, Slot: "millrace", Phase: PhaseStreaming, Consistent: 100, Event: last, Revision: 4},
		Tail: Tail{Found: true, Mark: last}, Log: LogView{Next: 10, Born: pos.NoOffset},
		Server: Server{SystemID: "7", Timeline: 1, Version: 150018, Flush: 900, WALLevel: "logical", Database: "app", Role: "millrace", Replication: true,
			Slot:        &Slot{Name: "millrace", Plugin: "pgoutput", Database: "app", WALStatus: "reserved", Restart: 400, Confirmed: 450},
			Publication: &Publication{Name: "pub"}},
	}
}

// decisions is the table of the design, row by row, and the edges of each row.
var decisions = map[string]struct {
	change func(cfg *Config, s *Survey)
	want   Action
	says   string // part of why, hint and loss
	at     pos.LSN
	resent bool
}{
	"nothing is wrong": {func(*Config, *Survey) {}, ActResume, "", 500, true},

	"no row, no slot":        {func(_ *Config, s *Survey) { s.Row, s.Server.Slot = nil, nil }, ActLoad, "first load", 0, false},
	"no row, a slot":         {func(_ *Config, s *Survey) { s.Row = nil }, ActRefuse, "is not this capture's; configure another slot name, or drop it: SELECT pg_drop_replication_slot('millrace')", 0, false},
	"no row, an active slot": {func(_ *Config, s *Survey) { s.Row, s.Server.Slot.ActivePID = nil, 7 }, ActRefuse, "is not this capture's", 0, false},

	"phase creating, no slot": {func(_ *Config, s *Survey) { s.Row.Phase, s.Server.Slot = PhaseCreating, nil }, ActLoad, "interrupted (phase creating)", 0, false},
	"phase creating, a slot":  {func(_ *Config, s *Survey) { s.Row.Phase = PhaseCreating }, ActLoad, "interrupted (phase creating)", 0, false},
	"phase loading":           {func(_ *Config, s *Survey) { s.Row.Phase = PhaseLoading }, ActLoad, "interrupted (phase loading)", 0, false},
	"phase loading, active":   {func(_ *Config, s *Survey) { s.Row.Phase, s.Server.Slot.ActivePID = PhaseLoading, 7 }, ActFree, "held by backend 7", 0, false},

	"another system":   {func(_ *Config, s *Survey) { s.Server.SystemID, s.Server.Slot = "8", nil }, ActLoad, "history broke: the server is another one", 0, false},
	"another timeline": {func(_ *Config, s *Survey) { s.Server.Timeline = 2 }, ActLoad, "history broke: the server is on timeline 2", 0, false},
	"another system and stop on a lost slot": {func(cfg *Config, s *Survey) {
		s.Server.SystemID, s.Server.Slot, cfg.OnSlotLost = "8", nil, SlotLostStop
	}, ActLoad, "history broke", 0, false},
	"WAL ends before the tail": {func(_ *Config, s *Survey) { s.Server.Flush = 499 }, ActLoad, "history broke: the server's WAL ends at 0/1F3", 0, false},
	"WAL ends before a table that was loaded alone": {func(_ *Config, s *Survey) {
		s.Loaded = []TableRow{{Consistent: 901, Base: 100, SystemID: "7", Timeline: 1}}
	}, ActLoad, "history broke: the server's WAL ends", 0, false},
	"WAL ends before a table of an older load": {func(_ *Config, s *Survey) {
		s.Loaded = []TableRow{{Consistent: 901, Base: 99, SystemID: "7", Timeline: 1}}
	}, ActResume, "", 500, true},
	"WAL ends behind the tail":                 {func(_ *Config, s *Survey) { s.Server.Flush = 501 }, ActResume, "", 500, true},
	"WAL ends at the tail":                     {func(_ *Config, s *Survey) { s.Server.Flush = 500 }, ActLoad, "history broke", 0, false},
	"WAL ends before E and the log is trimmed": {func(_ *Config, s *Survey) { s.Tail = Tail{}; s.Server.Flush = 499 }, ActLoad, "history broke", 0, false},

	"slot gone":          {func(_ *Config, s *Survey) { s.Server.Slot = nil }, ActLoad, `"millrace" is gone`, 0, false},
	"slot lost":          {func(_ *Config, s *Survey) { s.Server.Slot.WALStatus = "lost" }, ActLoad, `"millrace" is lost`, 0, false},
	"slot unreserved":    {func(_ *Config, s *Survey) { s.Server.Slot.WALStatus = "unreserved" }, ActResume, "", 500, true},
	"slot gone and stop": {func(cfg *Config, s *Survey) { s.Server.Slot, cfg.OnSlotLost = nil, SlotLostStop }, ActRefuse, "on_slot_lost", 0, false},

	"log ends before E": {func(_ *Config, s *Survey) {
		s.Log.Next, s.Tail.Mark = 9, Mark{Position: Position{LSN: 500, Seq: 1}, Offset: 8}
	}, ActLoad, "ends before the last confirmed event; events beyond 0/1F4 1 (next offset 9) up to 0/1F4 2 (offset 9)", 0, false},
	"tail below E at a later offset": {func(_ *Config, s *Survey) {
		s.Log.Next, s.Tail.Mark = 12, Mark{Position: Position{LSN: 499, Seq: 8}, Offset: 11}
	}, ActLoad, "ends before the last confirmed event", 0, false},
	"log empty and E says so":      {func(_ *Config, s *Survey) { s.Tail = Tail{} }, ActResume, "", 500, true},
	"born at the seam, after E":    {func(_ *Config, s *Survey) { s.Log.Born, s.Log.Next, s.Tail = 10, 10, Tail{} }, ActLoad, "local log was lost", 0, false},
	"born at the seam, before E":   {func(_ *Config, s *Survey) { s.Log.Born = 9 }, ActResume, "", 500, true},
	"born at the seam, far before": {func(_ *Config, s *Survey) { s.Log.Born = 3 }, ActResume, "", 500, true},

	"tail above E": {func(_ *Config, s *Survey) { s.Log.Next, s.Tail.Mark = 20, Mark{Position{LSN: 700}, 19} }, ActResume, "", 700, true},
	"tail above E, slot moved past it": {func(_ *Config, s *Survey) {
		s.Log.Next, s.Tail.Mark, s.Server.Slot.Confirmed = 20, Mark{Position{LSN: 700}, 19}, 701
	}, ActLoad, "moved to 0/2BD by somebody else", 0, false},
	"slot at the last confirmed": {func(_ *Config, s *Survey) { s.Row.Confirmed = 450 }, ActResume, "", 500, true},
	"slot beyond the last confirmed": {func(_ *Config, s *Survey) { s.Row.Confirmed = 449 }, ActLoad,
		"was moved or made anew by somebody else; it is at 0/1C2, and 0/1C1 was the last confirmed", 0, false},
	"slot beyond the last confirmed, which is not known": {confirmedAt(548, 0), ActResume, "", 500, false},
	"slot made anew beyond E, which is the tail":         {confirmedAt(600, 548), ActLoad, "made anew by somebody else", 0, false},

	"a table not readable and nothing to load": {unreadableTable(Table{NoSelect: true}), ActResume, "", 500, true},
	"a table without SELECT": {whileLoading(unreadableTable(Table{NoSelect: true})), ActRefuse,
		`role "millrace" can't read all rows of published tables: shop.Orders; it is to be loaded: the load was interrupted (phase loading); run GRANT SELECT ON "shop"."Orders" TO "millrace"`, 0, false},
	"a schema without USAGE": {whileLoading(unreadableTable(Table{NoUsage: true})), ActRefuse, `run GRANT USAGE ON SCHEMA "shop" TO "millrace"`, 0, false},
	"hidden by row security": {whileLoading(unreadableTable(Table{RowSecurity: true})), ActRefuse, `run ALTER ROLE "millrace" BYPASSRLS`, 0, false},
	"first load, no SELECT": {func(cfg *Config, s *Survey) {
		unreadableTable(Table{NoSelect: true})(cfg, s)
		s.Row, s.Server.Slot = nil, nil
	}, ActRefuse, "GRANT SELECT", 0, false},
	"neither USAGE nor SELECT": {whileLoading(unreadableTable(Table{NoUsage: true, NoSelect: true})), ActRefuse, `TO "millrace"; GRANT SELECT ON`, 0, false},

	"slot is behind its creation": {func(_ *Config, s *Survey) { s.Server.Slot.Confirmed = 99 }, ActLoad, "history broke: replication slot", 0, false},
	"E confirmed":                 {func(_ *Config, s *Survey) { s.Server.Slot.Confirmed = 548 }, ActResume, "", 500, false},
	"load is the tail": {func(_ *Config, s *Survey) {
		s.Row.Consistent, s.Server.Slot.Confirmed = 501, 501
	}, ActResume, "", 500, false},
	"a load of no table": {func(_ *Config, s *Survey) {
		s.Row.Event = Mark{Position{LSN: 99, Seq: -1}, 9}
	}, ActResume, "", 99, false},

	"slot held":                   {func(_ *Config, s *Survey) { s.Server.Slot.ActivePID = 7 }, ActFree, "held by backend 7", 0, false},
	"another plugin":              {func(_ *Config, s *Survey) { s.Server.Slot.Plugin = "wal2json" }, ActRefuse, "is not a pgoutput slot", 0, false},
	"another database":            {func(_ *Config, s *Survey) { s.Server.Slot.Database = "x" }, ActRefuse, `belongs to database "x"`, 0, false},
	"another stream":              {func(cfg *Config, _ *Survey) { cfg.Stream = "__app_2" }, ActLoad, "the stream is a new one", 0, false},
	"slot renamed":                {func(cfg *Config, s *Survey) { cfg.Slot, s.Server.Slot = "new", nil }, ActLoad, "renamed", 0, false},
	"slot renamed to a taken one": {func(cfg *Config, _ *Survey) { cfg.Slot = "new" }, ActRefuse, `"new" exists and is not this capture's`, 0, false},

	"wal_level":      {func(_ *Config, s *Survey) { s.Server.WALLevel = "replica" }, ActRefuse, "ALTER SYSTEM SET wal_level = 'logical'", 0, false},
	"role":           {func(_ *Config, s *Survey) { s.Server.Replication = false }, ActRefuse, `ALTER ROLE "millrace" REPLICATION`, 0, false},
	"no publication": {func(_ *Config, s *Survey) { s.Server.Publication = nil }, ActRefuse, `CREATE PUBLICATION "pub" FOR ALL TABLES`, 0, false},
	"via root":       {func(_ *Config, s *Survey) { s.Server.Publication.ViaRoot = true }, ActRefuse, `ALTER PUBLICATION "pub" SET (publish_via_partition_root = false)`, 0, false},
}

func confirmedAt(slot, row pos.LSN) func(*Config, *Survey) {
	return func(_ *Config, s *Survey) { s.Server.Slot.Confirmed, s.Row.Confirmed = slot, row }
}

func unreadableTable(t Table) func(*Config, *Survey) {
	t.Relation = Relation{OID: 3, Schema: "shop", Name: "Orders"}
	return func(_ *Config, s *Survey) { s.Server.Publication.Tables = []Table{ordersTable, t} }
}

func whileLoading(change func(*Config, *Survey)) func(*Config, *Survey) {
	return func(cfg *Config, s *Survey) { change(cfg, s); s.Row.Phase = PhaseLoading }
}

func TestDecide(t *testing.T) {
	for name, c := range decisions {
		t.Run(name, func(t *testing.T) {
			cfg, s := testConfig, goodSurvey()
			c.change(&cfg, s)
			d := Decide(cfg, s)
			said := d.Why + "; " + d.Hint + d.Lost
			if d.Action != c.want || !strings.Contains(said, c.says) || d.Action == ActResume && (d.At != c.at || d.Resent != c.resent) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestDecideDropsTheRenamedSlot(t *testing.T) {
	cfg, s := testConfig, goodSurvey()
	cfg.Slot, s.Server.Slot = "new", nil
	if d := Decide(cfg, s); d.DropOld != "millrace" {
		t.Errorf("%+v", d)
	}
}

func TestTailScan(t *testing.T) {
	p := &pen{maxValue: 100, room: maxRecord}
	record := func(lsn pos.LSN, seq int64, last bool, snapshot Snapshot) []byte {
		src := source{at: Position{LSN: lsn, Seq: seq}, snapshot: snapshot}
		return p.row(OpCreate, orders, OldNone, nil, Tuple{text("1"), null, null, null}, src, 1).seal(nil, last)
	}
	for name, c := range map[string]struct {
		chunk [][]byte
		open  bool
		held  int
	}{
		"inside a transaction": {[][]byte{record(1, 0, true, SnapshotNo), record(2, 0, false, SnapshotNo), record(2, 1, false, SnapshotNo)}, true, 2},
		"at an end":            {[][]byte{record(2, 0, false, SnapshotNo), record(2, 1, true, SnapshotNo)}, false, 2},
		"inside a load":        {[][]byte{record(2, 0, true, SnapshotNo), record(2, 1, false, SnapshotYes)}, false, 1},
		"one":                  {[][]byte{record(2, 1, true, SnapshotNo)}, false, 1},
	} {
		var s TailScan
		if more, err := s.Chunk(100, nil); err != nil || !more {
			t.Fatalf("an empty chunk: %v, %v", more, err)
		}
		more, err := s.Chunk(50, c.chunk)
		want := Mark{Position{LSN: 2, Seq: 1}, 50 + pos.Offset(len(c.chunk)-1)}
		if err != nil || more || !s.Tail.Found || s.Tail.Mark != want || s.Tail.Open != c.open || len(s.Tail.Held) != c.held {
			t.Errorf("%s: %+v, %v, %v", name, s.Tail, more, err)
		}
	}
	var s TailScan
	if _, err := s.Chunk(7, [][]byte{[]byte("somebody's data")}); err == nil || !strings.Contains(err.Error(), "offset 7") || strings.Contains(err.Error(), "data\"") {
		t.Errorf("a foreign record: %v", err)
	}
}
