package pgout

import (
	"time"

	"millrace/core/pos"
)

// Config is what is fixed about a capture.
type Config struct {
	Name        string // of the capture
	Stream      pos.StreamID
	Slot        string
	Publication string
	OnSlotLost  OnSlotLost // "" is reload
	MaxValue    int64      // a larger value is omitted, bytes; 0: 64 MiB

	// One append is in flight, and the next is filled meanwhile: so twice this is held,
	// plus what one Received or Rows makes.
	BatchRecords int // records in one append; 0: 8192
	BatchBytes   int // bytes in one append, but for the record that passes it; 0: 8 MiB

	ConfirmEvery time.Duration // least time between confirmations; 0: 1 s
	InspectEvery time.Duration // time between inspections while streaming; 0: 30 s
	RetryMin     time.Duration // first wait after a failure; 0: 1 s
	RetryMax     time.Duration // longest; 0: 60 s
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	c.OnSlotLost = or(c.OnSlotLost, SlotLostReload)
	c.MaxValue = or(c.MaxValue, 64<<20)
	c.BatchRecords = or(c.BatchRecords, 8192)
	c.BatchBytes = or(c.BatchBytes, 8<<20)
	c.ConfirmEvery = or(c.ConfirmEvery, time.Second)
	c.InspectEvery = or(c.InspectEvery, 30*time.Second)
	c.RetryMin = or(c.RetryMin, time.Second)
	c.RetryMax = or(c.RetryMax, time.Minute)
	return c
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
