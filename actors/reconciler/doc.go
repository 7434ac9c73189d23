// Package reconciler is the process that gives every local log its replica reader. It
// is the last of the tiering tree to start and the first to stop: it installs itself
// in the hooks, looks at what runs already, and looks again on a timer, so that a
// stream whose replica reader gave up, or never came up, is picked up again.
//
// A log is served when a replica reader is registered for its stream that was started
// for its epoch. One of an earlier epoch is about to end, since its writer has.
package reconciler
