// Package storetest checks what port.ObjectStore promises. Each implementation's own
// tests call Run with a function that opens an empty store.
package storetest
