// Package keeper starts what should run on this node and doesn't: a writer or a
// capture whose supervisor gave up, a tiering tree that did.
//
// It is the last child of the node, so that whatever it starts has all that it
// needs. Decisions are core/keep's; this shell looks, and starts.
package keeper
