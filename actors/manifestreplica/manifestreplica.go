package manifestreplica

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/registry"
)

// Config is what a manifest replica is given.
type Config struct {
	Node     pos.NodeID
	Table    *Table
	Registry *registry.Registry
	Metrics  port.Metrics
	// Remind is how often a Sync that was asked for and did not come is asked for
	// again. Not above 0: 10 s.
	Remind time.Duration
	Log    zerolog.Logger
}

// Status is what a manifest replica publishes.
type Status struct {
	Streams  int   `json:"streams"`
	Pending  int   `json:"pending"` // streams whose manifest is not known
	Syncs    int64 `json:"syncs"`
	Edits    int64 `json:"edits"`
	Rejected int64 `json:"rejected"` // older than the row, or not well formed
	Resyncs  int64 `json:"resyncs"`  // asked for
}

type replica struct {
	cfg     Config
	rows    *rows
	streams map[pos.StreamID]*stream
	status  Status
}

// stream is what is known of one stream. draft is nil while the row is pending.
type stream struct {
	epoch   pos.Epoch
	seq     pos.Revision // highest seen in epoch
	draft   *manifest.Draft
	missing bool // a Sync was asked for and has not come
}

type remind struct{}

// New returns a manifest replica. Its process's status is a Status.
func New(cfg Config) actors.Process {
	if cfg.Remind <= 0 {
		cfg.Remind = 10 * time.Second
	}
	return &replica{cfg: cfg, streams: map[pos.StreamID]*stream{}}
}

// Init takes over the table, empty, and then registers the name, upon which the
// replica readers send their rows.
func (r *replica) Init(c *actors.Context) error {
	r.rows = r.cfg.Table.renew()
	c.OnExit(func() { r.cfg.Table.leave(r.rows) })
	c.SetStatus(r.status)
	if !r.cfg.Registry.Register(c, registry.Name{Kind: "manifest_replica", Node: string(r.cfg.Node)}) {
		return fmt.Errorf("manifest replica: another one is registered on node %s", r.cfg.Node)
	}
	c.After(r.cfg.Remind, remind{})
	return nil
}

// Handle takes one message.
func (r *replica) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case manifest.Sync:
		r.sync(msg)
	case manifest.Edits:
		r.edits(msg)
	case manifest.Pending:
		r.pending(msg)
	case manifest.Forget:
		r.set(msg.Stream, nil)
		r.rows.drop(msg.Stream)
	case remind:
		for id, s := range r.streams {
			if s.missing {
				r.ask(id, s)
			}
		}
		c.After(r.cfg.Remind, remind{})
	default:
		return nil
	}
	r.publish(c)
	return nil
}

// Terminate has nothing to do: the table is left when the process has ended.
func (r *replica) Terminate(*actors.Context, actors.Reason) {}

// sync replaces a row, unless it is older than what is there.
func (r *replica) sync(msg manifest.Sync) {
	s, known := r.streams[msg.Stream]
	if known && older(msg.Epoch, msg.Seq, s) {
		r.reject(msg.Stream, "sync", msg.Epoch, msg.Seq, fmt.Errorf("the row is at epoch %s, revision %s", s.epoch, s.seq))
		return
	}
	if err := wellFormed(msg); err != nil {
		r.reject(msg.Stream, "sync", msg.Epoch, msg.Seq, err)
		return
	}
	r.count("manifest_syncs_total", &r.status.Syncs)
	s = &stream{epoch: msg.Epoch, seq: msg.Seq, draft: msg.Manifest.Draft()}
	r.set(msg.Stream, s)
	r.put(msg.Stream, s)
}

func wellFormed(msg manifest.Sync) error {
	if msg.Manifest == nil {
		return errors.New("it has no manifest")
	}
	return msg.Manifest.Check()
}

func older(epoch pos.Epoch, seq pos.Revision, s *stream) bool {
	return epoch < s.epoch || epoch == s.epoch && seq < s.seq
}

// edits takes a row to the next revision, all edits or none.
func (r *replica) edits(msg manifest.Edits) {
	s, known := r.streams[msg.Stream]
	switch {
	case !known:
		s = &stream{}
		r.set(msg.Stream, s)
		r.rows.put(msg.Stream, manifest.Row{State: manifest.StatePending})
		r.ask(msg.Stream, s)
		return
	case msg.Epoch < s.epoch, msg.Epoch == s.epoch && msg.Seq <= s.seq:
		r.reject(msg.Stream, "edits", msg.Epoch, msg.Seq, fmt.Errorf("the row is at epoch %s, revision %s", s.epoch, s.seq))
		return
	case s.draft == nil, msg.Epoch != s.epoch, msg.Seq != s.seq+1:
		r.ask(msg.Stream, s)
		return
	}
	for _, e := range msg.Edits {
		if err := s.draft.Apply(e); err != nil {
			r.cfg.Log.Warn().Str("stream", msg.Stream.String()).Err(err).Msg("an edit of the manifest does not fit; asking for the whole")
			// The row shows the last good manifest; what was applied of this batch is undone.
			if row, ok := r.rows.get(msg.Stream); ok {
				s.draft = row.Manifest.Draft()
			}
			r.ask(msg.Stream, s)
			return
		}
	}
	r.count("manifest_edits_total", &r.status.Edits)
	s.seq = msg.Seq
	r.put(msg.Stream, s)
}

// pending makes a row unknown: its writer is finding out.
func (r *replica) pending(msg manifest.Pending) {
	s, known := r.streams[msg.Stream]
	if known && msg.Epoch < s.epoch {
		r.reject(msg.Stream, "pending", msg.Epoch, 0, fmt.Errorf("the row is at epoch %s", s.epoch))
		return
	}
	next := &stream{epoch: msg.Epoch}
	if known && msg.Epoch == s.epoch {
		next.seq = s.seq
	}
	r.set(msg.Stream, next)
	r.rows.put(msg.Stream, manifest.Row{State: manifest.StatePending, Epoch: next.epoch, Seq: next.seq})
}

// put shows a stream's draft to readers.
func (r *replica) put(id pos.StreamID, s *stream) {
	s.missing = false
	s.draft.Stamp(s.epoch, s.seq)
	r.rows.put(id, manifest.Row{State: manifest.StateResolved, Epoch: s.epoch, Seq: s.seq, Manifest: s.draft.Manifest()})
}

// ask wants a Sync from the stream's replica reader. If there is none now, it sends
// one when it comes up; if it is not ready, it is reminded.
func (r *replica) ask(id pos.StreamID, s *stream) {
	s.missing = true
	r.count("manifest_resyncs_total", &r.status.Resyncs)
	r.cfg.Registry.Send(registry.Name{Kind: "replica_reader", ID: id.String(), Node: string(r.cfg.Node)}, manifest.Resync{Stream: id})
}

func (r *replica) reject(id pos.StreamID, what string, epoch pos.Epoch, seq pos.Revision, why error) {
	r.count("manifest_rejected_total", &r.status.Rejected)
	r.cfg.Log.Info().Str("stream", id.String()).Str("message", what).Uint64("epoch", uint64(epoch)).Uint64("revision", uint64(seq)).
		AnErr("why", why).Msg("a manifest message was not taken")
}

func (r *replica) count(name string, n *int64) {
	*n++
	r.cfg.Metrics.Count(name, 1)
}

// set keeps the streams and their number; nil removes one.
func (r *replica) set(id pos.StreamID, s *stream) {
	if old := r.streams[id]; old != nil && old.draft == nil {
		r.status.Pending--
	}
	if s == nil {
		delete(r.streams, id)
	} else {
		r.streams[id] = s
		if s.draft == nil {
			r.status.Pending++
		}
	}
	r.status.Streams = len(r.streams)
}

func (r *replica) publish(c *actors.Context) {
	c.SetStatus(r.status)
	r.cfg.Metrics.Gauge("manifests_pending", float64(r.status.Pending))
}
