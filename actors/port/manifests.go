package port

import (
	"millrace/core/manifest"
	"millrace/core/pos"
)

// Manifests is the node's cache of the streams' manifests, as its manifest replica
// keeps it. It is safe from any goroutine, and takes no lock and no message.
type Manifests interface {
	// Manifest returns a stream's row. Not ok means the same as a pending row: it is not
	// known what the object store holds, so a reader that needs it fails closed.
	Manifest(id pos.StreamID) (manifest.Row, bool)
}
