package node

import (
	"context"
	"errors"
	"fmt"
	"path"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/actors/reconciler"
	"millrace/core/pos"
	"millrace/supervision"
)

// untouchable are the processes that nobody may stop while the node runs, and why;
// needed are those that may be restarted, but not stay away.
var untouchable = map[string]admin.Error{
	"node": {
		What: "the node itself is stopped with SIGTERM, not through its surface", Hint: "send the process SIGTERM, or use its service manager",
	},
	"node/" + idAdmin: {
		What: "the admin surface can't stop itself: nothing could start it again", Hint: "restart the node if its listener must be opened anew",
	},
	"node/" + idLog: {
		What: "stopping the local logs would stop every stream of the node", Hint: "name one stream: node/log/STREAM; or restart the node",
	},
	"node/" + idKeeper: {
		What: "the keeper brings back what gives up; without it nothing would", Hint: "name the process that is in trouble",
	},
}

var needed = map[string]admin.Error{
	"node/" + idReaders: {
		What: "without it nobody could read from this node", Hint: "name one reader: node/readers/NUMBER; or millrace tree restart node/readers ends them all",
	},
	"node/" + idCaptures: {
		What: "nothing would start the captures again", Hint: "name one capture: node/captures/NAME; or millrace tree restart node/captures begins them all anew",
	},
	"node/" + idTiering: {
		What: "tiering is stopped by a wish that lasts, not for a moment", Hint: "millrace tiering disable stops it, until millrace tiering enable",
	},
}

// target finds the process at a path that an operator wants stopped or restarted, and
// its supervisor.
func (n *Node) target(at string) (child supervision.Node, sup supervision.Node, err error) {
	if at == "" {
		return child, sup, &admin.Error{Class: admin.Invalid, What: "which process is missing", Hint: "give its path, such as node/tiering/governor; millrace tree shows them"}
	}
	if child, err = n.find(at); err != nil {
		return child, sup, err
	}
	if refusal, ok := untouchable[child.Path]; ok {
		refusal.Class = admin.Forbidden
		return child, sup, &refusal
	}
	sup, err = n.find(path.Dir(child.Path))
	return child, sup, err
}

// Terminate implements admin.Node.
func (n *Node) Terminate(ctx context.Context, at string) error {
	child, sup, err := n.target(at)
	if err != nil {
		return err
	}
	if refusal, ok := needed[child.Path]; ok {
		refusal.Class = admin.Forbidden
		return &refusal
	}
	n.log.Warn().Str("path", child.Path).Msg("an operator terminates a process")
	return n.terminate(ctx, sup, child)
}

// terminate stops a child. That it has no process is no error.
func (n *Node) terminate(ctx context.Context, sup, child supervision.Node) error {
	if absent(child) {
		return nil
	}
	ran := child.Handle.Alive()
	if isFactory(sup) && factories[sup.ID] != "" {
		// Before it is: who keeps it may start it again at once, and that ends its being stopped.
		n.absences.add(child.Path, absence{why: byOperator, state: admin.StateStopped})
	}
	err := supervision.TerminateChild(ctx, sup.Handle, child.ID)
	n.excuse(child.Path)
	if errors.Is(err, supervision.ErrNotFound) && isFactory(sup) {
		return nil
	}
	if err != nil {
		n.absences.end(child.Path)
	} else if ran {
		n.stoppedByOperator(sup, child)
	}
	return operated("terminating", child.Path, err)
}

// Restart implements admin.Node.
func (n *Node) Restart(ctx context.Context, at string) error {
	if err := n.ambiguous(at); err != nil {
		return err
	}
	if factory, id, ok := n.kept(at); ok {
		n.log.Warn().Str("path", path.Join(factory.Path, id)).Msg("an operator starts a process")
		return operated("starting", path.Join(factory.Path, id), n.startAgain(ctx, factory.ID, id))
	}
	child, sup, err := n.target(at)
	if err != nil {
		return err
	}
	if child.Path == "node/"+idTiering && !n.wish.enabled() {
		return &admin.Error{Class: admin.Forbidden, What: "tiering is disabled", Hint: "millrace tiering enable starts it"}
	}
	if sup.ID == idReaders {
		return &admin.Error{Class: admin.Forbidden, What: "a reader belongs to the client that opened it", Hint: "terminate it; the client reads again"}
	}
	n.log.Warn().Str("path", child.Path).Msg("an operator restarts a process")
	if err := n.terminate(ctx, sup, child); err != nil {
		return err
	}
	if isFactory(sup) {
		return operated("starting", child.Path, n.startAgain(ctx, sup.ID, child.ID))
	}
	err = supervision.RestartChild(ctx, sup.Handle, child.ID)
	if errors.Is(err, supervision.ErrRunning) || errors.Is(err, supervision.ErrRestarting) {
		return nil
	}
	_, ended := errors.AsType[*actors.DeadError](err)
	if above := path.Base(path.Dir(sup.Path)); ended && factories[above] != "" {
		// Who keeps it found its supervisor empty: that has ended or does so now, for a new one.
		err = n.startAgain(ctx, above, sup.ID)
	}
	// What ran below it is started by those that keep it.
	n.poke()
	n.registry.Send(reconciler.Name(n.node()), reconciler.Poke{})
	return operated("starting", child.Path, err)
}

// kept finds what should run at a path and has left the tree: a stopped child of a factory
// leaves nothing behind, and is started by whoever keeps it.
func (n *Node) kept(at string) (factory supervision.Node, id string, ok bool) {
	here, rest := n.walk(at)
	if absent(here) {
		factory, err := n.find(path.Dir(here.Path))
		return factory, here.ID, err == nil && (rest == "" || rest == workers[factory.ID])
	}
	if !isFactory(here) || rest == "" {
		return here, "", false
	}
	below, ok := nextPart(rest, true, func(part string) bool {
		id = n.keptAs(here.ID, part)
		return id != ""
	})
	return here, id, ok && (below == "" || below == workers[here.ID])
}

// workers are the ids of the one worker of each child of a factory.
var workers = map[string]string{idLog: idWriter, idStreamFactory: idReplicaReader, idCaptures: idCapturer}

// keptAs returns the id under which a factory runs a stream or a capture, "" if there is
// no such thing.
func (n *Node) keptAs(factory, name string) string {
	switch factory {
	case idLog, idStreamFactory:
		id, _ := n.rows.search(name)
		return id.String()
	case idCaptures:
		for _, c := range n.cfg.Captures {
			if c.Name == name {
				return name
			}
		}
	}
	return ""
}

// startAgain starts a child of a factory as who keeps it does.
func (n *Node) startAgain(ctx context.Context, factory, id string) error {
	switch factory {
	case idLog:
		stream, err := n.ports.Metadata.Stream(ctx, pos.StreamID(id))
		if err != nil {
			return err
		}
		return n.startUnder(ctx, idLog, id, stream)
	case idCaptures:
		for _, c := range n.cfg.Captures {
			if c.Name == id {
				return n.startCapture(ctx, c)
			}
		}
		return fmt.Errorf("there is no capture %q in the configuration", id)
	}
	l, ok := n.hooks.Lookup(pos.StreamID(id))
	if !ok {
		return fmt.Errorf("the stream's log does not run")
	}
	err := n.startReplicaReader(ctx, l)
	if _, running := errors.AsType[*supervision.AlreadyStarted](err); running {
		return nil
	}
	return err
}

// operated tells the operator what became of it.
func operated(doing, at string, err error) error {
	if err == nil || errors.Is(err, actors.ErrIgnore) {
		return nil
	}
	what := doing + " " + at
	if port.IsNotFound(err) || errors.Is(err, supervision.ErrNotFound) {
		return &admin.Error{Class: admin.NotFound, What: what, Err: err}
	}
	return &admin.Error{Class: admin.Unavailable, What: what, Err: err, Hint: "its supervisor may be busy or starting: look at millrace tree and try again"}
}
