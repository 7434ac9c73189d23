// Package boltfile opens the bbolt files of a node (metadata.db, node.db) and tells a
// failed commit for what it is.
//
//	<name>.db          the file; always fsynced, locked by bbolt while it is open
//	<name>.db.new      the file while it is being made; renamed when it is whole, so
//	                   that a crash leaves either no file or one with its "about"
//	bucket "about"     "kind" → what the file is for, "format" → version in decimal
//
// A commit of bbolt writes data pages, syncs, writes the meta page, syncs. What fails
// before the meta page changed nothing; its pages are free again. When the last sync
// fails, this process sees the change, but a power loss may undo it. Such a commit is
// reported as unknown, and before anything is read or written again an empty commit
// makes durable what is seen.
package boltfile
