// Package pace decides when a transfer may start, so that all uploads of a node
// together keep to a rate: a token bucket whose tokens are bytes.
//
// It grants, it does not run: a replica reader submits a transfer, is granted it,
// carries it out in a task of its own, and says when it is done. What is asked
// for is one queue, strictly first in, first out: while a large transfer waits for
// its tokens nothing overtakes it, or a stream of small ones could starve it.
//
//   - A transfer is granted as soon as the bucket holds its size, or is full: one
//     larger than the bucket waits for a full one and leaves a debt, so that the rate
//     holds over time whatever the sizes are.
//   - At most so many are under way at once: the wait for a connection is spent in the
//     queue, where no deadline runs.
//   - It is charged once, when granted. What fails and is tried again asks again.
//   - Whoever is dead by the time its turn comes is dropped and costs nothing.
package pace
