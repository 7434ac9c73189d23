// Package registry maps names to the processes that hold them on this node. It knows
// nothing of what the processes do.
//
// # Concurrency
//
//   - A Registry is safe for concurrent use, and so is a nil one, where every name is
//     absent. Looking up takes a read lock and no message: it never waits for a process.
//   - A name is held by one live process. It is taken inside Init, so that whoever sees
//     the process started also finds its name, and given back by the process's end,
//     whatever that is: by its own wish, a crash, or a kill while it is blocked. Only the
//     incarnation that took it gives it back, so a zombie can't unregister its successor.
//   - The name is free before Done of its holder closes and before a supervisor is told,
//     so the restarted process can take it in its Init.
//   - A subscriber gets the changes of one name in order, as messages, beginning with
//     the present state. By the time it handles one the truth may be newer: WhereIs tells.
//     Nothing waits for a slow subscriber.
package registry
