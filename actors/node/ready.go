package node

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/supervision"
)

// Ready implements admin.Node: every part runs, every log that this node has, every
// capture streams, and tiering, if it is wanted, is up and brings every running log into
// the store. It goes by what is wanted, so that what has left the tree is missed.
func (n *Node) Ready() (bool, []string) {
	root := n.root.Load()
	if supervision.State(root) != "running" {
		return false, []string{notUp}
	}
	reasons := n.partReasons(root)
	if why := n.unknown.Load(); why != nil {
		reasons = append(reasons, "which streams this node has is not known yet: "+*why)
	}
	var store []string
	if n.wish.enabled() {
		store = n.storeReasons()
	}
	// While what all uploads run under is down, or the store is, that is the one reason.
	uploads := n.wish.enabled() && n.process(idTiering, idStreamFactory) != nil && len(store) == 0
	for _, row := range n.rows.all() {
		if why := n.logReason(row); why != "" {
			reasons = append(reasons, why)
		} else if uploads {
			reasons = append(reasons, n.uploadReasons(row)...)
		}
	}
	for _, c := range n.cfg.Captures {
		if why := n.captureReason(c.Name); why != "" {
			reasons = append(reasons, why)
		}
	}
	reasons = append(reasons, store...)
	slices.Sort(reasons)
	return len(reasons) == 0, reasons
}

// partReasons tells which of the processes that are not one stream's do not run. One that
// was ignored, and tiering while it is disabled, need not.
func (n *Node) partReasons(sup *actors.Handle) []string {
	var reasons []string
	for _, c := range supervision.Look(sup) {
		_, isFactory := factories[c.ID]
		switch {
		case c.State == "zombie":
		case c.State == "running" && c.Kind == supervision.Supervisor.String() && !isFactory:
			reasons = append(reasons, n.partReasons(c.Handle)...)
		case c.State == "running", c.State == "undefined" && !n.troubled(c):
		case c.State == "undefined":
			reasons = append(reasons, fmt.Sprintf("%s does not run: %s", strings.TrimPrefix(c.Path, "node/"), n.note(c)))
		default:
			reasons = append(reasons, fmt.Sprintf("%s is %s", strings.TrimPrefix(c.Path, "node/"), c.State))
		}
	}
	return reasons
}

// logReason tells why a stream's log does not run, "" if it does.
func (n *Node) logReason(row port.Stream) string {
	s, ok := n.published(kindWriter, row.ID.String()).(segment.Status)
	switch {
	case !ok:
		return n.stopped("log "+row.Name, path.Join("node", idLog, row.ID.String()))
	case s.State == "running":
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("log %s is %s: %s", row.Name, s.State, s.Why), ": ")
}

// uploadReasons tells why what a running log holds does not get into the object store.
func (n *Node) uploadReasons(row port.Stream) []string {
	what := "tiering of stream " + row.Name
	s, ok := n.published(kindReplicaReader, row.ID.String()).(upload.Status)
	switch {
	case !ok:
		return []string{n.stopped(what, path.Join("node", idTiering, idStreamFactory, row.ID.String()))}
	case s.Trouble() != "":
		return []string{what + " is " + s.Trouble()}
	}
	return nil
}

// captureReason tells why a capture does not stream and what to do, "" if it does.
func (n *Node) captureReason(name string) string {
	h, ok := n.registry.WhereIs(n.name(kindCapturer, name))
	if !ok {
		return n.stopped("capture "+name, path.Join("node", idCaptures, name))
	}
	if why := notStreaming(h.Status()); why != "" {
		return "capture " + name + ": " + why
	}
	return ""
}

// stopped says that the worker of a stream's or a capture's supervisor does not run, why
// as far as that is known, and who starts it again.
func (n *Node) stopped(what, at string) string {
	starts := factories[path.Base(path.Dir(at))]
	if s, away := n.absences.at(at); away {
		return fmt.Sprintf("%s is %s: %s; %s", what, s.state, s.why, starts)
	}
	sup, rest := n.walk(at)
	if rest != "" {
		return fmt.Sprintf("%s is stopped: %s", what, starts)
	}
	for _, worker := range supervision.Look(sup.Handle) {
		if worker.State != "undefined" && worker.State != "zombie" {
			return strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", what, worker.State, worker.LastExit), ": ")
		}
	}
	return fmt.Sprintf("%s is stopped: %s", what, starts)
}
