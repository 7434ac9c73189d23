// Package sim runs the whole node on fakes in virtual time, kills it at random effects, and checks that every event of the source is read back once and in order.
//
// One run is one seed. The source is a fake PostgreSQL under a random workload; the
// node's disk loses what was not synced when the power fails; the object store and
// the metadata store are slow and fail. The node dies by SIGKILL or power loss at
// random effects (a write, a sync, a put, a swap, a message to PostgreSQL: before it
// or after it), and a new one starts on what is left. All through the run followers
// read, and each record they see is held against what was seen at its offset before.
// At the end faults stop, the stream is read from its first record through the node,
// and compared with the source: commit by commit, and folded, table by table.
//
// The seed decides all random choices. Goroutines are scheduled by the Go runtime, so
// a seed is a strong hint and not a recording: a failure is repeated with -seed N -seeds 1,
// and if need be more than once.
package sim
