// Package disk is the local disk of the stream logs: port.Disk on a folder.
//
//	<data>/streams/
//	├── <stream id>/                    mode 0700
//	│   ├── 00000000000000000000.segment    mode 0600; names and bytes are the log's
//	│   └── 00000000000000000000.index
//	└── .removing/                      what RemoveFolder is removing; what a former process
//	    └── <stream id>/                left there is swept when the disk is opened
//
// A folder is removed by renaming it first, so that no half of one is ever found.
// Leases live in this process: the lock of the data folder keeps others out.
package disk
