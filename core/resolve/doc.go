// Package resolve decides where a reader begins, and where it goes on when the
// place it reads from ends: from what it asks for and what is known of the stream
// to a place in the local log or in the object store.
//
// Resolve is one total function. It never guesses: what it must know and does not
// is asked for (Ask) or refused (Unavailable), because a reader that is handed the
// local floor while the object store holds older records has silently lost them.
// Records that no tier has any more are passed over to the oldest that exist, and
// the answer says so.
//
// With LF the first local offset, C the committed one (LF == C: the local log is
// empty), and the manifest M = [f, n) if it is known:
//
//	asked       LF == 0 or at or above LF    below LF: known             M unknown
//	next        tail                         tail                        tail
//	last        last local user chunk        the same                    the same
//	offset o    local, at most C             in M: remote                Unavailable
//	                                         below f: oldest, moved
//	                                         in a gap or from n to LF:
//	                                         next that exists, moved
//	first       local, if LF == 0            f < LF: remote, else local  Unavailable
//	timestamp   local, if LF == 0            entry with a chunk as late  Unavailable
//	                                         and below LF: remote, else
//	                                         local
//
// M is unknown while the node's row is missing or pending. With tiering off there
// is no row: a stream without a manifest pointer is all local, one with a pointer
// is unavailable below LF until tiering is enabled.
//
// Where n < LF, a local place in the column "below LF: known" is Doubtful: the row
// may lag behind the manifest by whose seam the local log was trimmed.
package resolve
