// Package manifestreplica is the node's cache of manifests: a Table that readers
// look at without a lock, and the one process that fills it.
//
// It is fed by the writers' replica readers only, with what they persisted: a Sync
// is a whole manifest, an Edits takes the row from one revision to the next. What
// does not fit exactly changes nothing and asks the sender for a Sync; what is older
// than the row is dropped. A row that is missing or pending means: it is not known.
//
// The table belongs to the process's incarnation. When it ends the table is empty,
// so that nobody reads what nobody keeps up to date; the replica readers, told by
// the registry when the name is held again, send their rows anew.
package manifestreplica
