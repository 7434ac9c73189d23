// Package fold reads the records of a captured stream the way a consumer does: Tables
// folds events into rows and compares them with PostgreSQL's, Ledger checks that each
// event is there once, in order, and that each transaction is whole.
package fold
