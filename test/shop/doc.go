// Package shop is a small PostgreSQL schema with writers that do to it all that a captured database may see.
//
// Its tables cover the replica identities (default, an index, the whole row with
// and without a key), partitions, values stored out of line, and types whose text
// is odd: infinities, NaN, years before Christ, arrays, json, bytes, enumerations,
// padded characters, the empty text beside NULL, and column names that need quotes.
//
// Each writer's transaction ends with a row in the table audit that says how many
// row events it consists of, so that a reader of the stream can tell that nothing
// is missing without asking PostgreSQL. A transaction that was acknowledged must be
// in audit; one whose connection broke at the commit may be.
package shop
