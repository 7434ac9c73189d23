// Package capturesim holds the tests that put a whole capture together on fakes: the
// machine alone with every answer delayed, lost or reordered as a random test likes it,
// and the process around it beside a real writer.
package capturesim
