// Package probe decides when the object store is looked at, what is said of it, and whether
// anything may be put into it.
//
// A round is two questions, one after the other: whose is the prefix (port.Claimant, one read
// once it was claimed), and does the store answer and take a write (port.ObjectStore.Probe). What is definite
// (accessible, no such bucket, access denied, owned by another cluster, its marker gone or
// damaged) is the state.
// Anything else (a timeout, a server error, throttling) says nothing of the store and
// leaves the state as it is: only that it is unknown now is shown.
//
//   - The first round is at once. The next one is Retry later until all is well, Interval later
//     then. Who waits for the store is told when it stops telling how it is, and when it is well.
//   - Until the prefix is known to be ours nothing is put or deleted. Once it is, no failure
//     takes that back; only another owner does, and a marker or bucket that is gone, or a
//     marker that is damaged: then this may be an empty store in the place of ours. It is
//     ours again once the marker is.
//   - An operation that fails is a reason for a round, Retry after the last one at the
//     earliest: what has changed is known then, and not only after Interval.
//   - A question that is not answered after Timeout says that the store is away. It is put again
//     so often, beside what is open, until GiveUp: a store that is back is found to be soon, and
//     one that needs long for each answer is understood. What comes first is the answer, but for
//     a try whose time was over while another is open.
//   - The two have times of their own: a store that needs long for a write is asked whose it is all
//     the same when that is due. The next round begins then, beside the second question of this
//     one, which it does not put again.
//   - A round that is asked for while the first question is open follows at once.
//   - While things are put, whose the prefix is is asked every Active: what goes into a store
//     that took the place of ours is lost, and so is what is trimmed from local disk for it.
//   - Who is about to give something up asks for a look, and is told whose the prefix is as of
//     a round that began after that: what was known may be minutes old.
//   - An operator's claim puts the marker where it is gone or damaged, so often as RestoreTries says
//     while no answer comes in time, and is looked at like any other owner. That it had to be put
//     means that this may be another store. From the first try on nothing is put into the
//     store, and nothing freed for being in it, until that is known.
//   - A publisher is never stopped, whatever is found: what can't be uploaded stays on
//     local disk, within its bounds.
package probe
