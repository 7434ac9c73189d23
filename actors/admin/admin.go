package admin

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/core/backoff"
)

const (
	firstDelay = 250 * time.Millisecond
	maxDelay   = 15 * time.Second
	// steady is how long a server must have run for its next failure to count as the first.
	steady = 30 * time.Second
	// linger bounds how long Terminate waits for the server to let its connections end.
	linger = 3 * time.Second
)

// Server is the HTTP surface.
type Server interface {
	// Serve listens and answers until ctx ends; then it returns nil, soon, with the port
	// free again. Any other return is a failure, which the caller may try again.
	Serve(ctx context.Context) error
}

// Config is what the process needs.
type Config struct {
	Server Server
	Log    zerolog.Logger
}

// States of Status.
const (
	Serving = "serving"
	Waiting = "waiting" // the server failed; it is started again at Until
)

// Status is what the process publishes.
type Status struct {
	State    string     `json:"state"`
	Why      string     `json:"why,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
	Failures int        `json:"failures,omitempty"` // in a row
}

// New makes the process.
func New(cfg Config) actors.Process { return &process{cfg: cfg} }

type process struct {
	cfg      Config
	failures int
	started  time.Time
	running  *actors.Task // the server, or the last one that ran
}

type (
	served struct{ err error } // the server has returned
	again  struct{}            // the back-off is over
)

var errEarly = errors.New("the server ended by itself")

func (p *process) Init(c *actors.Context) error {
	p.serve(c)
	return nil
}

func (p *process) Handle(c *actors.Context, msg any) *actors.Reason {
	switch m := msg.(type) {
	case served:
		p.wait(c, m.err)
	case again:
		p.serve(c)
	}
	return nil
}

func (p *process) serve(c *actors.Context) {
	p.started = time.Now()
	c.SetStatus(Status{State: Serving, Failures: p.failures})
	p.running = c.Task("serve", func(ctx context.Context) any {
		err := p.cfg.Server.Serve(ctx)
		if err == nil {
			err = errEarly
		}
		return served{err}
	})
}

// wait backs off before the next try. The task ends during a stop as well; its message
// is then not handled any more.
func (p *process) wait(c *actors.Context, err error) {
	now := time.Now()
	if now.Sub(p.started) >= steady {
		p.failures = 0
	}
	p.failures++
	delay := backoff.Doubling{First: firstDelay, Last: maxDelay}.After(p.failures)
	until := now.Add(delay)
	c.SetStatus(Status{State: Waiting, Why: err.Error(), Until: &until, Failures: p.failures})
	p.cfg.Log.Warn().Err(err).Dur("retry_in", delay).Msg("admin: the HTTP server is not running")
	c.After(delay, again{})
}

// Terminate waits for the server, so that its port is free when the node is down.
func (p *process) Terminate(*actors.Context, actors.Reason) {
	limit := time.NewTimer(linger)
	defer limit.Stop()
	select {
	case <-p.running.Done():
	case <-limit.C:
		p.cfg.Log.Warn().Dur("waited", linger).Msg("admin: the HTTP server did not stop in time")
	}
}
