package node

import (
	"path"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/supervision"
)

// Events implements admin.Node.
func (n *Node) Events(since uint64) admin.Events {
	kept, next, more := n.events.Since(since)
	var list []admin.Event
	for _, e := range kept {
		list = append(list, n.shown(e))
	}
	shown := admin.Events{Boot: n.identity.Nonce.String(), Events: list, Next: next, More: more}
	if since > 0 && since <= next {
		shown.Missing = next - since - uint64(len(list))
	}
	return shown
}

const byOperator = "an operator stopped it"

// stoppedByOperator notes that an operator stopped a process. A supervisor does not report
// what it is asked to do.
func (n *Node) stoppedByOperator(sup, child supervision.Node) {
	e := supervision.Event{
		Time: time.Now(), Kind: supervision.EventChildTerminated, Path: sup.Path, ID: child.ID, Incarnation: child.Incarnation,
		Reason: actors.Reason{Kind: actors.Shutdown, Detail: byOperator},
	}
	if sup.Budget != nil {
		e.Restarts, e.Intensity = sup.Budget.Restarts, sup.Budget.Intensity
	}
	n.observe(e)
}

func (n *Node) shown(e supervision.Numbered) admin.Event {
	shown := admin.Event{
		Seq: e.Seq, Time: e.Time, Kind: e.Kind.String(), Path: path.Join(e.Path, e.ID), Incarnation: e.Incarnation,
		Trouble: e.Trouble(), Restarts: e.Restarts, Intensity: e.Intensity,
	}
	if _, id := factoryChild(shown.Path); id != "" {
		shown.Label = n.label(id)
	}
	switch e.Kind {
	case supervision.EventStarted, supervision.EventRestarted, supervision.EventIgnored:
	default:
		shown.Reason, shown.Stack = e.Reason.String(), e.Reason.Stack
	}
	return shown
}
