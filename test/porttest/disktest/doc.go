// Package disktest checks what port.Disk promises. Each implementation's own tests
// call Run with a function that opens an empty disk.
package disktest
