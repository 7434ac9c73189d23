// Package storemonitor is the process that looks at the object store, now and then: whose the prefix is, whether it can be used. It is the shell around core/probe.
//
// What it finds about the owner moves the Gate, which every put and every deletion of the
// node passes: nothing is written under a prefix that may be another cluster's, or in a place
// that may not be where our objects are. Reads pass always. What it finds else is for the operator alone: status, gauge, and a line of log
// when it changes. No publisher, capture or local reader ever depends on it.
package storemonitor
