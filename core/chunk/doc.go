// Package chunk is the format of one chunk: the unit in which records are
// written, replicated, uploaded and delivered. It is the only code that touches
// the bytes of records. The format is that of RabbitMQ streams, byte for byte.
//
// All integers are big endian; times are milliseconds since 1970, signed.
//
//	 byte 0        1        2                 4                          7
//	+--------+--------+-----------------+-----------------------------------+
//	|  0x50  |  type  |     entries     |              records              |
//	+--------+--------+-----------------+-----------------------------------+
//	|                              timestamp                                |  8
//	+-----------------------------------------------------------------------+
//	|                                epoch                                  | 16
//	+-----------------------------------------------------------------------+
//	|                     id = offset of the first record                   | 24
//	+-----------------------------------+-----------------------------------+
//	|        CRC-32 of the data         |             data size             | 32
//	+-----------------------------------+--------+--------------------------+
//	|           trailer size            | filter |   reserved (ignored)     | 40
//	+-----------------------------------+--------+--------------------------+
//	|  filter (0, or 16 to 255 bytes)  |  data  |  trailer                  | 48
//	+-----------------------------------------------------------------------+
//
// The first byte is magic 5 and format version 0. Types: 0 user, 1 tracking
// delta, 2 tracking snapshot. The next chunk's id is id + records. A sub-batch
// counts as one entry and as many records as it holds. The CRC (IEEE) covers the
// data only: damage to the header, the filter and the trailer it does not show.
//
// The data is a run of entries:
//
//	simple:    0 | length 31 bit | body
//	sub-batch: 1 | compression 3 bit | reserved 4 bit | records u16 |
//	           uncompressed length u32 | stored length u32 | body
//
// The body of a sub-batch is a run of simple entries, compressed as a whole: 0
// not, 1 gzip, 2 snappy, 3 lz4, 4 zstd, 7 user defined. This package reads code 0
// and reports the others as a CompressedError.
//
// The trailer is a run of tracking entries: kind u8 (0 sequence, 1 offset, 2
// timestamp), id length u8, id, value 64 bit.
//
// # The filter
//
// A Bloom filter over the filter values of the chunk's entries, present when at
// least one entry has such a value. Bit 0, the most significant bit of the first
// byte, says that an entry without a value is in the chunk. Each value sets two
// of the other bits: 1 + a mod (bits-1) and 1 + b mod (bits-1), where a is the
// 64-bit FNV-1a hash of the value put through the finisher of splitmix64, and b
// is a put through it once more. RabbitMQ uses a hash of Erlang's here, so the
// filters of chunks that RabbitMQ wrote say nothing to this package; no filter
// ever reaches a client.
package chunk
