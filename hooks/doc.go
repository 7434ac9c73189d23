// Package hooks is the seam between the local logs and everything around them. A
// writer publishes its log here; whoever tiers, captures, reads or shows logs finds
// it here. It knows nothing of what they do, and nothing they do, or fail to do, can
// hold a writer up: messages are sent, never waited for.
//
// Log is the shared view of one running log, Hooks the list of these views and the
// one process that is told of changes, Cursor the way through a log's chunks on disk.
//
// # What a reader may rely on
//
// A Log's offsets only grow. Whoever reads Committed and then looks at the disk finds
// the chunks below it whole, until retention takes them. First grows before files go,
// so a reader that finds a segment gone finds First above it. Segments are named by
// Log.Segments: a folder also holds files that are no part of the log.
package hooks
