// Package datadir locks a node's data folder, so that two nodes never use one.
//
//	<data>/           mode 0700
//	├── lock          flock'ed while a node runs; holds its pid in decimal
//	├── node.db       package nodestate
//	├── metadata.db   package metadb, on a single node
//	└── streams/      package disk: one folder per stream
//
// The lock is the kernel's: it ends with the process, however that ends, and the pid
// in the file is only there to be told. It is not taken over a network file system's
// word: put the data folder on a local disk.
package datadir
