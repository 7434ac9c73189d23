package fragment

import (
	"millrace/core/pos"
)

// Span is a run of bytes of one local segment file: [Start, End).
type Span struct {
	Segment    pos.Offset // the segment's first offset, which is its file's name
	Start, End int64
}

// Size returns the span's length in bytes.
func (s Span) Size() int64 { return s.End - s.Start }

// IndexRecord says where one chunk lies in the object.
type IndexRecord struct {
	Offset   pos.Offset // of the chunk's first record
	Time     pos.Millis // the chunk's timestamp
	Position int64      // of the chunk's first byte, counted from the object's first
}

// Fragment is a cut run of chunks: what will be, or is, one object.
//
//  1. First < Next, and the records [First, Next) are all in it
//  2. Index has one record a chunk, offsets and positions rising, the first at
//     First and DataStart
//  3. the spans' sizes add up to Size
//  4. Headers has one checksum a chunk
type Fragment struct {
	First, Next pos.Offset
	FirstTime   pos.Millis // of the first chunk
	LastTime    pos.Millis // the latest of all chunks: clocks can run backwards
	Epoch       pos.Epoch  // of the last chunk
	Size        int64      // bytes of all chunks, as on disk
	Chunks      int
	Spans       []Span
	Index       []IndexRecord
	Headers     []uint32 // chunk.Header.Sum of each, as it was read when it was added; not stored
	UID         pos.UID  // drawn for each attempt to upload; zero before
}
