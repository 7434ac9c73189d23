// Package fakedisk is a port.Disk in memory that knows what a power loss takes.
//
// What is written, and what would survive:
//
//	Disk
//	 └── folder            entries    name → node, as programs see them
//	      │                durable    name → node, as of the last SyncDir
//	      │                ops        creates and removes since then, in order
//	      └── node         content    bytes as programs see them
//	                       durable    bytes as of the last successful Sync
//	                       ops        writes and truncates since then, in order
//
// KillClone is the disk as the next process finds it after kill -9: content and
// entries. CrashClone and PageClone are what it finds after a power loss: what is
// durable, and of the ops what the caller chooses. Either way the old disk and all
// its handles fail from then on, as an owner that lost its disk would.
//
// There is no goroutine and no clock here. A hook runs without any lock held, so it
// may sleep on a bubble's virtual time, and call the disk.
package fakedisk
