// Package metadb is the embedded metadata store of a single node: port.Metadata and
// port.Sessions in one bbolt file, metadata.db.
//
//	bucket     key                     value
//	about      kind, format, cluster   "metadata", "1", cluster id in hex
//	streams    stream id               port.Stream as JSON
//	names      stream name             stream id
//	changes    seq, 8 bytes            stream id; the newest change of each, deleted ones too
//	pointers   stream id               port.Pointer as JSON
//	used       stream id               highest pointer revision ever stored, 8 bytes; never removed
//	anchors    stream id               empty
//	gone       stream id               port.Stream {id, name, deleted, seq} as JSON; never removed
//	deletions  stream id               port.Deletion as JSON
//	captures   capture name            port.Capture as JSON
//	settings   key                     value
//	tokens     lease name              token last given out, 8 bytes
//
// Numbers are big-endian. The sequence of bucket changes numbers the changes of all
// streams. Each call is one transaction, and a write is fsynced before it returns.
//
// Nobody but this process can open the file, so sessions and leases live in memory and
// end with it; only a lease's token is stored, because it must never come twice. The
// generation is constant: the file is not replicated, so nothing rolls it back but
// an operator who restores a copy of the whole data folder.
package metadb
