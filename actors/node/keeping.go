package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/actors"
	"millrace/actors/keeper"
	"millrace/actors/port"
	"millrace/core/declare"
	"millrace/core/keep"
	"millrace/core/pos"
	"millrace/core/settings"
	"millrace/supervision"
)

// look tells the keeper what this node's configuration and metadata want to run
// here, and what does.
func (n *Node) look(ctx context.Context) (wanted, running []keep.Item, err error) {
	wanted, err = n.wanted(ctx)
	switch {
	case err == nil:
		n.unknown.Store(nil)
	case n.unknown.Load() != nil: // what was once known stays known
		why := err.Error()
		n.unknown.Store(&why)
	}
	return wanted, n.running(), err
}

func (n *Node) wanted(ctx context.Context) (wanted []keep.Item, err error) {
	select {
	case <-n.standing:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if n.wish.enabled() {
		wanted = append(wanted, keep.Item{Kind: keep.Tiering})
	}
	for _, c := range n.cfg.Captures {
		if _, err := n.ensureStream(ctx, c.Stream, nil); err != nil {
			return nil, fmt.Errorf("capture %s: %w", c.Name, err)
		}
		wanted = append(wanted, keep.Item{Kind: keep.Capture, ID: c.Name})
	}
	streams, err := n.ports.Metadata.Streams(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range streams {
		n.learn(s)
		if s.Phase != port.PhaseDeleting {
			wanted = append(wanted, keep.Item{Kind: keep.Writer, ID: s.ID.String()})
		}
	}
	return wanted, nil
}

// running lists what has a process, whatever that is doing: the tree of tiering, and who
// holds a name. A supervisor whose worker was stopped is not what is wanted.
func (n *Node) running() []keep.Item {
	var items []keep.Item
	if n.process(idTiering) != nil {
		items = append(items, keep.Item{Kind: keep.Tiering})
	}
	for kind, held := range map[keep.Kind]string{keep.Writer: kindWriter, keep.Capture: kindCapturer} {
		for _, name := range n.registry.Names(held) {
			items = append(items, keep.Item{Kind: kind, ID: name.ID})
		}
	}
	return items
}

// start starts what the keeper found missing.
func (n *Node) start(ctx context.Context, item keep.Item) error {
	var err error
	switch item.Kind {
	case keep.Tiering:
		err = supervision.RestartChild(ctx, n.root.Load(), idTiering)
		if errors.Is(err, supervision.ErrRunning) || errors.Is(err, supervision.ErrRestarting) {
			return nil
		}
	case keep.Writer:
		var stream port.Stream
		if stream, err = n.ports.Metadata.Stream(ctx, pos.StreamID(item.ID)); err == nil {
			err = n.startUnder(ctx, idLog, item.ID, stream)
		}
	case keep.Capture:
		for _, c := range n.cfg.Captures {
			if c.Name == item.ID {
				err = n.startCapture(ctx, c)
			}
		}
	}
	if errors.Is(err, actors.ErrIgnore) {
		return nil
	}
	return err
}

// capture is what a capturer is started with.
type capture struct {
	settings.Capture
	stream pos.StreamID
}

func (n *Node) startCapture(ctx context.Context, c settings.Capture) error {
	stream, err := n.ports.Metadata.StreamByName(ctx, c.Stream)
	if err != nil {
		return err
	}
	return n.startUnder(ctx, idCaptures, c.Name, capture{Capture: c, stream: stream.ID})
}

// startUnder starts a child of one of the root's factories. That it runs is no error.
func (n *Node) startUnder(ctx context.Context, factory, id string, arg any) error {
	err := startOne(ctx, n.process(factory), id, arg)
	if _, running := errors.AsType[*supervision.AlreadyStarted](err); running {
		return nil
	}
	return err
}

// startOne starts a child of a factory, a supervisor around one worker. One that is there
// and empty, since its worker was stopped for itself, gives way to a new one.
func startOne(ctx context.Context, factory *actors.Handle, id string, arg any) error {
	if factory == nil {
		return errors.New("the supervisor above it does not run")
	}
	_, err := supervision.StartChild(ctx, factory, id, arg)
	there, running := errors.AsType[*supervision.AlreadyStarted](err)
	if !running || !isEmpty(there.Handle) {
		return err
	}
	if err := supervision.TerminateChild(ctx, factory, id); err != nil && !errors.Is(err, supervision.ErrNotFound) {
		return err
	}
	_, err = supervision.StartChild(ctx, factory, id, arg)
	return err
}

// isEmpty reports whether a supervisor has no process below it, and will start none.
func isEmpty(sup *actors.Handle) bool {
	return !slices.ContainsFunc(supervision.Look(sup), func(c supervision.Node) bool { return c.State != "undefined" && c.State != "zombie" })
}

// process returns the process at the end of a path of ids below the root, nil if it
// does not run.
func (n *Node) process(ids ...string) *actors.Handle { return supervision.Find(n.root.Load(), ids...) }

// ensureStream returns the stream of that name, which it creates if there is none.
func (n *Node) ensureStream(ctx context.Context, name string, arguments map[string]string) (port.Stream, error) {
	found, err := n.ports.Metadata.StreamByName(ctx, name)
	if !port.IsNotFound(err) {
		return found, err
	}
	created, err := n.createStream(ctx, name, arguments)
	if port.IsConflict(err) || port.ClassOf(err) == port.UnknownOutcome {
		return n.ports.Metadata.StreamByName(ctx, name)
	}
	return created, err
}

func (n *Node) createStream(ctx context.Context, name string, arguments map[string]string) (port.Stream, error) {
	if err := pos.CheckStreamName(name); err != nil {
		return port.Stream{}, err
	}
	if _, err := declare.Parse(arguments); err != nil {
		return port.Stream{}, err
	}
	now := time.Now()
	return n.ports.Metadata.CreateStream(ctx, port.Stream{
		ID: pos.NewStreamID(name, now.UnixNano()), Name: name, Arguments: arguments,
		Created: pos.MillisOf(now), Phase: port.PhaseNew, Members: []port.Member{{Node: n.node()}},
	})
}

// poke makes the keeper look at once.
func (n *Node) poke() {
	n.registry.Send(keeper.Name(n.node()), keeper.Poke{})
}

// excuse tells the keeper that an operator stopped what is, or runs under, a process: its
// next start is no sign that the one before did not last.
func (n *Node) excuse(at string) {
	var items []keep.Item
	of := func(kind keep.Kind, id string) { items = append(items, keep.Item{Kind: kind, ID: id}) }
	switch factory, id := factoryChild(at); {
	case at == "node/"+idTiering:
		of(keep.Tiering, "")
	case at == "node/"+idCaptures:
		for _, c := range n.cfg.Captures {
			of(keep.Capture, c.Name)
		}
	case factory == idLog:
		of(keep.Writer, id)
	case factory == idCaptures:
		of(keep.Capture, id)
	}
	if len(items) > 0 {
		n.registry.Send(keeper.Name(n.node()), keeper.Excused{Items: items})
	}
}
