package pgout

import (
	"fmt"
	"strings"

	"millrace/core/pos"
)

// Phase says how far a capture came, in its metadata row.
type Phase string

// The phases.
const (
	PhaseCreating  Phase = "creating"  // about to make the slot
	PhaseLoading   Phase = "loading"   // the slot exists; the load has not ended
	PhaseStreaming Phase = "streaming" // the load has ended, up to Event
)

// Row is the capture's metadata row. It is written before the act it announces.
type Row struct {
	Stream     pos.StreamID
	SystemID   string
	Timeline   int
	Slot       string
	Phase      Phase
	Consistent pos.LSN // the slot's consistent point
	// Event is E: the last record the log must hold, at least the last one before any
	// LSN that was confirmed.
	Event Mark
	// Confirmed is the highest LSN that was ever confirmed, or that was about to be; 0: not
	// known. A slot beyond it was moved by somebody else.
	Confirmed pos.LSN
	Revision  pos.Revision
}

// LogView is what the stream's local log says of itself.
type LogView struct {
	Next pos.Offset // the next offset
	// Born is where the log began when it began at the store's seam because the local
	// folder was lost; NoOffset otherwise.
	Born pos.Offset
}

// Survey is all that is known at (re)start.
type Survey struct {
	Row    *Row // nil: there is none
	Loaded []TableRow
	Tail   Tail
	Log    LogView
	Server Server
}

// OnSlotLost says what to do when the slot is gone.
type OnSlotLost string

// The choices.
const (
	SlotLostReload OnSlotLost = "reload" // void and load anew
	SlotLostStop   OnSlotLost = "stop"   // wait for the operator
)

// Action is what to do at start.
type Action uint8

// The actions.
const (
	ActRefuse Action = iota // wait: Why and Hint say for what
	ActFree                 // end the backend that holds our slot, then look again
	ActLoad                 // drop our slot, create it, void, load
	ActResume               // stream from At
)

// Decision is the outcome of Decide.
type Decision struct {
	Action Action
	Why    string // of a refusal or a load
	Hint   string // what to run
	Lost   string // not empty: confirmed events are gone from the log, and which
	Broke  bool   // ActLoad: the stream can't be continued though it was complete
	PID    int    // ActFree
	// DropOld is the slot of an earlier configuration, to be dropped with the load.
	DropOld string
	At      pos.LSN // ActResume: where START_REPLICATION begins
	// Resent: the server must resend the tail's transaction first.
	Resent bool
}

// pluginName is the output plugin whose messages this package reads.
const pluginName = "pgoutput"

// Decide is the table of what to do at (re)start, from top to bottom.
func Decide(cfg Config, s *Survey) Decision { return permitted(decide(cfg, s), &s.Server) }

// permitted refuses a load that would fail in the middle, before slot and stream are
// touched. Streaming takes no privileges.
func permitted(d Decision, s *Server) Decision {
	if d.Action != ActLoad {
		return d
	}
	if why, hint := unreadable(s.Role, s.Publication.Tables); why != "" {
		return refuse(fmt.Sprintf("%s; it is to be loaded: %s", why, d.Why), hint)
	}
	return d
}

func decide(cfg Config, s *Survey) Decision {
	if d, bad := refuseServer(cfg, &s.Server); bad {
		return d
	}
	row, slot := s.Row, s.Server.Slot
	if row == nil {
		if slot != nil {
			return refuse(fmt.Sprintf("replication slot %q exists and is not this capture's", cfg.Slot),
				fmt.Sprintf("configure another slot name, or drop it: SELECT pg_drop_replication_slot('%s')", cfg.Slot))
		}
		return Decision{Action: ActLoad, Why: "first load"}
	}
	if row.Slot != cfg.Slot {
		if slot != nil {
			return refuse(fmt.Sprintf("replication slot %q exists and is not this capture's, whose slot was %q", cfg.Slot, row.Slot),
				fmt.Sprintf("configure another slot name, or drop it: SELECT pg_drop_replication_slot('%s')", cfg.Slot))
		}
		return Decision{Action: ActLoad, Why: "the slot was renamed in the configuration", DropOld: row.Slot}
	}
	if slot != nil && slot.Plugin != pluginName {
		return refuse(fmt.Sprintf("replication slot %q is not a %s slot", cfg.Slot, pluginName), "configure another slot name")
	}
	if slot != nil && slot.Database != s.Server.Database {
		return refuse(fmt.Sprintf("replication slot %q belongs to database %q, not %q", cfg.Slot, slot.Database, s.Server.Database),
			"configure another slot name, or connect to the slot's database")
	}
	if slot != nil && slot.ActivePID != 0 {
		return Decision{Action: ActFree, PID: slot.ActivePID, Why: fmt.Sprintf("replication slot %q is held by backend %d", cfg.Slot, slot.ActivePID)}
	}
	if why, broke := mustReload(cfg, s); why != "" {
		return Decision{Action: ActLoad, Why: why, Broke: broke}
	}
	if slot == nil {
		return slotLost(cfg, fmt.Sprintf("replication slot %q is gone", cfg.Slot))
	}
	if slot.Lost() {
		return slotLost(cfg, fmt.Sprintf("replication slot %q is lost: the server removed WAL it needs", cfg.Slot))
	}
	return resume(s)
}

// refuseServer looks for what the server's owner must change first.
func refuseServer(cfg Config, s *Server) (Decision, bool) {
	ident := quoteIdent(cfg.Publication)
	switch {
	case s.WALLevel != "logical":
		return refuse(fmt.Sprintf("wal_level is %q, and capture needs logical", s.WALLevel),
			"run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL"), true
	case !s.Replication:
		return refuse(fmt.Sprintf("role %q may not replicate", s.Role),
			fmt.Sprintf("run ALTER ROLE %s REPLICATION", quoteIdent(s.Role))), true
	case s.Publication == nil:
		return refuse(fmt.Sprintf("publication %q does not exist in database %q", cfg.Publication, s.Database),
			fmt.Sprintf("run CREATE PUBLICATION %s FOR ALL TABLES, or FOR TABLE and the tables to capture", ident)), true
	case s.Publication.ViaRoot:
		return refuse(fmt.Sprintf("publication %q has publish_via_partition_root: truncate, attach and detach of a partition would not be seen", cfg.Publication),
			fmt.Sprintf("run ALTER PUBLICATION %s SET (publish_via_partition_root = false)", ident)), true
	}
	return Decision{}, false
}

// mustReload tells why the stream's content can't be continued, "" if it can, and
// whether that is because history broke.
func mustReload(cfg Config, s *Survey) (why string, broke bool) {
	row := s.Row
	switch {
	case row.Phase != PhaseStreaming:
		return fmt.Sprintf("the load was interrupted (phase %s)", row.Phase), false
	case row.Stream != cfg.Stream:
		return fmt.Sprintf("the stream is a new one (%s, before %s)", cfg.Stream, row.Stream), false
	case row.SystemID != s.Server.SystemID:
		return fmt.Sprintf("history broke: the server is another one (system id %s, before %s)", s.Server.SystemID, row.SystemID), true
	case row.Timeline != s.Server.Timeline:
		return fmt.Sprintf("history broke: the server is on timeline %d, before %d", s.Server.Timeline, row.Timeline), true
	// A commit record that begins at the WAL's end is not there.
	case s.Server.Flush <= s.newest():
		return fmt.Sprintf("history broke: the server's WAL ends at %s, and the stream holds what happened up to %s", s.Server.Flush, s.newest()), true
	}
	return "", false
}

// slotLost follows on_slot_lost.
func slotLost(cfg Config, why string) Decision {
	if cfg.OnSlotLost == SlotLostStop {
		return refuse(why, "events may be missing; set on_slot_lost = \"reload\" to void the stream and load anew")
	}
	return Decision{Action: ActLoad, Why: why, Broke: true}
}

// resume checks that the log still holds what was confirmed, and says where to begin.
func resume(s *Survey) Decision {
	row, tail, slot := s.Row, s.tail(), s.Server.Slot
	switch {
	case s.Log.Born.Valid() && row.Event.Offset < s.Log.Born:
		return Decision{Action: ActLoad, Why: "the local log was lost and began anew at the object store's seam",
			Lost: fmt.Sprintf("records beyond offset %s, which may include events from %s on", s.Log.Born, row.Event.Position)}
	case s.Log.Next <= row.Event.Offset || tail.Compare(row.Event.Position) < 0:
		return Decision{Action: ActLoad, Why: "the local log ends before the last confirmed event",
			Lost: fmt.Sprintf("events beyond %s (next offset %s) up to %s (offset %s)", tail, s.Log.Next, row.Event.Position, row.Event.Offset)}
	case slot.Confirmed < row.Consistent:
		return Decision{Action: ActLoad, Broke: true, Why: fmt.Sprintf("history broke: replication slot %q is at %s, before the point %s it was created at", slot.Name, slot.Confirmed, row.Consistent)}
	case row.Confirmed != 0 && slot.Confirmed > row.Confirmed:
		return Decision{Action: ActLoad, Why: fmt.Sprintf("replication slot %q was moved or made anew by somebody else", slot.Name),
			Lost: fmt.Sprintf("it is at %s, and %s was the last confirmed: what was committed between is not in the stream", slot.Confirmed, row.Confirmed)}
	case slot.Confirmed > tail.LSN && tail.LSN > row.Event.LSN:
		return Decision{Action: ActLoad, Why: fmt.Sprintf("replication slot %q was moved to %s by somebody else, past our last event", slot.Name, slot.Confirmed),
			Lost: fmt.Sprintf("events after %s up to LSN %s", tail, slot.Confirmed)}
	}
	return Decision{Action: ActResume, At: tail.LSN,
		Resent: tail.LSN >= row.Consistent && slot.Confirmed <= tail.LSN}
}

// tail is the position of the last record: found in the log, else E. E also speaks for
// the record at its own offset: after a load of no table that is an older load's.
func (s *Survey) tail() Position {
	switch {
	case s.Row == nil:
		return s.Tail.Position
	case s.Tail.Found && s.Tail.Offset != s.Row.Event.Offset:
		return s.Tail.Position
	}
	return s.Row.Event.Position
}

// newest is the newest LSN the stream holds anything of: a table loaded alone may be
// ahead of the last event.
func (s *Survey) newest() pos.LSN {
	newest := s.tail().LSN
	for _, t := range s.Loaded {
		if t.of(s.Row) {
			newest = max(newest, t.Consistent-1)
		}
	}
	return newest
}

func refuse(why, hint string) Decision { return Decision{Action: ActRefuse, Why: why, Hint: hint} }

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
