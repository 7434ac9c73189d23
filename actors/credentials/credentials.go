package credentials

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"math"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/renew"
)

// Config is what the process is given.
type Config struct {
	Keyring port.Keyring // nil: the store needs no credentials, and the process is ignored
	Metrics port.Metrics
	Log     zerolog.Logger
	// Random draws the jitter; nil: from the system's source.
	Random func() uint64
}

// deadline bounds one fetch over all sources.
const deadline = 30 * time.Second

type process struct {
	cfg     Config
	machine *renew.Machine
	timer   *actors.Timer
	fetched port.Credentials // what the last Fetched told of
	counted renew.Counts
	effects []renew.Effect
}

// Messages to itself.
type (
	tick     struct{}
	rejected struct{}
	answered struct {
		credentials port.Credentials
		err         error
	}
)

// New returns the process. Its status is a renew.Status.
func New(cfg Config) actors.Process {
	if cfg.Random == nil {
		cfg.Random = systemRandom
	}
	return &process{cfg: cfg, machine: renew.New(renew.Config{})}
}

func systemRandom() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// Init begins the first fetch. Without a keyring there is nothing to do: ErrIgnore.
func (p *process) Init(c *actors.Context) error {
	if p.cfg.Keyring == nil {
		return actors.ErrIgnore
	}
	// Not in OnGone: that may come late, and would take away what a successor has put in.
	c.OnExit(func() {
		p.cfg.Keyring.Drop("the process that keeps the credentials of the object store has ended")
		// Not 0, which is for a node that wants credentials: tiering may be disabled.
		p.cfg.Metrics.Gauge("credentials_expiry_timestamp_seconds", math.NaN())
	})
	p.step(c, renew.Start{Now: now()})
	p.listen(c)
	return nil
}

// Handle takes one message.
func (p *process) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case answered:
		p.answered(c, msg)
	case rejected:
		p.step(c, renew.Rejected{Now: now()})
		p.listen(c)
	case tick:
		p.step(c, renew.Tick{Now: now()})
	}
	return nil
}

// Terminate has nothing to do: the keyring is emptied when the process has ended.
func (p *process) Terminate(*actors.Context, actors.Reason) {}

// now is the wall clock: expiry is told in it.
func now() pos.Millis { return pos.MillisOf(time.Now()) }

// listen waits for the next refusal.
func (p *process) listen(c *actors.Context) {
	c.Task("listen for refusals", func(ctx context.Context) any {
		select {
		case <-p.cfg.Keyring.Rejected():
			return rejected{}
		case <-ctx.Done():
			return nil
		}
	})
}

func (p *process) answered(c *actors.Context, a answered) {
	if a.err != nil {
		p.step(c, renew.Failed{Now: now(), Random: p.cfg.Random(), Why: a.err.Error()})
		return
	}
	p.fetched = a.credentials
	p.step(c, renew.Fetched{
		Now: now(), Random: p.cfg.Random(),
		Source: a.credentials.Source, AccessKeyID: a.credentials.AccessKeyID, Expires: a.credentials.Expires,
	})
}

func (p *process) step(c *actors.Context, in renew.Input) {
	p.effects = p.machine.Step(in, p.effects[:0])
	for _, e := range p.effects {
		switch e := e.(type) {
		case renew.Fetch:
			c.Task("fetch credentials", func(ctx context.Context) any {
				ctx, cancel := context.WithTimeout(ctx, deadline)
				defer cancel()
				got, err := p.cfg.Keyring.Fetch(ctx)
				return answered{got, err}
			})
		case renew.Use:
			p.cfg.Keyring.Use(p.fetched)
		case renew.Drop:
			p.cfg.Keyring.Drop(e.Why)
		case renew.Wake:
			p.timer.Stop()
			p.timer = c.After(e.At.Sub(now()), tick{})
		case renew.Note:
			p.note(e)
		}
	}
	p.publish(c)
}

func (p *process) note(n renew.Note) {
	s := p.machine.Status()
	switch n.Kind {
	case renew.Obtained:
		event := p.cfg.Log.Info().Str("source", s.Source).Str("access_key_id", s.AccessKeyID)
		if s.Expires != 0 {
			event = event.Stringer("expires", s.Expires)
		}
		event.Msg("the object store is used with these credentials")
	case renew.Failing:
		p.cfg.Log.Warn().Str("why", n.Why).Str("state", s.State).
			Msg("no new credentials for the object store can be had, it is tried again; millrace status tells how it goes on")
	case renew.Lost:
		p.cfg.Log.Error().Str("why", n.Why).
			Msg("there are no credentials for the object store: nothing is uploaded or read from it until there are; mend their source")
	case renew.Refused:
		p.cfg.Log.Warn().Str("source", s.Source).Str("access_key_id", s.AccessKeyID).
			Msg("the object store refuses its credentials as expired or unknown, new ones are fetched; if these are refused too, mend their source")
	}
}

func (p *process) publish(c *actors.Context) {
	s, n := p.machine.Status(), p.machine.Counts()
	c.SetStatus(s)
	p.cfg.Metrics.Gauge("credentials_expiry_timestamp_seconds", expiry(s))
	p.cfg.Metrics.Count("credentials_refreshes_total", n.Refreshes-p.counted.Refreshes)
	p.cfg.Metrics.Count("credentials_refresh_failures_total", n.Failures-p.counted.Failures)
	p.counted = n
}

// expiry is when what is in use ends: 0 if nothing is in use, infinite if it never does.
func expiry(s renew.Status) float64 {
	switch {
	case s.State == renew.StateFetching || s.State == renew.StateNone:
		return 0
	case s.Expires == 0:
		return math.Inf(1)
	}
	return float64(s.Expires) / 1000
}
