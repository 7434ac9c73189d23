package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/manifestreplica"
	"millrace/actors/port"
	"millrace/actors/reader"
	"millrace/actors/storemonitor"
	"millrace/core/pos"
	"millrace/core/settings"
	"millrace/hooks"
	"millrace/registry"
	"millrace/supervision"
)

// Ports are the node's ways to the world.
type Ports struct {
	Disk port.Disk
	// Store is for everything but whole fragments on their way up, which go through
	// Uploads: so that reads never wait for uploads. Of a directory both are the same.
	Store    port.ObjectStore
	Uploads  port.ObjectStore
	Remote   *Remote // nil: the store needs neither connections nor credentials
	Metadata port.Metadata
	State    port.NodeState
	Postgres func(settings.Capture) port.Postgres // of the capture's database
	Metrics  port.Metrics
	// Durations is where histograms go; nil: nowhere.
	Durations port.Durations
	// Serve makes the operator's HTTP surface of a node.
	Serve func(admin.Node) admin.Server
}

// Remote is what an object store beyond the network has besides: the ways through which
// Ports.Uploads and Ports.Store reach it, and what their requests are signed with. The
// tree owns all three, and opens them.
type Remote struct {
	Keyring     port.Keyring
	UploadPool  port.Pool
	GeneralPool port.Pool
}

// About is what the status says of the node beside what its processes tell.
type About struct {
	Version string
	Store   string // where the object store is
}

// Node is one running node.
type Node struct {
	cfg     settings.Settings
	ports   Ports
	about   About
	log     zerolog.Logger
	started time.Time

	identity  port.Identity
	cluster   port.Cluster
	system    *actors.System
	registry  *registry.Registry
	hooks     *hooks.Hooks
	manifests *manifestreplica.Table
	gate      *storemonitor.Gate
	bare      port.ObjectStore // the store itself, before the gate; ports has it behind
	budget    *reader.Budget
	root      atomic.Pointer[actors.Handle]
	standing  chan struct{} // closed when root is set: the children run before that
	readers   atomic.Uint64 // numbers the readers that the surface opens
	wish      wish          // whether tiering is wanted
	events    supervision.Ring
	observed  sync.Map // of true by string: the templates of children that were heard of
	absences  absences
	rows      rows
	unknown   atomic.Pointer[string] // why the streams are not known yet; nil: they are
}

const (
	notUp      = "the node is starting or stopping"
	neverAsked = "the keeper has not looked yet"
)

// Start brings up a node and returns once its tree stands. What the world refuses
// (a port in use, a database that is down) is then a state of the process concerned.
// An error means that the node's own stores can't be read, or a bug.
func Start(ctx context.Context, cfg settings.Settings, ports Ports, about About, log zerolog.Logger) (*Node, error) {
	identity, err := ports.State.Identity(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the node's own state: %w", err)
	}
	cluster, err := ports.Metadata.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata store: %w", err)
	}
	ports.Store = meter(ports.Store, ports.Metrics, ports.Durations)
	ports.Uploads = meter(ports.Uploads, ports.Metrics, ports.Durations)
	n := &Node{
		cfg: cfg, ports: ports, about: about, log: log, started: time.Now(),
		identity: identity, cluster: cluster,
		system:    actors.NewSystem(identity.Nonce),
		registry:  registry.New(),
		hooks:     hooks.New(),
		manifests: manifestreplica.NewTable(),
		gate:      storemonitor.NewGate(), bare: ports.Store,
		budget:   reader.NewBudget(readerMemory),
		standing: make(chan struct{}),
		wish:     wish{configured: cfg.Tiering.Enabled, turn: make(chan struct{}, 1)},
	}
	n.system.OnDropped(func(count int64) { ports.Metrics.Count("messages_dropped_total", count) })
	unasked := neverAsked
	n.unknown.Store(&unasked)
	if n.ports.Remote == nil {
		n.ports.Remote = &Remote{}
	}
	n.ports.Store, n.ports.Uploads = n.gate.Guard(ports.Store), n.gate.Guard(ports.Uploads)
	if err := n.wish.load(ctx, ports.Metadata); err != nil {
		n.system.Close()
		return nil, fmt.Errorf("reading the operator's wishes: %w", err)
	}
	root, err := n.system.Start(ctx, actors.Spec{
		Path: "node",
		New:  func() actors.Process { return supervision.New(rootFlags, n.children(), n.observe) },
	})
	if err != nil {
		n.system.Close()
		return nil, err
	}
	n.root.Store(root)
	close(n.standing)
	return n, nil
}

// Done closes when the tree has ended: after Stop, or when the root gave up.
func (n *Node) Done() <-chan struct{} { return n.root.Load().Done() }

// Reason tells why the tree ended.
func (n *Node) Reason() actors.Reason { return n.root.Load().Reason() }

// Stop stops the tree in reverse order and returns when it has ended. When ctx ends
// first, what is left is killed: nothing committed is lost by it, since a commit
// never waits for a stop.
func (n *Node) Stop(ctx context.Context) error {
	root := n.root.Load()
	root.Stop(actors.Reason{Kind: actors.Shutdown, Detail: "the node stops"})
	var err error
	select {
	case <-root.Done():
	case <-ctx.Done():
		root.Kill()
		err = fmt.Errorf("the node did not stop in time and was cut off: %w", ctx.Err())
	}
	n.system.Close()
	return err
}

// observe turns what the supervisors do into logs, metrics and the list of events.
func (n *Node) observe(e supervision.Event) {
	n.events.Add(e)
	n.absences.note(e)
	template := templateOf(e.Path, e.ID)
	n.introduce(template)
	n.ports.Metrics.Count("supervisor_events", 1, "kind", e.Kind.String(), "child", template)
	event := n.log.Debug()
	switch e.Kind {
	case supervision.EventStarted, supervision.EventIgnored:
	case supervision.EventRestarted:
		event = n.log.Info()
	case supervision.EventChildTerminated:
		if e.Reason.Abnormal() {
			event = n.log.Error().Str("stack", e.Reason.Stack)
		}
	case supervision.EventAutoShutdown:
		event = n.log.Info()
	case supervision.EventStartError, supervision.EventShutdownError, supervision.EventMaxIntensity, supervision.EventZombie,
		supervision.EventParked, supervision.EventStuck:
		event = n.log.Error().Str("stack", e.Reason.Stack)
	}
	event.Str("path", e.Path+"/"+e.ID).Uint64("incarnation", e.Incarnation).Stringer("reason", e.Reason).
		Int("restarts", e.Restarts).Msg(e.Kind.String())
}

// introduce makes the counters of a child that was not heard of before begin at 0: its
// first event is its start, and the one that somebody wants to be woken for comes later.
func (n *Node) introduce(template string) {
	if _, known := n.observed.LoadOrStore(template, true); known {
		return
	}
	for kind := supervision.EventStarted; kind <= supervision.EventStuck; kind++ {
		n.ports.Metrics.Count("supervisor_events", 0, "kind", kind.String(), "child", template)
	}
}

func (n *Node) node() pos.NodeID { return n.identity.Node }
