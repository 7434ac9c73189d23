// Package fragment cuts a stream's committed chunks into the objects that lie in
// the object store, and knows those objects' layout and names. A fragment holds
// whole chunks, byte for byte as in the segment files, and is written once.
//
// An object, all integers big-endian:
//
//	at            size        what
//	0             4           magic "MRFR"
//	4             4           version, 1
//	8             data        the chunks, back to back; segment headers are left out
//	8+data        24*chunks   the index, one record a chunk:
//	                            8 offset of the chunk's first record
//	                            8 timestamp, milliseconds
//	                            8 position of the chunk's first byte in this object
//	8+data+index  20          the footer:
//	                            8 position of the index in this object
//	                            4 number of chunks
//	                            4 CRC-32C of the index
//	                            4 CRC-32C of everything before this field
//
// The length is known before the first byte is read (ObjectSize), and everything
// after the chunks is made from what the assembly noted while they went by, so an
// upload streams the segment files and buffers nothing.
//
// A reader that needs one chunk reads the index alone: it begins at DataStart plus
// the entry's size, ends with the object, and carries its own checksum. Chunks
// carry theirs.
//
// Names: <prefix>/<stream id>/data/<first offset, 20 digits>.<uid, 16 hexadecimal
// digits>.fragment. Every attempt to upload draws a new uid, so two writers that
// believe in the same offsets never overwrite each other.
package fragment
