package replicareader

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pace"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/core/upload"
	"millrace/hooks"
	"millrace/registry"
)

// Config is what a replica reader is given.
type Config struct {
	Node      pos.NodeID
	Local     *hooks.Log // the stream's log; its writer is monitored
	Registry  *registry.Registry
	Disk      port.Disk
	Store     port.ObjectStore
	Uploads   port.ObjectStore // the same objects, by the way that whole fragments take
	Metadata  port.Metadata
	Manifests port.Manifests
	Metrics   port.Metrics
	Log       zerolog.Logger

	Prefix          string          // of all keys in the object store
	Fragment        fragment.Config // when a fragment is cut
	Discard         bool            // on_gap = "discard"
	PersistEdits    int             // 0: 5
	PersistInterval time.Duration   // 0: 2 s
	Grace           time.Duration   // of what nothing names any more; 0: 1 h
	// Owned reports whether the store is known to be the cluster's. Whoever moves it tells those
	// that are registered, after that.
	Owned func() bool

	// Random draws what makes names unique; nil: from the system's source.
	Random func() uint64
}

// readPause keeps a busy stream from being read, and under lazy sync modes from being
// synced, at every commit.
const readPause = 100 * time.Millisecond

type replicaReader struct {
	cfg     Config
	id      pos.StreamID
	machine *upload.Machine
	start   time.Time
	effects []upload.Effect
	timer   *actors.Timer
	tasks   map[taskKey]running
	started uint64 // tasks
	// persists are the tasks of persists that were cancelled, and may not have ended yet.
	persists []*actors.Task
	waiters  map[upload.WaiterID]*actors.Request // who waits for an upload.Durable, CutAnswer or ResetAnswer
	asked    upload.WaiterID                     // the last
	seam     seam
	counted  upload.Counts
	// published: the counters have begun
	published bool
	bounds    upload.Bounds // what the machine was told
	ended     *actors.Reason
}

// taskKey tells the tasks apart that can run at the same time.
type taskKey struct {
	kind string
	id   uint64
}

// Messages to itself.
type (
	tick     struct{}
	seamTick struct{}
)

// New returns the replica reader of one stream.
func New(cfg Config) actors.Process {
	if cfg.Random == nil {
		cfg.Random = systemRandom
	}
	return &replicaReader{
		cfg: cfg, id: cfg.Local.Stream, start: time.Now(),
		tasks: map[taskKey]running{}, waiters: map[upload.WaiterID]*actors.Request{},
		machine: upload.New(upload.Config{
			Stream: cfg.Local.Stream, Epoch: cfg.Local.Epoch, Prefix: cfg.Prefix, Fragment: cfg.Fragment,
			Discard: cfg.Discard, PersistEdits: cfg.PersistEdits, PersistInterval: cfg.PersistInterval,
			Grace: cfg.Grace, ReadPause: readPause,
		}),
	}
}

func systemRandom() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

// Init registers the name. It fails if a former replica reader of the stream still
// holds it; the reconciler starts another one then.
func (r *replicaReader) Init(c *actors.Context) error {
	c.SetStatus(r.machine.Status())
	if !r.cfg.Registry.Register(c, r.name("replica_reader", string(r.id))) {
		return fmt.Errorf("replica reader of %s: a former one has not ended yet", r.id)
	}
	c.OnExit(func() { r.cfg.Metrics.Forget("stream", string(r.id)) })
	c.Monitor(r.cfg.Local.Writer)
	r.cfg.Registry.Subscribe(c, r.name("manifest_replica", ""))
	r.cfg.Registry.Subscribe(c, r.name("governor", ""))
	r.step(c, upload.Start{Disowned: !r.cfg.Owned()})
	if s, ok := r.cfg.Local.Writer.Status().(segment.Status); ok {
		r.bound(c, upload.Bounds{MaxBytes: s.Retention.MaxBytes, MaxAge: s.Retention.MaxAge})
	}
	return nil
}

func (r *replicaReader) name(kind, id string) registry.Name {
	return registry.Name{Kind: kind, ID: id, Node: string(r.cfg.Node)}
}

// Handle takes one message.
func (r *replicaReader) Handle(c *actors.Context, msg any) *actors.Reason {
	switch msg := msg.(type) {
	case taskEnded:
		r.taskEnded(c, msg)
	case moved:
		r.step(c, upload.Moved{Gen: msg.gen})
	case sent:
		r.step(c, upload.Sent{Ref: msg.ref})
	case tick:
		r.step(c, upload.Tick{})
	case seamTick:
		r.showSeam(c)
	case upload.Bounds:
		r.bound(c, msg)
	case pace.Granted:
		r.step(c, upload.Granted{Ref: msg.Ref})
	case registry.Registered:
		r.registered(c, msg)
	case manifest.Resync:
		r.step(c, upload.ReplicaUp{})
	case upload.StreamDeleted:
		r.step(c, msg)
	case upload.StoreAway:
		r.step(c, msg)
	case upload.StoreBack:
		r.step(c, msg)
	case upload.StoreOwned:
		r.step(c, msg)
	case upload.StoreDisowned:
		r.step(c, msg)
	case upload.StoreReclaimed:
		r.step(c, msg)
	case *actors.Request:
		r.asks(c, msg)
	case actors.Down:
		return actors.Exit(actors.Normal, "the writer ended: "+msg.Reason.String())
	}
	return r.ended
}

// bound takes the stream's retention, which the log applies to itself.
func (r *replicaReader) bound(c *actors.Context, bounds upload.Bounds) {
	if bounds != r.bounds {
		r.bounds = bounds
		r.step(c, upload.Retain{Bounds: bounds})
	}
}

func (r *replicaReader) registered(c *actors.Context, msg registry.Registered) {
	switch msg.Name.Kind {
	case "manifest_replica":
		r.step(c, upload.ReplicaUp{})
	case "governor":
		r.step(c, upload.GovernorUp{})
	}
}

func (r *replicaReader) asks(c *actors.Context, req *actors.Request) {
	switch ask := req.Body.(type) {
	case upload.AwaitDurable:
		in := upload.Await{ID: r.keep(req), Next: ask.Next}
		if ask.For > 0 {
			in.Until = r.now().Add(ask.For)
		}
		r.step(c, in)
	case upload.CutNow:
		r.step(c, upload.ForceCut{ID: r.keep(req), Upto: r.cfg.Local.Committed(), Until: r.now().Add(ask.For)})
	case upload.ResetManifest:
		r.step(c, upload.Reset{ID: r.keep(req)})
	case upload.Describe:
		req.Reply(r.machine.Status())
	default:
		req.Fail(fmt.Errorf("replica reader of %s: %T is no question it answers", r.id, req.Body))
	}
}

// keep remembers a question that the machine answers.
func (r *replicaReader) keep(req *actors.Request) upload.WaiterID {
	r.asked++
	r.waiters[r.asked] = req
	return r.asked
}

// Terminate waits for the end of a persist, whose context is cancelled: a pointer that
// moved after this process ended would be a conflict for its successor.
func (r *replicaReader) Terminate(*actors.Context, actors.Reason) {
	r.abort()
	for _, t := range r.persists {
		<-t.Done()
	}
}

func (r *replicaReader) stamp() upload.Stamp {
	uid := pos.UID(r.cfg.Random())
	for uid == 0 {
		uid = pos.UID(r.cfg.Random())
	}
	// The wall clock of the start moved on by the monotonic one: setting the clock
	// neither stops a retry nor makes all of them due.
	return upload.Stamp{Now: r.now(), UID: uid}
}

func (r *replicaReader) now() pos.Millis { return pos.MillisOf(r.start.Add(time.Since(r.start))) }

func (r *replicaReader) step(c *actors.Context, in upload.Input) {
	if r.ended != nil {
		return
	}
	r.effects = r.machine.Step(upload.Stamped(in, r.stamp()), r.effects[:0])
	for _, e := range r.effects {
		r.do(c, e)
	}
	r.publish(c)
}
