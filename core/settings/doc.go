// Package settings is the configuration of a node as one validated value.
//
// One table, Fields, says of every key what it is called, what kind of value it
// takes, in which unit, between which bounds, what it is when it is not given, and
// what it means. Parse, the defaults and docs/configuration.md all come from it;
// a key that is not in the table does not exist.
//
// Parse reports every fault it finds, not only the first. Each one names the key
// and the bound, so that a reader of files can add line and column.
package settings
