// Package faultproxy is a TCP proxy on loopback that breaks on demand: it delays,
// throttles, cuts, resets, refuses, or swallows what it is sent and never answers.
//
//	client ── accepted ──> Proxy ── dialled ──> target
//
// Set changes the faults of all connections, those that are open too; Next gives faults of
// its own to the next connection that comes.
package faultproxy
