// Package e2e runs the built program against real PostgreSQL servers, real files and real signals, and holds what comes out to what docs/ promises.
//
// Each test has a node of its own on a free loopback port, with its data in a temporary
// folder; databases share one throw-away cluster unless a test does something to the
// server. Nothing but what a test started is signalled, by its pid. A wait is a poll with
// a deadline. A node's log may hold no line of level error, since that is a bug or a
// loss, unless the test says which it provokes.
package e2e
