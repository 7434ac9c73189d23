// Package pgout decides everything about the capture of one PostgreSQL database:
// it reads pgoutput (the logical decoding plugin's wire format, proto_version 1,
// text values), writes event records, and keeps the progress of one capture.
//
// # Messages
//
// Decoder turns the payload of one XLogData message into a Message. Every length is
// checked, so bytes cut short or bent give an error and never a panic. Encode is its
// inverse.
//
// # Records
//
// A record is one AMQP 1.0 data section that holds a JSON object:
//
//		+------+------+------+------------------------------+-----------+
//		| 0x00 | 0x53 | 0x75 | 0xa0 length u8 (<= 255)      | JSON      |
//		|      |      |      | 0xb0 length u32 (big endian) |           |
//		+------+------+------+------------------------------+-----------+
//
//		{"op":"u","before":{...},"after":{...},"unchanged":["photo"],"omitted":{"scan":70000000},
//		 "source":{"lsn":"1/A3000028","seq":0,"last":true,"txId":771,"ts_us":1772452804118000,
//		           "schema":"public","table":"orders","snapshot":"no"},
//		 "ts_ms":1772452804131}
//
//	  - op: c, u, d (changes), r (a loaded row), t (truncate, or void), m (message).
//	  - before and after stand in c, u, d and r, null where there is none. before holds
//	    the key columns only unless the table's replica identity is FULL.
//	  - int2, int4, int8, float4 and float8 are JSON numbers; NaN, Infinity and
//	    -Infinity, which JSON cannot say as numbers, are strings. bool is true or false.
//	    Everything else is PostgreSQL's text in a string. NULL is null. Bytes that are
//	    not UTF-8 (a SQL_ASCII database) come out as U+FFFD.
//	  - unchanged names the columns an update left alone in TOAST storage: absent from
//	    after, their value is what it was.
//	  - omitted gives the size in bytes of values that were too large to take: absent
//	    from the image (before or after) that held them.
//	  - m carries "message": {"kind":"schema"|"loaded","identity":"d","columns":[{"name",
//	    "type_oid","type_mod","key"}]}; loaded also "rows" and "lsn". Kind "end"
//	    alone closes a transaction whose remaining changes are not taken any more.
//	  - snapshot: "no" (streamed), "first" (a void: the table is empty from here on),
//	    "yes" (a loaded row), "last" (the load of this table has ended).
//	  - ts_us is the commit's time, or the time the load began; ts_ms is when this record
//	    was made.
//
// The record's filter value is schema.table.
//
// # Position
//
// Every record has a Position (lsn, seq), rising strictly from void to void:
//
//   - streamed: lsn is where the commit record begins ("final LSN"), seq counts the row
//     changes of the transaction from 0, whether they were taken or not, so that a
//     resent transaction is numbered alike. A schema message has the seq of the change
//     it precedes and stands before it.
//   - loaded: lsn is the last LSN whose commits the snapshot holds, that is the slot's
//     consistent point less one: a commit record can begin at the consistent point
//     itself. A table loaded alone goes on counting seq where the stream stands.
//
// # Progress
//
// Machine is the progress of one capture; Decide is the table of what to do at start.
package pgout
