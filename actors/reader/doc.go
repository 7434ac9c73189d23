// Package reader is one subscription of a stream: a process that is pulled and
// hands out committed chunks, from the local log and the object store alike.
//
// It is a shell around core/fetch, which decides everything. Local chunks are read
// within the process; the object store and the metadata store are asked in tasks, so
// the process always takes messages, and stopping it never waits for a store. One
// reader is one process, so what one of them waits for delays no other.
//
//	answer, err := handle.Call(ctx, fetch.Pull{MaxBytes: 1 << 20, Wait: time.Second})
//	chunks := answer.(fetch.Chunks) // or err is a *fetch.Error, which says what to do
//
// A reader ends when it is stopped, or when its owner ends; what it held is free then.
package reader
