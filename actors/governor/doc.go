// Package governor is the process that paces a node's uploads: the shell around
// core/pace. It is registered as {"governor", "", node}, takes pace.Submit, Done and
// Cancel from replica readers, and answers pace.Granted to the one that is registered
// for the stream.
//
// It grants and never runs a transfer, so its end harms none: what was granted goes
// on, and what still waited is submitted again when its name is registered again.
// Whoever was granted something and dies is noticed by a monitor.
package governor
