package port

// Pool is a bounded set of connections to the object store, shared by whatever is
// routed through it. Safe from any goroutine; no method blocks.
//
// A pool carries nothing until Open, and nothing after Close: what is asked of the
// store through it meanwhile fails with class Unavailable at once.
type Pool interface {
	// Open lets operations through from now on. Opening an open pool changes nothing.
	Open()
	// Close ends what is under way (class Unavailable) and closes every connection.
	Close()
	// Stats says how the pool is used now.
	Stats() PoolStats
}

// PoolStats is a pool at one moment. Its counts begin with the pool and never fall.
type PoolStats struct {
	Max     int   `json:"max"`     // connections at the same time
	Open    int   `json:"open"`    // connections there are
	InUse   int   `json:"in_use"`  // of these, carrying an operation
	Waiting int   `json:"waiting"` // operations that wait for a connection
	Taken   int64 `json:"taken"`   // times that an operation got a connection
	Waited  int64 `json:"waited"`  // of these, after it had to wait for one
}
