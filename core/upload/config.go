package upload

import (
	"time"

	"millrace/core/backoff"
	"millrace/core/fragment"
	"millrace/core/pos"
)

// Config is fixed for the life of a Machine. A value that is not above 0 stands for
// its default, where one is named.
type Config struct {
	Stream   pos.StreamID
	Epoch    pos.Epoch // of the writer whose log this is
	Prefix   string    // of all keys in the object store
	Fragment fragment.Config
	// Discard gives up what the store holds when the local floor has passed the seam,
	// instead of declaring a gap. It takes effect with the first fragment beyond the
	// gap, so that something can be read at every moment.
	Discard bool
	// The manifest is persisted when it has PersistEdits (5) more edits, or one that is
	// PersistInterval (2 s) old, or when nothing is under way and the edits are worthwhile.
	PersistEdits    int
	PersistInterval time.Duration
	// MaxAhead (8) and MaxAheadBytes (512 MiB) bound the fragments that are cut and not
	// persisted; the first is allowed whatever its size. Beyond them nothing is read: the
	// local log keeps it, as long as its own bounds allow.
	MaxAhead      int
	MaxAheadBytes int64
	// Grace (1 h) is how long an object that nothing names any more is kept for readers
	// that looked before.
	Grace time.Duration
	// TransferDeadline (180 s) counts from the grant and from each Sent, and a second is added for
	// each slowestRate of bytes, which the store must make durable. A transfer of which nothing is
	// sent for longer has failed, whatever becomes of it. However slow the line is that many share,
	// what moves is not begun again: it would not end sooner then.
	TransferDeadline time.Duration
	// ReadPause is how long, at least, nothing is read after the end of the log was
	// reached: a busy stream is read in larger pieces. 0: no pause.
	ReadPause time.Duration
	// ReadChunks (512) bounds how many chunks are asked for at once.
	ReadChunks int
}

func (c Config) withDefaults() Config {
	def(&c.PersistEdits, 5)
	def(&c.PersistInterval, 2*time.Second)
	def(&c.MaxAhead, 8)
	def(&c.MaxAheadBytes, 512<<20)
	def(&c.Grace, time.Hour)
	def(&c.TransferDeadline, 180*time.Second)
	def(&c.ReadChunks, 512)
	return c
}

func def[T ~int | ~int64](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// worthwhile is how many bytes, in fragments, are a reason to persist by themselves: beside
// them a root costs nothing. Small fragments, one after the other, share one.
const worthwhile = 64 << 20

// slowestRate is the rate, in bytes a second, at which a store is expected to make an object durable.
const slowestRate = 1 << 20

func (c *Config) deadlineFor(bytes int64) time.Duration {
	return c.TransferDeadline + time.Duration(bytes/slowestRate)*time.Second
}

// Pauses between tries.
var (
	transient = backoff.Doubling{First: 10 * time.Millisecond, Last: 5 * time.Second}
	lasting   = backoff.Doubling{First: time.Second, Last: 30 * time.Second}
)

// pause returns how long to wait after a number of failures in a row. The first transient
// failure is tried again at once.
func pause(f Fault, failures int, random pos.UID) time.Duration {
	switch {
	case f != FaultTransient:
		return lasting.Jittered(failures, uint64(random))
	case failures <= 1:
		return 0
	}
	return transient.Jittered(failures-1, uint64(random))
}
