package writer

import (
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/port"
	"millrace/core/chunk"
	"millrace/core/pos"
	"millrace/core/segment"
	"millrace/hooks"
	"millrace/registry"
)

// Config is what one writer needs. Where a zero value is not useful it means the
// default that is named.
type Config struct {
	Stream pos.StreamID // also the name of the folder
	Node   pos.NodeID

	Log segment.Config
	// Retention, if set, tells the log's bounds in place of Log.Retention. It is asked when
	// the writer has its name: whoever changes the bounds and sends a SetRetention to that
	// name reaches the writer in one of the two ways.
	Retention  func() segment.Retention
	Capture    string        // that captures into this stream; "" = none
	FilterSize int           // bytes of a chunk's Bloom filter; 0 = 16
	IdleAfter  time.Duration // without an append for so long the log is idle; 0 = 60 s
	HoldBytes  int64         // of appends held while nothing can be written; 0 = 64 MiB

	Disk     port.Disk
	Metadata port.Metadata
	State    port.NodeState
	Hooks    *hooks.Hooks
	Registry *registry.Registry
	Logger   zerolog.Logger
	UID      func() pos.UID // fresh random uids, from any goroutine; nil = the runtime's generator
}

// Defaults of Config.
const (
	DefaultIdleAfter = 60 * time.Second
	DefaultHoldBytes = 64 << 20
)

func (c Config) withDefaults() Config {
	if c.FilterSize == 0 {
		c.FilterSize = chunk.DefaultFilter
	}
	if c.IdleAfter <= 0 {
		c.IdleAfter = DefaultIdleAfter
	}
	if c.HoldBytes <= 0 {
		c.HoldBytes = DefaultHoldBytes
	}
	if c.UID == nil {
		c.UID = func() pos.UID { return pos.UID(rand.Uint64() | 1) }
	}
	return c
}

// Name is the name a stream's writer has in the registry.
func Name(stream pos.StreamID, node pos.NodeID) registry.Name {
	return registry.Name{Kind: "writer", ID: string(stream), Node: string(node)}
}

// New returns the writer of one stream.
func New(cfg Config) actors.Process {
	cfg = cfg.withDefaults()
	return &writer{
		cfg:     cfg,
		m:       segment.New(cfg.Log),
		files:   files{disk: cfg.Disk, folder: string(cfg.Stream)},
		builder: chunk.NewBuilder(cfg.FilterSize),
		opener:  &opener{cfg: cfg},
		logger:  cfg.Logger.With().Str("stream", string(cfg.Stream)).Logger(),
		stage:   "opening",
	}
}
