package upload

import (
	"cmp"
	"time"

	"millrace/core/pos"
)

// Passes is how long what may pass by itself is no stall yet: a connection that broke, a
// store that restarts.
const Passes = 30 * time.Second

// stalls is when r, which is tried again, becomes a stall; 0: not unless it fails again.
func (r *retry) stalls() pos.Millis {
	switch {
	case r.fails == 0:
		return 0
	case r.stuck:
		return r.since
	}
	return r.since.Add(Passes)
}

func (r *retry) stalled(now pos.Millis) bool {
	at := r.stalls()
	return at != 0 && now >= at
}

// stalled is the lowest offset that does not get on, and why: NoOffset if all gets on, as far
// as is known yet. That the store is away stalls what waits for it, whichever was tried.
func (m *Machine) stalled() (pos.Offset, string) {
	now := m.at.Now
	if m.persist.stalled(now) {
		return m.stored.Next, "the manifest can't be persisted: " + m.persist.why
	}
	for _, f := range m.flights {
		switch {
		case m.anchor.stalled(now):
			return f.frag.First, "the stream can't be anchored: " + m.anchor.why
		case f.stalled(now), m.away.stalled(now):
			return f.frag.First, cmp.Or(f.why, m.away.why)
		}
	}
	if m.drain.stalled(now) {
		return m.drain.want, m.drain.why
	}
	return pos.NoOffset, ""
}

// wakeStalled asks for a Tick when something becomes a stall: it is to be shown then, also if
// nothing else happens.
func (m *Machine) wakeStalled(earliest func(pos.Millis)) {
	at := func(r *retry) {
		if t := r.stalls(); t > m.at.Now {
			earliest(t)
		}
	}
	at(&m.persist.retry)
	at(&m.drain.retry)
	at(&m.away)
	for _, f := range m.flights {
		at(&f.retry)
	}
}

// hindrance is why the stream does not get on at this moment, stall or not; "" if nothing
// has failed since something got on.
func (m *Machine) hindrance() string {
	if _, why := m.stalled(); why != "" {
		return why
	}
	return cmp.Or(m.persist.why, m.away.why)
}
