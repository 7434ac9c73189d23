package pgout

import (
	"fmt"

	"millrace/core/pos"
)

// Counters count since the machine began.
type Counters struct {
	Events  int64 // records written
	Commits int64 // transactions received, empty ones included
	Losses  int64 // times that events were found lost, history broken or the slot gone
}

// Status is what a capture shows of itself. LSNs are in PostgreSQL's notation, times
// RFC 3339; "" where not known.
type Status struct {
	Name        string       `json:"name"`
	Stream      pos.StreamID `json:"stream"`
	State       string       `json:"state"` // writer_down, starting, loading, streaming, silent, waiting
	Doing       string       `json:"doing"`
	Phase       Phase        `json:"phase"` // of the metadata row
	Slot        string       `json:"slot"`
	Publication string       `json:"publication"`
	Confirmed   string       `json:"confirmed_lsn"`
	Received    string       `json:"received_lsn"`
	Event       string       `json:"event"`          // position of the newest event
	Retained    int64        `json:"retained_bytes"` // WAL the server keeps for the slot; -1 not known
	Events      int64        `json:"events"`
	Commits     int64        `json:"commits"`
	Losses      int64        `json:"losses"`
	LastCommit  string       `json:"last_commit"`
	LagMillis   int64        `json:"lag_ms"` // how old the last commit was when it was taken; while the stream stands still, its age; or how long one has waited for the disk
	InFlight    int64        `json:"in_flight_bytes"`
	Load        *LoadStatus  `json:"load,omitempty"`
	Waiting     *Waiting     `json:"waiting,omitempty"`
	Warnings    []Warning    `json:"warnings,omitempty"`
}

// LoadStatus is the progress of a load.
type LoadStatus struct {
	Table     string `json:"table"`
	Tables    int    `json:"tables"`
	Done      int    `json:"done"`
	Rows      int64  `json:"rows"`      // of the table
	Estimated int64  `json:"estimated"` // of the table; -1 not known
	Total     int64  `json:"total"`     // rows of all tables so far
}

// Waiting says what a capture waits for. Until is 0 when no time is set.
type Waiting struct {
	Until pos.Millis `json:"until"`
	Why   string     `json:"why"`
	Hint  string     `json:"hint,omitempty"`
}

// Warning is something that does not stop the capture.
type Warning struct {
	Why  string `json:"why"`
	Hint string `json:"hint,omitempty"`
}

// Status shows the machine at a time.
func (m *Machine) Status(now pos.Millis) Status {
	silent := m.silentSince(now)
	s := Status{Name: m.cfg.Name, Stream: m.cfg.Stream, State: m.state(), Doing: m.stage.String(), Phase: m.row.Phase, Slot: m.cfg.Slot,
		Publication: m.cfg.Publication, Confirmed: lsnText(m.confirm.confirmed), Received: lsnText(m.stream.received), Retained: -1,
		Events: m.counters.Events, Commits: m.counters.Commits, Losses: m.counters.Losses, InFlight: int64(m.log.flight + m.log.size), Warnings: m.warnings(now)}
	if !m.log.last.IsZero() {
		s.Event = m.log.last.String()
	}
	if slot := m.server.Slot; slot != nil && slot.Restart != 0 && m.server.Flush >= slot.Restart {
		s.Retained = int64(m.server.Flush - slot.Restart)
	}
	if m.lastCommit != 0 {
		s.LastCommit = m.lastCommit.String()
	}
	if m.asOf != 0 {
		s.LagMillis = m.stream.lag
		if silent != 0 || m.stage != stStream || m.stream.handled < len(m.stream.inbox) {
			s.LagMillis = max(0, int64(now-m.asOf))
		}
		s.LagMillis = max(s.LagMillis, m.confirm.waits(now))
	}
	if m.load.consistent != 0 && m.load.current < len(m.load.tables) {
		t := &m.load.tables[m.load.current]
		s.Load = &LoadStatus{Table: t.FullName(), Tables: len(m.load.tables), Done: m.load.current, Rows: m.load.rows, Estimated: t.Rows, Total: m.load.total}
	}
	if silent != 0 {
		s.State, s.Waiting = "silent", m.silent(silent)
	} else if m.trouble.why != "" {
		s.Waiting = &Waiting{Until: m.trouble.retryAt, Why: m.trouble.why, Hint: m.trouble.hint}
	}
	return s
}

func (m *Machine) state() string {
	switch m.stage {
	case stDown:
		return "writer_down"
	case stWait, stFree:
		return "waiting"
	case stLoad, stDrain, stSaveTables, stSaveStreaming:
		return "loading"
	case stStream, stSubCreate, stSubLoad, stSubDrain, stSubSaveEvent, stSubSaveTables:
		return "streaming"
	default:
		return "starting"
	}
}

func (m *Machine) warnings(now pos.Millis) []Warning {
	var all []Warning
	if w, ok := m.stuck(now); ok {
		all = append(all, w)
	}
	if m.confirm.why != "" {
		all = append(all, Warning{Why: "confirmations wait for the metadata store: " + m.confirm.why})
	}
	p := m.server.Publication
	if p == nil {
		return all
	}
	if why, hint := unreadable(m.server.Role, p.Tables); why != "" {
		all = append(all, Warning{Why: why + "; they can't be loaded", Hint: hint})
	}
	if len(p.Missing) > 0 {
		all = append(all, Warning{Why: fmt.Sprintf("publication %q does not publish %v: the stream will not show them", p.Name, p.Missing),
			Hint: fmt.Sprintf("run ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate')", quoteIdent(p.Name))})
	}
	for i := range p.Tables {
		if t := &p.Tables[i]; t.Keyless {
			all = append(all, Warning{Why: fmt.Sprintf("table %s has no replica identity: PostgreSQL refuses its updates and deletes", t.FullName()),
				Hint: fmt.Sprintf("give it a primary key, or run ALTER TABLE %s.%s REPLICA IDENTITY FULL", quoteIdent(t.Schema), quoteIdent(t.Name))})
		}
	}
	return all
}

func lsnText(l pos.LSN) string {
	if l.IsZero() {
		return ""
	}
	return l.String()
}
