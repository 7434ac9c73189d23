// Package node is the tree of a whole node, in one readable table, and what the operator's surface asks of it.
//
// It alone imports every role. It decides nothing that a role or a core decides: it
// hands each process what it needs, and answers questions from what they publish.
package node
