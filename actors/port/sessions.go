package port

import (
	"context"
	"time"

	"millrace/core/pos"
)

// Session is a node that is up, as the metadata store sees it.
type Session struct {
	Node    pos.NodeID
	Data    pos.UID // the node's data incarnation
	Nonce   pos.UID // the process's boot nonce
	Expires pos.Millis
}

// Lease is the coordinator's lease.
type Lease struct {
	Name    string
	Holder  pos.NodeID
	Nonce   pos.UID
	Token   uint64 // grows with each change of holder or nonce, never reused
	Expires pos.Millis
}

// Sessions tells which nodes run and which of them coordinates. It saves time only:
// no safety rests on it. All times are the store's clock. Errors are *MetadataError.
type Sessions interface {
	// Register makes s.Node's session this one, and ends the session of its former
	// process.
	Register(ctx context.Context, s Session, ttl time.Duration) (Session, error)

	// Renew moves the end of a registered session. NotFound if it is not registered:
	// never, or another process registered this node since.
	Renew(ctx context.Context, node pos.NodeID, nonce pos.UID, ttl time.Duration) (Session, error)

	// Sessions returns those that have not expired, in the order of the nodes' names.
	Sessions(ctx context.Context) ([]Session, error)

	// AcquireLease takes the lease of that name, or renews it if the same process holds
	// it. Conflict if another process holds it and it has not expired.
	AcquireLease(ctx context.Context, name string, holder pos.NodeID, nonce pos.UID, ttl time.Duration) (Lease, error)
}
