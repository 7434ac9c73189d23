// Package fakestore is a port.ObjectStore in memory with faults to order.
//
//	Store
//	 ├── hooks    Latency, then Fault, then the operation, then After
//	 └── objects  key → bytes, time stored; whole objects only
//
// There is no goroutine here. A hook runs without any lock held; latency is a timer, so
// it costs nothing in a bubble and ends with the context.
package fakestore
