// Package s3server runs throw-away S3 servers for tests and the demo: versitygw on a free
// loopback port, over a folder of its own. scripts/need-versitygw builds the program.
package s3server
