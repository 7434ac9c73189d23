// Package segment decides where the chunks of one local log lie, what is written,
// synced and committed, and what may be deleted. It sees no byte of a record and
// holds no file: batches go in, effects come out.
//
// # Files
//
// One folder holds one log, as pairs of files named after the offset of their
// first record in 20 decimal digits. The order of the names is that of the
// offsets. Other files are not looked at.
//
//	00000000000000000000.segment   "OSIL" u32 version 1 | chunk | chunk | ...
//	00000000000000000000.index     "OSII" u32 version 1 | record | record | ...
//
// An index record has 29 bytes and stands for one chunk, in the same order:
//
//	chunk id u64 | timestamp i64 | epoch u64 | position in the segment u32 | type u8
//
// The newest pair is the active one. All others are closed: they begin and end
// where their neighbours do, and were synced before their successor was made. The
// active index is not synced; it is believed after a clean stop only.
//
// # The machine
//
// A shell sends one input to Machine.Step, executes the effects in order, and
// sends what became of them. When an effect fails, the shell drops the rest of
// that step's effects and sends Failed at once; the machine then stands where it
// stood before the failed effect.
//
// Four offsets, each the one after the last record meant:
//
//	first      where the oldest segment begins
//	committed  readers, confirms, uploads see [first, committed)
//	synced     survives a power loss; what is both synced and committed is published
//	last       written
//
// What commits is decided outside: with one member by Machine.Alone, with three
// by their majority. Sync modes differ in when a Sync is issued, and in what Alone
// answers; a roll, an idle log and a stop sync in every mode.
package segment
