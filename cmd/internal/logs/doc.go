// Package logs makes the node's logger: zerolog, as JSON or for people, from a level
// up, with the node's secrets blotted out of whatever anybody logs.
package logs
