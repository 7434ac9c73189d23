package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/supervision"
)

// settingTiering is the metadata store's setting with the operator's wish: true or false.
const settingTiering = "tiering.enabled"

// wish is whether tiering is wanted: what an operator said last, and the configuration
// until one says something.
type wish struct {
	configured bool
	said       atomic.Pointer[bool]
	turn       chan struct{} // holds a token while a wish is carried out: one at a time
}

func (w *wish) enabled() bool {
	if said := w.said.Load(); said != nil {
		return *said
	}
	return w.configured
}

// by names whose wish it is.
func (w *wish) by() string {
	if w.said.Load() != nil {
		return "operator"
	}
	return "configuration"
}

// load reads what an operator said before the node started.
func (w *wish) load(ctx context.Context, meta port.Metadata) error {
	text, err := meta.Setting(ctx, settingTiering)
	if port.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	said, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("setting %s is %q: want true or false", settingTiering, text)
	}
	w.said.Store(&said)
	return nil
}

// store makes a wish durable, and then heard.
func (w *wish) store(ctx context.Context, meta port.Metadata, enabled bool) error {
	text := strconv.FormatBool(enabled)
	err := meta.PutSetting(ctx, settingTiering, text)
	if port.ClassOf(err) == port.UnknownOutcome {
		var stored string
		if stored, err = meta.Setting(ctx, settingTiering); err == nil && stored != text {
			err = errors.New("it was not stored")
		}
	}
	if err != nil {
		return err
	}
	w.said.Store(&enabled)
	return nil
}

// off stands for tiering while it is disabled: its supervisor goes on without it.
type off struct{}

func (off) Init(*actors.Context) error                   { return actors.ErrIgnore }
func (off) Handle(*actors.Context, any) *actors.Reason   { return nil }
func (off) Terminate(_ *actors.Context, _ actors.Reason) {}

// tieringChild is the tiering tree as the root's child. Every start of it, the keeper's
// too, asks the wish anew: nothing starts what was disabled meanwhile.
func (n *Node) tieringChild() supervision.Child {
	child := n.supervisor(idTiering, supervision.Transient, tieringFlags, n.tiering)
	on := child.New
	child.New = func(arg any) actors.Process {
		if !n.wish.enabled() {
			return off{}
		}
		return on(arg)
	}
	return child
}

// Tiering implements admin.Node.
func (n *Node) Tiering() admin.Tiering {
	return admin.Tiering{Enabled: n.wish.enabled(), By: n.wish.by(), State: n.tieringState()}
}

// tieringState is how tiering stands, in words.
func (n *Node) tieringState() string {
	if !n.wish.enabled() {
		return "disabled by the " + n.wish.by()
	}
	for _, c := range supervision.Look(n.root.Load()) {
		switch {
		case c.ID != idTiering || c.State == "running":
		case c.State == "undefined":
			return "not running: it gave up, and the keeper starts it again within a minute"
		default:
			return c.State
		}
	}
	return "enabled"
}

// SetTiering implements admin.Node. The wish is stored before it is carried out, so that
// what an operator was told holds after a crash. To disable stops the tree, which takes
// the hooks with it, and deletes nothing: local logs go on as they are, and what the
// store holds stays.
func (n *Node) SetTiering(ctx context.Context, enabled bool) (admin.Tiering, error) {
	select {
	case n.wish.turn <- struct{}{}:
		defer func() { <-n.wish.turn }()
	case <-ctx.Done():
		return n.Tiering(), unavailable("another change of tiering is under way", ctx.Err())
	}
	if err := n.wish.store(ctx, n.ports.Metadata, enabled); err != nil {
		return n.Tiering(), unavailable("storing the wish for tiering", err)
	}
	n.log.Warn().Bool("enabled", enabled).Msg("an operator says whether tiering runs")
	var err error
	if enabled {
		err = supervision.RestartChild(ctx, n.root.Load(), idTiering)
		if errors.Is(err, supervision.ErrRunning) || errors.Is(err, supervision.ErrRestarting) {
			err = nil
		}
	} else {
		err = n.stopTiering(ctx)
	}
	if err != nil {
		return n.Tiering(), &admin.Error{Class: admin.Unavailable, What: "the wish is stored, but not carried out yet", Err: err, Hint: "millrace status tells how tiering stands; say it again if that does not change within a minute"}
	}
	return n.Tiering(), nil
}

func (n *Node) stopTiering(ctx context.Context) error {
	root := n.root.Load()
	tree, _ := supervision.LookAt(root, idTiering)
	ran := tree.Handle.Alive()
	err := supervision.TerminateChild(ctx, root, idTiering)
	if err == nil && ran {
		n.stoppedByOperator(supervision.Here(root), tree)
	}
	return err
}
