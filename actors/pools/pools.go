package pools

import (
	"time"

	"millrace/actors"
	"millrace/actors/port"
)

// Config is what the process is given.
type Config struct {
	Name    string    // of the pool, in metrics: upload, general
	Pool    port.Pool // nil: the store has none, and the process is ignored
	Metrics port.Metrics
}

// showEvery is between two looks at the pool.
const showEvery = 5 * time.Second

type process struct {
	cfg     Config
	counted port.PoolStats
}

type show struct{}

// New returns the process that owns a pool. Its status is a port.PoolStats.
func New(cfg Config) actors.Process { return &process{cfg: cfg} }

// Init opens the pool. Without one there is nothing to do: ErrIgnore.
func (p *process) Init(c *actors.Context) error {
	if p.cfg.Pool == nil {
		return actors.ErrIgnore
	}
	// Not in OnGone: that may come late, and would close what a successor has opened.
	c.OnExit(func() {
		p.cfg.Pool.Close()
		p.gauges(port.PoolStats{})
	})
	p.counted = p.cfg.Pool.Stats() // an earlier process has told of these
	p.cfg.Pool.Open()
	p.publish(c)
	return nil
}

// Handle takes one message.
func (p *process) Handle(c *actors.Context, msg any) *actors.Reason {
	if _, due := msg.(show); due {
		p.publish(c)
	}
	return nil
}

// Terminate counts what came since the last look.
func (p *process) Terminate(c *actors.Context, _ actors.Reason) { p.count(p.cfg.Pool.Stats()) }

func (p *process) publish(c *actors.Context) {
	s := p.cfg.Pool.Stats()
	c.SetStatus(s)
	p.gauges(s)
	p.count(s)
	c.After(showEvery, show{})
}

func (p *process) count(s port.PoolStats) {
	p.cfg.Metrics.Count("pool_waits_total", max(s.Waited-p.counted.Waited, 0), "pool", p.cfg.Name)
	p.counted = s
}

func (p *process) gauges(s port.PoolStats) {
	p.cfg.Metrics.Gauge("pool_connections", float64(s.Max), "pool", p.cfg.Name, "state", "max")
	p.cfg.Metrics.Gauge("pool_connections", float64(s.Open), "pool", p.cfg.Name, "state", "open")
	p.cfg.Metrics.Gauge("pool_connections", float64(s.InUse), "pool", p.cfg.Name, "state", "in_use")
	p.cfg.Metrics.Gauge("pool_connections", float64(s.Waiting), "pool", p.cfg.Name, "state", "waiting")
}
