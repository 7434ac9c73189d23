// Package pools is the process that owns one pool of connections to the object store: open while it runs, closed when it ends.
//
// The node has two of them, upload_pool and general_pool, so that reads never wait for
// uploads. While the process is down, what goes through its pool fails as unavailable, at
// once, and is tried again by whoever asked; a restart is thus the way to end connections
// that hang.
package pools
