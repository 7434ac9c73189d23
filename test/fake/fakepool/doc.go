// Package fakepool is a port.Pool in memory, and an object store reached through it.
//
//	Behind(store, pool, keyring)
//	 ├── keyring   what the request is signed with: none, no request
//	 ├── pool      a connection, for as long as the operation lasts
//	 └── store     any port.ObjectStore: the fake one, with its latency and faults
//
// Closing the pool ends the context of what is under way, which then fails as unavailable;
// what the store did is done. There is no goroutine here.
package fakepool
