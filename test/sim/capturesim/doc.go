// Package capturesim runs the machine of a capture against a PostgreSQL server, a log
// and a metadata store in memory, in one thread, with every answer delayed, lost or
// reordered as a random test likes it. What must hold is in the test.
package capturesim
