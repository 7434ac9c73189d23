package keeper

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/core/keep"
	"millrace/core/pos"
	"millrace/registry"
)

// Name is the keeper's key in the registry of the given node.
func Name(node pos.NodeID) registry.Name {
	return registry.Name{Kind: "keeper", Node: node.String()}
}

// startTimeout bounds one start: a child's init waits for nothing in the world, so
// a longer wait means that its supervisor is stuck.
const startTimeout = 10 * time.Second

// Config is what a keeper is given.
type Config struct {
	Node        pos.NodeID
	Registry    *registry.Registry
	Interval    time.Duration // between two looks, and the first back-off
	MaxInterval time.Duration // the longest back-off
	// Look says what is wanted here and what runs. It may ask the metadata store.
	// An error means that nothing is known this time: nothing is started then.
	Look func(ctx context.Context) (wanted, running []keep.Item, err error)
	// Start starts one item. That it runs already is not an error.
	Start func(ctx context.Context, item keep.Item) error
	Log   zerolog.Logger
}

// Poke makes the keeper look now. Whoever creates a stream sends it.
type Poke struct{}

// Excused says that an operator stopped these items, or what they run under.
type Excused struct{ Items []keep.Item }

type looked struct {
	wanted, running []keep.Item
	err             error
}

type started struct {
	item keep.Item
	err  error
}

type process struct {
	cfg     Config
	machine *keep.Machine
	timer   *actors.Timer
	looking bool
	again   bool // a poke came while a look was under way
}

// New returns the keeper's process.
func New(cfg Config) actors.Process {
	return &process{
		cfg:     cfg,
		machine: keep.New(keep.Config{Interval: cfg.Interval, MaxInterval: cfg.MaxInterval}),
	}
}

func (p *process) Init(c *actors.Context) error {
	p.cfg.Registry.Register(c, Name(p.cfg.Node))
	c.Self().Send(Poke{})
	return nil
}

func (p *process) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case Poke:
		p.look(c)
	case Excused:
		p.machine.Step(keep.Excused{Items: msg.Items}, nil)
	case looked:
		p.looking = false
		p.decide(c, msg)
		p.timer = c.After(p.cfg.Interval, Poke{})
		if p.again {
			p.again = false
			p.look(c)
		}
	case started:
		if msg.err != nil {
			p.cfg.Log.Warn().Err(msg.err).Stringer("item", msg.item).Msg("could not be started; it is tried again later")
		}
	}
	return nil
}

func (p *process) Terminate(*actors.Context, actors.Reason) {}

func (p *process) look(c *actors.Context) {
	if p.looking {
		p.again = true
		return
	}
	p.looking = true
	if p.timer != nil {
		p.timer.Stop()
	}
	c.Task("look", func(ctx context.Context) any {
		wanted, running, err := p.cfg.Look(ctx)
		return looked{wanted: wanted, running: running, err: err}
	})
}

func (p *process) decide(c *actors.Context, l looked) {
	if l.err != nil {
		p.cfg.Log.Warn().Err(l.err).Msg("what should run here is not known; looking again later")
		return
	}
	now := pos.MillisOf(time.Now())
	starts := p.machine.Step(keep.Looked{Now: now, Wanted: l.wanted, Running: l.running}, nil)
	if len(starts) == 0 {
		return
	}
	c.Task("start", func(ctx context.Context) any {
		for _, s := range starts {
			p.start(ctx, c.Self(), s)
		}
		return nil
	})
}

func (p *process) start(ctx context.Context, self *actors.Handle, s keep.Start) {
	if s.Tries > 0 {
		p.cfg.Log.Info().Stringer("item", s.Item).Int("tries", s.Tries).Msg("does not run; starting it again")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	self.Send(started{item: s.Item, err: p.cfg.Start(ctx, s.Item)})
}
