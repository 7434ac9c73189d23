// Package pos holds the values all of Millrace speaks in: offsets, epochs, LSNs,
// milliseconds, and the names of streams and nodes.
//
// Each is a distinct type, so that the compiler tells a position in a stream from
// a position in PostgreSQL's WAL, and each has a Parse that accepts exactly what
// its String prints.
package pos
