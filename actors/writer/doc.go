// Package writer is the process that owns one local log: a shell around
// core/segment.
//
// # Start
//
// Init only registers the process as {"writer", stream, node}; it never fails for a
// reason in the world. A task then takes the lease on the stream's folder, which is
// given back when no code of this incarnation runs any more, makes this start a new
// epoch in the metadata store, and recovers the folder. What the world refuses makes
// the log wait and try again; appends are held meanwhile, up to Config.HoldBytes.
// When the log is found it is published to hooks.
//
// # Appending
//
// segment.Append comes as a request. A flush message to itself ends the batch, so
// what queued meanwhile is the batch; it becomes one chunk. Chunks are written while
// a sync is under way; the next sync covers them all. A request is answered when all
// its records are committed. With ExpectNext the expectation is compared when the
// append's first record gets its offset.
//
// # Clean and idle logs
//
// The node's state says of each log whether it is clean: both files synced, nothing
// written since. The mark is cleared before the first chunk is written and set when
// the log has been idle for Config.IdleAfter, and at an orderly stop. An idle log
// holds no file, no buffer and no goroutine, and after a crash its active segment
// need not be read.
//
// # Failures
//
// A failed write takes back the whole chunk and waits; the appends stay in the queue.
// A failed fsync is not retried: the files are cut to what is synced and the process
// ends with a crash reason, so that its successor starts in a new epoch.
package writer
