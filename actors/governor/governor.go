package governor

import (
	"fmt"
	"time"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/registry"
)

// Config is what a governor is given.
type Config struct {
	Node              pos.NodeID
	Registry          *registry.Registry
	Metrics           port.Metrics
	MaxBytesPerSecond int64 // of all uploads of the node together; 0: no limit
	MaxInFlight       int   // uploads under way at once, no more than the store has connections for; 0: no limit
}

// Status is what a governor publishes.
type Status struct{ pace.Status }

type governor struct {
	cfg     Config
	machine *pace.Machine
	owners  map[pace.Owner]*actors.Handle // that have asked for something, each monitored
	down    map[actors.MonitorRef]pace.Owner
	timer   *actors.Timer
	start   time.Time
	counted pace.Counts
	effects []pace.Effect
}

type tick struct{}

// New returns a governor. Its process's status is a Status.
func New(cfg Config) actors.Process {
	return &governor{
		cfg: cfg, start: time.Now(),
		owners: map[pace.Owner]*actors.Handle{}, down: map[actors.MonitorRef]pace.Owner{},
	}
}

// Init registers the name.
func (g *governor) Init(c *actors.Context) error {
	g.machine = pace.New(pace.Config{
		BytesPerSecond: g.cfg.MaxBytesPerSecond, Burst: pace.DefaultBurst(g.cfg.MaxBytesPerSecond), MaxInFlight: g.cfg.MaxInFlight,
	}, g.now())
	g.publish(c)
	if !g.cfg.Registry.Register(c, registry.Name{Kind: "governor", Node: string(g.cfg.Node)}) {
		return fmt.Errorf("governor: another one is registered on node %s", g.cfg.Node)
	}
	return nil
}

// Handle takes one message.
func (g *governor) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case pace.Submit:
		g.step(c, pace.Ask{Now: g.now(), Submit: msg, Dead: !g.know(c, msg.Owner)})
	case pace.Done:
		g.step(c, pace.End{Now: g.now(), Done: msg})
	case pace.Cancel:
		g.step(c, pace.Withdraw{Now: g.now(), Cancel: msg})
	case actors.Down:
		if o, ok := g.down[msg.Ref]; ok {
			delete(g.down, msg.Ref)
			delete(g.owners, o)
			g.step(c, pace.OwnerDown{Now: g.now(), Owner: o})
		}
	case tick:
		g.step(c, pace.Tick{Now: g.now()})
	}
	return nil
}

// Terminate has nothing to do: what was granted goes on.
func (g *governor) Terminate(*actors.Context, actors.Reason) {}

// now is the wall clock of the start moved on by the monotonic one, so that setting
// the clock neither stops uploads nor lets them all go.
func (g *governor) now() pos.Millis { return pos.MillisOf(g.start.Add(time.Since(g.start))) }

// know finds and monitors the process behind an owner; false if that is gone.
func (g *governor) know(c *actors.Context, o pace.Owner) bool {
	if _, known := g.owners[o]; known {
		return true
	}
	h, ok := g.cfg.Registry.WhereIs(registry.Name{Kind: "replica_reader", ID: string(o.Stream), Node: string(g.cfg.Node)})
	if !ok || h.Incarnation() != o.Incarnation {
		return false
	}
	g.owners[o], g.down[c.Monitor(h)] = h, o
	return true
}

func (g *governor) step(c *actors.Context, in pace.Input) {
	g.effects = g.machine.Step(in, g.effects[:0])
	for _, e := range g.effects {
		switch e := e.(type) {
		case pace.Grant:
			// Should it be gone, its Down is on the way and gives the grant back.
			g.owners[e.Owner].Send(pace.Granted{Ref: e.Ref})
		case pace.Wake:
			g.timer.Stop()
			g.timer = c.After(e.At.Sub(g.now()), tick{})
		}
	}
	g.publish(c)
}

func (g *governor) publish(c *actors.Context) {
	s, n := g.machine.Status(), g.machine.Counts()
	c.SetStatus(Status{s})
	g.cfg.Metrics.Gauge("governor_in_flight", float64(s.InFlight))
	g.cfg.Metrics.Gauge("governor_in_flight_bytes", float64(s.InFlightBytes))
	g.cfg.Metrics.Gauge("governor_waiting", float64(s.Waiting))
	g.cfg.Metrics.Gauge("governor_waiting_bytes", float64(s.WaitingBytes))
	g.cfg.Metrics.Count("governor_granted_total", n.Granted-g.counted.Granted)
	g.cfg.Metrics.Count("governor_submissions_total", n.Submitted-g.counted.Submitted)
	g.cfg.Metrics.Count("governor_oversized_total", n.Oversized-g.counted.Oversized)
	g.cfg.Metrics.Count("governor_dropped_total", n.Dropped-g.counted.Dropped)
	g.counted = n
}
