// Package statetest checks what port.NodeState promises. Each implementation's own
// tests call Run with a function that opens the state of a new node called "n1".
package statetest
