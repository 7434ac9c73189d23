package segment

import (
	"encoding/binary"
	"fmt"
	"math"

	"millrace/core/chunk"
	"millrace/core/pos"
)

// Sizes in bytes of the parts of both files.
const (
	FileHeaderSize  = 8
	IndexRecordSize = 29
)

// MaxSegmentBytes is the largest size at which a segment is rolled: an index holds
// positions of 32 bits, and the chunk that crosses the line stays in the segment.
const MaxSegmentBytes = 3_000_000_000

const formatVersion = 1

// FileHeader is what every segment file begins with.
func FileHeader() []byte { return binary.BigEndian.AppendUint32([]byte("OSIL"), formatVersion) }

// IndexHeader is what every index file begins with.
func IndexHeader() []byte { return binary.BigEndian.AppendUint32([]byte("OSII"), formatVersion) }

// CheckFileHeader reports why b is not what a segment file begins with.
func CheckFileHeader(b []byte) error { return checkHeader(b, "segment", FileHeader()) }

// CheckIndexHeader reports why b is not what an index file begins with.
func CheckIndexHeader(b []byte) error { return checkHeader(b, "index", IndexHeader()) }

func checkHeader(b []byte, what string, want []byte) error {
	if string(b) != string(want) {
		return fmt.Errorf("%s file begins with %q, want %q", what, b, want)
	}
	return nil
}

// IndexRecord stands in an index file for one chunk.
type IndexRecord struct {
	ID        pos.Offset
	Timestamp pos.Millis
	Epoch     pos.Epoch
	Position  int64 // of the chunk in the segment file, less than 4 GiB
	Type      chunk.Type
}

// Append writes the record's IndexRecordSize bytes to the end of b.
func (r IndexRecord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(r.Position))
	return append(b, byte(r.Type))
}

// ParseIndexRecord reads one record. It fails when b is no record a writer makes.
func ParseIndexRecord(b []byte) (IndexRecord, error) {
	if len(b) != IndexRecordSize {
		return IndexRecord{}, fmt.Errorf("index record of %d bytes, want %d", len(b), IndexRecordSize)
	}
	r := IndexRecord{
		ID:        pos.Offset(binary.BigEndian.Uint64(b)),
		Timestamp: pos.Millis(binary.BigEndian.Uint64(b[8:])),
		Epoch:     pos.Epoch(binary.BigEndian.Uint64(b[16:])),
		Position:  int64(binary.BigEndian.Uint32(b[24:])),
		Type:      chunk.Type(b[28]),
	}
	if r.ID < 0 || r.Position < FileHeaderSize || r.Type > chunk.TrackingSnapshot {
		return IndexRecord{}, fmt.Errorf("impossible index record: id %d, position %d, %s", r.ID, r.Position, r.Type)
	}
	return r, nil
}

// IndexSize is the size of the index file of a segment with that many chunks.
func IndexSize(chunks int64) int64 { return FileHeaderSize + chunks*IndexRecordSize }

// IndexChunks is how many whole records an index file of that size holds: a file
// that is being written can end within one.
func IndexChunks(size int64) int64 { return max(0, (size-FileHeaderSize)/IndexRecordSize) }

// ChunkRef says where a chunk lies.
type ChunkRef struct {
	Header   chunk.Header
	Segment  pos.Offset // first offset of the segment: its file name
	Position int64      // of the chunk's first byte in the segment file
	Size     int64      // of the whole chunk on disk, in bytes
}

// End is the position after the chunk's last byte.
func (r ChunkRef) End() int64 { return r.Position + r.Size }

// Record is the index record that stands for the chunk.
func (r ChunkRef) Record() IndexRecord {
	h := r.Header
	return IndexRecord{ID: h.ID, Timestamp: h.Timestamp, Epoch: h.Epoch, Position: r.Position, Type: h.Type}
}

// fitsIndex reports whether an index can hold the position.
func fitsIndex(position int64) bool { return position <= math.MaxUint32 }

// Place is where a reader stands in a log.
type Place struct {
	Segment  pos.Offset
	Position int64      // of the next chunk in the segment file
	Next     pos.Offset // its id
}

// PlaceOf is the place of a segment's first chunk.
func PlaceOf(first pos.Offset) Place {
	return Place{Segment: first, Position: FileHeaderSize, Next: first}
}

// Pass moves past the chunk.
func (p *Place) Pass(r ChunkRef) { p.Position, p.Next = r.End(), r.Header.Next() }
