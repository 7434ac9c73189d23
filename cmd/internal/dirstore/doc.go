// Package dirstore is an object store in a directory: port.ObjectStore on the local
// disk or a mounted file system, the default of a single node.
//
//	<root>/
//	├── .tmp/                      never listed
//	│   └── <16 hex digits>/       of one process; removed by the next one after it ended
//	│       ├── lock               flock'ed while the process runs
//	│       └── <16 hex digits>    an object being written
//	├── <prefix>/cluster           a key is the path of its object below the root
//	└── <prefix>/<stream id>/
//	    ├── data/00000000000000000000.<uid>.fragment
//	    └── metadata/root.<epoch>.<revision>.<uid>.manifest
//
// Put writes a file of .tmp, verifies size and CRC-32C of what it was given, syncs it, makes
// the folders of the key, renames the file (links it for "if absent", which of several
// lets one win), and syncs the folder. Folders are synced into their parents once per
// process, because a former one may have been killed before it did. Delete syncs
// each folder once and removes those it emptied.
//
// A name that begins with a dot is no object, so nothing of this layout can be
// reached by a key. Several processes may use one directory, under prefixes of their own.
package dirstore
