// Package upload is the replica reader: what brings one stream's committed chunks
// from the local log into the object store, and says how far it got.
//
// Symbols: the local log holds [LF, T), where T is the fsynced end. The manifest
// covers [f, n). Chunks from n on are read (headers only), gathered into
// fragments, uploaded, and their entries appended to the manifest. Then the
// manifest is persisted: its root object is put, and the pointer in the metadata
// store moved to it by compare-and-set.
//
// # The path of a fragment
//
//	cut -> (anchor) -> submitted -> granted -> uploaded -> applied -> persisted
//
// Several are under way at once, in any order; they are applied in the order they
// were cut, and only where they meet the manifest's next offset. One that fails
// keeps its place, and nothing behind it is applied, until it succeeds or its
// segment is gone. What the local floor passed (LF > n) is never uploaded: the next
// fragment begins later, and [n, LF) is a declared gap.
//
// # What others are told
//
// Only what was persisted. The manifest that grows here is shown to nobody; a
// persist takes a snapshot of it and of the edits that lead to it, and it is this
// snapshot that the manifest replica, the local log's retention and whoever waits
// for durability hear of, once the pointer names it.
//
// # What goes wrong
//
// Every failure of the world is a state with a time at which it is tried again.
// Each thing that can be tried again has a time of its own (a fragment, the anchor,
// the root, the pointer, the reading of the log), and Step looks at all of them each
// time: no event has to remember to re-arm another. What has failed for as long as Passes, or
// for a reason that does not pass by itself, is shown as a stall, with the offset that does
// not get on. While the store is away one thing of a stream tries it.
//
// When the truth has to be learned anew (the pointer was moved by somebody else), the
// generation is raised and what was under way is dropped: what comes back for an
// earlier generation is ignored. Whoever waits for an offset goes on waiting. So it is when
// the store is the cluster's again after it was not: what this node remembers of it counts
// for nothing then, and the local log keeps what it has. A manifest that is lost is never
// taken for an empty one; only an operator gives it up.
package upload
