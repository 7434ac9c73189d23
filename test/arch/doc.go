// Package arch holds the house rules as tests: which folder may import what, what
// a pure folder may not hold, and that the map in ARCHITECTURE.md tells the truth.
//
// It parses the source files itself and runs no go command, so the test cache
// sees every file a verdict depends on. The rules are functions of a set of
// parsed files; the tests apply them to this repository, and to planted
// violations, one of each kind, which must be caught.
package arch
