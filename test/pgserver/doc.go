// Package pgserver runs throw-away PostgreSQL clusters for tests and the demo: on a
// free loopback port, without fsync, and as another user when we are root, since
// PostgreSQL refuses to run as root.
package pgserver
