// Package pgtest is the contract of port.Postgres as tests. The fake and the real
// adapter both pass it.
package pgtest
