// Package reaper is the process that deletes a node's garbage from the object store:
// the shell around core/collect. It is registered as {"reaper", "", node} and takes
// collect.Delete as a plain message.
//
// What it holds is in memory only. What its end loses is never anything that a
// manifest names; it stays in the store until a sweep finds it.
package reaper
