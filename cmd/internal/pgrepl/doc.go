// Package pgrepl is the PostgreSQL adapter of captures: it implements port.Postgres on
// pgconn and pglogrepl.
//
// Everything runs on connections with replication=database: they take the replication
// commands and plain SQL, and opening one proves that the role may replicate.
package pgrepl
