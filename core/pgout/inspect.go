package pgout

import (
	"fmt"
	"time"

	"millrace/core/pos"
)

// inspecting is when the server is looked at besides a start: while streaming, and in
// whatever waits for the log, since WAL grows meanwhile.
type inspecting struct {
	asked bool
	at    pos.Millis // when next

	// goal is the WAL end that an inspection found beyond what was received; 0: none. It
	// is to be reached, or come nearer, within quiet of since.
	goal  pos.LSN
	since pos.Millis
}

// quiet is how long a server that has more WAL may send nothing new.
const quiet = 20 * 1000 // milliseconds

// stalled is how long the log may take for an append before it is mentioned.
const stalled = 10 * 1000 // milliseconds

// inspects reports whether the stage calls for inspections.
func (s stage) inspects() bool { return s == stLook || s >= stLoad }

// dueAt is when the next inspection is due, 0 for none.
func (i *inspecting) dueAt(s stage) pos.Millis {
	if i.asked || !s.inspects() {
		return 0
	}
	return i.at
}

func (m *Machine) pumpInspect() {
	i := &m.inspect
	if due := i.dueAt(m.stage); due != 0 && m.now >= due {
		i.asked = true
		m.emit(&Inspect{Gen: m.gen})
	}
}

// inspected takes a look at the server made besides a start.
func (m *Machine) inspected(s *Server) {
	m.inspectedAgainAt()
	if m.stage != stStream && !m.stage.sub() {
		// What is decided by the survey stands until the next.
		m.server.Flush, m.server.Slot = s.Flush, s.Slot
		return
	}
	m.server = *s
	if i := &m.inspect; i.goal == 0 && s.Flush > m.stream.received {
		i.goal, i.since = s.Flush, m.now
	}
	m.publication(s)
}

func (m *Machine) inspectedAgainAt() {
	m.inspect.asked = false
	m.inspect.at = m.now.Add(m.cfg.InspectEvery)
}

// heard notes that the server sent something new: data, or a further WAL end.
func (m *Machine) heard() {
	i := &m.inspect
	i.since = m.now
	if m.stream.received >= i.goal {
		i.goal = 0
	}
}

// silentSince is since when a server that has more WAL has sent nothing new, 0 if it has
// not been silent for long. While we take nothing that is not its doing.
func (m *Machine) silentSince(now pos.Millis) pos.Millis {
	if m.stage != stStream || m.inspect.goal == 0 || !m.stream.asked || now-m.inspect.since <= quiet {
		return 0
	}
	return m.inspect.since
}

// silent says so.
func (m *Machine) silent(since pos.Millis) *Waiting {
	return &Waiting{Why: fmt.Sprintf("server silent since %s: its WAL ends at %s or later, and it has sent up to %s", since, m.inspect.goal, lsnText(m.stream.received)),
		Hint: "look at the server's walsender process: it may be stopped, starved or decoding a huge transaction"}
}

// letGoAfter is how long the log may stand still before the replication connection is
// given up.
const letGoAfter = 15 * time.Second

// letGo gives up the replication connection of a log that stands still: a server that is
// told to stop waits, without an end, until a connected receiver has confirmed all it was
// sent. The look that follows waits for the log, and the slot keeps what is owed.
func (m *Machine) letGo() {
	since := m.log.standsSince()
	if m.stage >= stStream && since != 0 && m.now-since >= pos.Millis(letGoAfter.Milliseconds()) {
		m.again(fmt.Sprintf("the stream's log has not taken records since %s; it is waited for without a replication connection, so that the server can be stopped", since))
	}
}

// stuck warns of a log that takes nothing.
func (m *Machine) stuck(now pos.Millis) (Warning, bool) {
	since := m.log.standsSince()
	if m.stage == stLook {
		since = m.lookedAt
	}
	if since == 0 || now-since <= stalled {
		return Warning{}, false
	}
	return Warning{Why: fmt.Sprintf("the stream's log has not taken records for %s: nothing can be confirmed meanwhile, so the server keeps its WAL and that grows",
		(time.Duration(now-since) * time.Millisecond).Round(time.Second)),
		Hint: "look at the stream's status: its disk may be full, or the metadata store or server away"}, true
}
