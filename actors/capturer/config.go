package capturer

import (
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/hooks"
	"millrace/registry"
)

// Config is what a capturer is given.
type Config struct {
	Name        string       // of the capture
	Node        pos.NodeID   // this node
	Stream      pos.StreamID // the capture's own stream, whose writer runs on this node
	Slot        string
	Publication string
	OnSlotLost  pgout.OnSlotLost // "" is reload
	MaxValue    int64            // a larger value is omitted, bytes; 0: 64 MiB

	Hooks    *hooks.Hooks
	Registry *registry.Registry
	Disk     port.Disk
	Metadata port.Metadata
	Postgres port.Postgres
	Metrics  port.Metrics
	Log      zerolog.Logger

	// What follows is 0 but in tests: pgout's defaults.
	BatchRecords int
	ConfirmEvery time.Duration
	InspectEvery time.Duration
	RetryMin     time.Duration
	RetryMax     time.Duration
}

func (c Config) machine() pgout.Config {
	return pgout.Config{Name: c.Name, Stream: c.Stream, Slot: c.Slot, Publication: c.Publication, OnSlotLost: c.OnSlotLost, MaxValue: c.MaxValue,
		BatchRecords: c.BatchRecords, ConfirmEvery: c.ConfirmEvery, InspectEvery: c.InspectEvery, RetryMin: c.RetryMin, RetryMax: c.RetryMax}
}

// Longest waits for the world, by operation. What waits for messages has none.
const (
	storeTimeout   = 15 * time.Second
	inspectTimeout = time.Minute
	slotTimeout    = 5 * time.Minute // the server's own lock timeout ends sooner
	loadTimeout    = 10 * time.Minute
)

// seek is how often a writer that is not up is looked for, besides being told.
const seek = 200 * time.Millisecond

// beat is how often the status is published.
const beat = time.Second
