package probe

import "millrace/core/pos"

// RestoreTries is how often the marker is put for an operator while no answer comes in time. Each
// try is given more time than the one before.
const RestoreTries = 3

// restoring is the putting of the marker for operators. Who asks while it is under way is told
// what that comes to.
type restoring struct {
	asked pos.Millis
	tries int      // that were not answered in time
	ids   []uint64 // who asked; none: it is not under way
	put   bool     // by one of the tries
}

func (r *restoring) underWay() bool { return len(r.ids) > 0 }

// marking is why it is not known how it is with the store from the first try on.
const marking = "an operator claims the prefix, and it is not known yet what lies there"

// restore begins to put the marker, unless that is under way. A marker may be there long before its
// answer is, or before whoever waits for that ends: from now on a marker that is ours tells nothing of
// the store, until all tries have ended.
func (m *Machine) restore(id uint64, out []Effect) []Effect {
	r := &m.restoring
	if !r.underWay() {
		*r = restoring{asked: m.now, ids: r.ids}
		m.owned, m.status.Owned, m.refused = false, false, false
		m.claim = Answer{Why: marking}
		m.unsure(marking)
		out = append(out, Suspect{}, PutMarker{Within: GiveUp})
	}
	r.ids = append(r.ids, id)
	return out
}

// markerPut ends a try: with another one, or with a look at whose the prefix is.
func (m *Machine) markerPut(in MarkerPut, out []Effect) []Effect {
	r := &m.restoring
	if !r.underWay() {
		return out
	}
	m.suspect = m.suspect || in.Put
	r.put = r.put || in.Put
	if in.Late {
		r.tries++
		if left := r.asked.Add(GiveUp).Sub(m.now); r.tries < RestoreTries && left > 0 {
			return append(out, PutMarker{Tries: r.tries, Within: left})
		}
	}
	for _, id := range r.ids {
		out = append(out, Restored{ID: id, Put: r.put, Failed: in.Failed})
	}
	r.ids = r.ids[:0]
	// What was asked before tells nothing of what is there now.
	out = m.voidClaim(out)
	m.lookAnew()
	return out
}
