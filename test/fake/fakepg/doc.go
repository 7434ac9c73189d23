// Package fakepg is a PostgreSQL server in memory, as far as a capture can tell: tables,
// interleaved transactions with savepoints, a WAL with LSNs in commit order, logical
// slots, snapshots that die with their connection, pgoutput. It runs in synctest
// bubbles: nothing in it waits but on channels and timers.
//
// What it keeps of the real server, seen there by test/porttest/pgtest:
//
//   - a transaction comes whole if its commit record begins at or above the start, and
//     not at all otherwise, also when the start lies beyond the WAL;
//   - a start below confirmed_flush is moved up to it silently;
//   - a commit record can begin at a slot's consistent point itself;
//   - creating a slot waits for the transactions that run;
//   - keepalives also come inside a transaction, with a WAL end before its commit;
//   - the publication is looked up in the catalog as it was at the change being decoded:
//     a change made while there was none ends every stream that comes to it;
//   - an empty transaction is not sent; a relation is described before its first change
//     on a connection and after its shape changed.
package fakepg
