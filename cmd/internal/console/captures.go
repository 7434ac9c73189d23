package console

import (
	"strings"
	"time"

	"millrace/actors/admin"
	"millrace/core/pgout"
)

// Capture is one capture's card.
type Capture struct {
	Name, Stream string
	Chip         Chip
	Known        bool // it publishes a status
	pgout.Status
	Lag      time.Duration
	WAL      string // that the server keeps for the slot
	Until    string // when what is waited for is tried again
	Progress float64
	Rows     string // of the load
	Stage    string // the phase, and what is being done in it
}

func capture(s admin.StreamStatus, now time.Time) Capture {
	c := Capture{Name: s.Feed, Stream: s.Name}
	st, ok := s.Capture.(pgout.Status)
	if !ok {
		c.Chip = Chip{"not running", "bad"}
		return c
	}
	c.Known, c.Status, c.Name = true, st, s.Feed
	c.Lag, c.WAL = time.Duration(st.LagMillis)*time.Millisecond, size(st.Retained)
	c.Stage = string(st.Phase)
	if st.Doing != c.Stage {
		c.Stage = strings.TrimPrefix(c.Stage+": "+st.Doing, ": ")
	}
	switch st.State {
	case "streaming":
		c.Chip = Chip{"streaming", "good"}
	case "loading", "starting":
		c.Chip = Chip{st.State, "busy"}
	case "waiting":
		c.Chip = Chip{"waiting", "wait"}
	default:
		c.Chip = Chip{"waits for its log", "wait"}
	}
	if w := st.Waiting; w != nil && w.Until > 0 {
		if left := w.Until.Time().Sub(now); left > 0 {
			c.Until = "tried again in " + span(left)
		} else {
			c.Until = "being tried again"
		}
	}
	if l := st.Load; l != nil {
		c.Rows = thousands(l.Rows) + " rows"
		if l.Estimated > 0 {
			c.Progress = part(l.Rows, l.Estimated)
			c.Rows = thousands(l.Rows) + " of about " + thousands(l.Estimated) + " rows"
		}
	}
	return c
}
