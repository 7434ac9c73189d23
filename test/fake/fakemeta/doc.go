// Package fakemeta is a port.Metadata and port.Sessions in memory with faults to order.
//
//	Meta
//	 ├── hooks       Latency, then Fault, then the operation, then After
//	 ├── streams     id → row           seq  the number of the last change
//	 ├── pointers    id → pointer       used id → highest revision ever stored
//	 ├── anchors     ids                gone id → name, seq of every deleted stream
//	 ├── deletions   queue
//	 ├── captures, settings
//	 └── sessions, leases               on the bubble's clock
//
// There is no goroutine here. A hook runs without any lock held; latency is a timer, so
// it costs nothing in a bubble and ends with the context.
package fakemeta
