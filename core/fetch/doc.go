// Package fetch is one reader of a stream: what it asks for, where it reads and
// what it hands out, over the local log and the object store alike. The machine
// owns every decision; its shell, actors/reader, owns cursor, store and timers.
//
// A reader is pulled: Pull asks for chunks, Chunks hands them out. What it hands
// out is a run of whole user chunks in offset order, each once, each committed,
// each verified. Records that no tier has any more are passed over, and the answer
// says which (Chunks.Moved). Everything that can go wrong in the world is a state
// with a back-off, and a Pull that outlasts its Wait in it is told why (*Error).
//
// A reader is always in one of these phases:
//
//	seeking    it knows the offset it wants, not where that lies: it looks at what
//	           is known of the stream and asks core/resolve
//	asking     the metadata store is asked whether there is a manifest
//	opening    a cursor in the local log is being opened
//	local      it reads the local log, or waits at its tail
//	index      it reads a fragment's index to find where its offset lies
//	data       it reads a fragment's chunks, one range at a time
//
// At a fragment's end, at a 404, at a segment trimmed below it and when the local
// log's writer ends, it seeks again from its next offset. So every hand-off, from
// fragment to fragment, into the local log and out of it, is one decision made in
// one place, and the same one that is made at the start.
package fetch
