// Package metatest checks what port.Metadata and port.Sessions promise. Each
// implementation's own tests call Run with a function that opens an empty store.
package metatest
