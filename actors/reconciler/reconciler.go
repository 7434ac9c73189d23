package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/hooks"
	"millrace/registry"
	"millrace/supervision"
)

// Config is what a reconciler is given.
type Config struct {
	Node     pos.NodeID
	Registry *registry.Registry
	Hooks    *hooks.Hooks
	// Start starts the stream's supervisor, with a replica reader for the log under it,
	// and returns when that is up. It may be called for several streams at a time. An
	// error means that the stream is tried again.
	Start    func(ctx context.Context, l *hooks.Log) error
	Interval time.Duration // between two looks at everything; 0: 60 s
	Metrics  port.Metrics
	Log      zerolog.Logger
}

// Status is what a reconciler publishes.
type Status struct {
	Logs     int        `json:"local_logs"`
	Served   int        `json:"served"`   // of these, with a replica reader
	Starting int        `json:"starting"` // of these, being started
	LastLook pos.Millis `json:"last_look_ms"`
}

const (
	defaultInterval = time.Minute
	// startDeadline bounds one start, so that one that hangs is tried again.
	startDeadline = 30 * time.Second
	// firstRetry, doubling up to the interval, is when a log that just came up and could
	// not be served is looked at again: its predecessor is about to end.
	firstRetry = time.Second
	// showEvery is how often the status changes at most.
	showEvery = 100 * time.Millisecond
)

type reconciler struct {
	cfg      Config
	starting map[pos.StreamID]bool
	lastLook pos.Millis
	showing  bool // a show is on its way
}

// Poke makes the reconciler look now. Whoever has stopped replica readers sends it.
type Poke struct{}

// Name is the reconciler's key in the registry of the given node.
func Name(node pos.NodeID) registry.Name {
	return registry.Name{Kind: "reconciler", Node: string(node)}
}

// Messages to itself.
type (
	look  struct{}
	show  struct{} // the status is due
	again struct {
		log  *hooks.Log
		wait time.Duration // the next one
	}
	started struct {
		log *hooks.Log
		err error
	}
)

// New returns a reconciler. Its process's status is a Status.
func New(cfg Config) actors.Process {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultInterval
	}
	return &reconciler{cfg: cfg, starting: map[pos.StreamID]bool{}}
}

// Init installs the hooks and looks for what runs already.
func (r *reconciler) Init(c *actors.Context) error {
	if !r.cfg.Registry.Register(c, Name(r.cfg.Node)) {
		return fmt.Errorf("reconciler: another one is registered on node %s", r.cfg.Node)
	}
	r.cfg.Hooks.Install(c)
	r.look(c)
	c.After(r.cfg.Interval, look{})
	return nil
}

// Handle takes one message.
func (r *reconciler) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case hooks.WriterUp:
		r.attach(c, again{log: msg.Log, wait: firstRetry})
	case hooks.RetentionChanged:
		r.bound(msg.Stream, msg.Retention)
	case hooks.Deleted:
		r.cfg.Registry.Send(r.reader(msg.Stream), upload.StreamDeleted{})
	case again:
		r.attach(c, msg)
	case started:
		r.started(msg)
	case look:
		r.look(c)
		c.After(r.cfg.Interval, look{})
	case Poke:
		r.look(c)
	case show:
		r.showing = false
		r.publish(c)
		return nil
	}
	r.publishSoon(c)
	return nil
}

// Terminate has nothing to do: the hooks forget a process that ended.
func (r *reconciler) Terminate(*actors.Context, actors.Reason) {}

func (r *reconciler) reader(stream pos.StreamID) registry.Name {
	return registry.Name{Kind: "replica_reader", ID: string(stream), Node: string(r.cfg.Node)}
}

func (r *reconciler) look(c *actors.Context) {
	r.lastLook = pos.MillisOf(time.Now())
	for _, l := range r.cfg.Hooks.Running() {
		if !r.served(l) {
			r.start(c, l)
		} else if s, ok := l.Writer.Status().(segment.Status); ok {
			r.bound(l.Stream, s.Retention)
		}
	}
	r.publish(c)
}

// bound tells a stream's replica reader what bounds the stream. One that starts finds it
// by itself; one that missed a change, because nobody was here to pass it on, is told at
// the next look.
func (r *reconciler) bound(stream pos.StreamID, b segment.Retention) {
	r.cfg.Registry.Send(r.reader(stream), upload.Bounds{MaxBytes: b.MaxBytes, MaxAge: b.MaxAge})
}

// served reports whether the registered replica reader is this log's: every writer
// has an epoch of its own.
func (r *reconciler) served(l *hooks.Log) bool {
	h, ok := r.cfg.Registry.WhereIs(r.reader(l.Stream))
	if !ok {
		return false
	}
	s, ok := h.Status().(upload.Status)
	return ok && s.Stream.Epoch == l.Epoch
}

// attach serves a log that came up, and comes back until it is served.
func (r *reconciler) attach(c *actors.Context, a again) {
	if now, ok := r.cfg.Hooks.Lookup(a.log.Stream); !ok || now != a.log || r.served(a.log) {
		return
	}
	r.start(c, a.log)
	if a.wait < r.cfg.Interval {
		c.After(a.wait, again{log: a.log, wait: 2 * a.wait})
	}
}

func (r *reconciler) start(c *actors.Context, l *hooks.Log) {
	if r.starting[l.Stream] {
		return
	}
	r.starting[l.Stream] = true
	c.Task("start", func(ctx context.Context) any {
		return started{log: l, err: r.tryStart(ctx, l)}
	})
}

// tryStart turns a panic into an error: what one stream does must not end the loop
// over all of them.
func (r *reconciler) tryStart(ctx context.Context, l *hooks.Log) (err error) {
	defer func() {
		if p := recover(); p != nil {
			why := actors.Panicked(p)
			err = fmt.Errorf("%s\n%s", why, why.Stack)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	return r.cfg.Start(ctx, l)
}

func (r *reconciler) started(msg started) {
	delete(r.starting, msg.log.Stream)
	if _, former := errors.AsType[*supervision.AlreadyStarted](msg.err); former {
		return // it is about to end
	}
	if msg.err != nil {
		r.cfg.Metrics.Count("reconciler_start_failures_total", 1)
		r.cfg.Log.Warn().Err(msg.err).Str("stream", string(msg.log.Stream)).Str("name", msg.log.Name).
			Msg("the stream's replica reader did not start, it is tried again")
	}
}

// publishSoon publishes once for all that happens within showEvery: to look at every log
// at each of a thousand starts would cost their square.
func (r *reconciler) publishSoon(c *actors.Context) {
	if !r.showing {
		r.showing = true
		c.After(showEvery, show{})
	}
}

func (r *reconciler) publish(c *actors.Context) {
	s := Status{Starting: len(r.starting), LastLook: r.lastLook}
	for _, l := range r.cfg.Hooks.Running() {
		s.Logs++
		if r.served(l) {
			s.Served++
		}
	}
	c.SetStatus(s)
	r.cfg.Metrics.Gauge("streams_untiered", float64(s.Logs-s.Served))
}
