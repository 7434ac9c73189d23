// Package capturer is the process that captures one PostgreSQL database into one
// stream: the shell around core/pgout's Machine. It runs on the node of its stream's
// writer, waits until that is up, and is registered as {"capturer", name, node}.
//
// Whatever waits runs as a task. When the machine gives an attempt up, its tasks are
// cancelled and its connections closed, and nothing of the next attempt begins before
// all of that has ended; appends, which lie in the writer's mailbox, are waited for by
// an empty append behind them.
package capturer
