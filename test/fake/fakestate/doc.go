// Package fakestate is a port.NodeState in memory with faults to order.
//
//	State
//	 ├── identity   node, data incarnation, created; a fresh nonce per process
//	 ├── boot id    of the kernel
//	 └── replicas   stream id → record; always durable
//
// There is no goroutine and no clock here, and a hook runs without any lock held.
package fakestate
