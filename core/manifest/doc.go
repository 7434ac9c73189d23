// Package manifest is the list of a stream's fragments in the object store: its
// edits, search, invariants and encoding, and the messages by which a node's
// manifest replica is fed.
//
// A manifest covers [First, Next). Entries are in offset order, and each carries
// its own next offset, so that a declared gap can stand between two of them:
// records that local retention trimmed before they were uploaded. Readers cross a
// gap as they cross retention: they are moved, and it is counted.
//
// A *Manifest is a value: nothing changes it once it was made, so it may be
// shared freely. A Draft is its single owner's way to change it cheaply.
//
// A root object, all integers big-endian:
//
//	at    size  what
//	0     4     magic "MRMF"
//	4     4     version, 1
//	8     8     epoch of the writer that stored it
//	16    8     revision of the pointer that names it
//	24    8     first offset
//	32    8     next offset
//	40    8     timestamp of the first chunk, milliseconds; -1 without entries
//	48    8     latest timestamp in the first entry; -1 without entries
//	56    8     total size of the entries' data, bytes
//	64    4     number of entries
//	68    61*n  entries:
//	              8 first offset
//	              8 next offset
//	              8 timestamp of the first chunk
//	              8 latest timestamp
//	              8 epoch of the last chunk
//	              8 size of the data, bytes
//	              8 uid of the object
//	              4 number of chunks
//	              1 kind: 0 fragment; 1 group, 2 kilo-group, 3 mega-group are
//	                reserved and refused
//	end-4 4     CRC-32C of everything before it
//
// Epoch and revision stand in the body and in the name alike: after the metadata
// store was restored from a backup, the roots in the object store alone must tell
// which is the newest.
package manifest
