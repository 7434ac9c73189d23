// Package collect decides what the reaper deletes when: it gathers the keys of
// objects that nothing refers to any more into requests of at most BatchKeys, waits
// for the grace of each, one request at a time, and tries again what failed.
//
// Whoever hands a key over has made sure that it is garbage: what was persisted no
// longer names it. The grace is for readers that looked before.
package collect
