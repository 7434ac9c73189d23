package reaper

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/collect"
	"millrace/core/pos"
	"millrace/registry"
)

// Config is what a reaper is given.
type Config struct {
	Node     pos.NodeID
	Registry *registry.Registry
	Store    port.ObjectStore
	Metrics  port.Metrics
	Log      zerolog.Logger
}

// Status is what a reaper publishes.
type Status struct{ collect.Status }

const (
	linger          = time.Second
	retry, maxRetry = time.Second, time.Minute
	deadline        = time.Minute // of one request
)

type reaper struct {
	cfg     Config
	machine *collect.Machine
	timer   *actors.Timer
	start   time.Time
	counted collect.Counts
	effects []collect.Effect
}

type (
	tick     struct{}
	answered struct {
		failed []port.DeleteError
		err    error
	}
)

// New returns a reaper. Its process's status is a Status.
func New(cfg Config) actors.Process {
	return &reaper{
		cfg: cfg, start: time.Now(),
		machine: collect.New(collect.Config{Linger: linger, Retry: retry, MaxRetry: maxRetry}),
	}
}

// Init registers the name.
func (r *reaper) Init(c *actors.Context) error {
	r.publish(c)
	if !r.cfg.Registry.Register(c, registry.Name{Kind: "reaper", Node: string(r.cfg.Node)}) {
		return fmt.Errorf("reaper: another one is registered on node %s", r.cfg.Node)
	}
	return nil
}

// Handle takes one message.
func (r *reaper) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case collect.Delete:
		r.step(c, collect.Add{Now: r.now(), Delete: msg})
	case answered:
		r.answered(c, msg)
	case tick:
		r.step(c, collect.Tick{Now: r.now()})
	}
	return nil
}

// Terminate has nothing to do.
func (r *reaper) Terminate(*actors.Context, actors.Reason) {}

// now is the wall clock of the start moved on by the monotonic one: a grace is a
// span of time, whatever the clock is set to.
func (r *reaper) now() pos.Millis { return pos.MillisOf(r.start.Add(time.Since(r.start))) }

func (r *reaper) answered(c *actors.Context, a answered) {
	in := collect.Answered{Now: r.now(), Failed: a.err != nil}
	for _, f := range a.failed {
		in.Refused = append(in.Refused, f.Key)
	}
	if a.err != nil {
		r.cfg.Log.Warn().Err(a.err).Msg("garbage can't be deleted, it is tried again")
	} else if len(a.failed) > 0 {
		r.cfg.Log.Warn().Err(a.failed[0].Err).Str("key", a.failed[0].Key).Int("keys", len(a.failed)).
			Msg("the object store refused to delete some garbage")
	}
	r.step(c, in)
}

func (r *reaper) step(c *actors.Context, in collect.Input) {
	r.effects = r.machine.Step(in, r.effects[:0])
	for _, e := range r.effects {
		switch e := e.(type) {
		case collect.Request:
			c.Task("delete", func(ctx context.Context) any {
				ctx, cancel := context.WithTimeout(ctx, deadline)
				defer cancel()
				failed, err := r.cfg.Store.Delete(ctx, e.Keys)
				return answered{failed, err}
			})
		case collect.Wake:
			r.timer.Stop()
			r.timer = c.After(e.At.Sub(r.now()), tick{})
		}
	}
	r.publish(c)
}

func (r *reaper) publish(c *actors.Context) {
	s, n := r.machine.Status(), r.machine.Counts()
	c.SetStatus(Status{s})
	r.cfg.Metrics.Gauge("reaper_pending_keys", float64(s.Pending+s.InFlight))
	r.cfg.Metrics.Count("reaper_objects_deleted_total", n.Deleted-r.counted.Deleted)
	r.cfg.Metrics.Count("reaper_delete_failures_total", n.Failed-r.counted.Failed)
	r.cfg.Metrics.Count("reaper_objects_given_up_total", n.GivenUp-r.counted.GivenUp)
	r.counted = n
}
