// Package pgtest is the contract of port.Postgres as tests, which the fake and the real
// adapter both pass; the last of them runs a capture's machine on the port. World and
// Fold are what that takes, for other tests of captures too.
package pgtest
