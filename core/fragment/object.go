package fragment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"millrace/core/pos"
)

// Sizes of the object's parts, in bytes.
const (
	DataStart       = 8 // the header, and so the position of the first chunk
	IndexRecordSize = 24
	FooterSize      = 20

	magic   = "MRFR"
	version = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum extends a CRC-32C, 0 at first, by b.
func Checksum(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Header returns the object's first DataStart bytes.
func Header() []byte {
	return binary.BigEndian.AppendUint32([]byte(magic), version)
}

// ObjectSize returns the length in bytes of the object that holds f.
func ObjectSize(f *Fragment) int64 {
	return DataStart + f.Size + int64(len(f.Index))*IndexRecordSize + FooterSize
}

// Tail returns all that follows the chunks, and the CRC-32C of the whole object
// as the store will see it. crc is the CRC-32C of the header and the chunks.
func Tail(f *Fragment, crc uint32) (tail []byte, object uint32) {
	tail = make([]byte, 0, len(f.Index)*IndexRecordSize+FooterSize)
	for _, r := range f.Index {
		tail = binary.BigEndian.AppendUint64(tail, uint64(r.Offset))
		tail = binary.BigEndian.AppendUint64(tail, uint64(r.Time))
		tail = binary.BigEndian.AppendUint64(tail, uint64(r.Position))
	}
	index := Checksum(0, tail)
	tail = binary.BigEndian.AppendUint64(tail, uint64(DataStart+f.Size))
	tail = binary.BigEndian.AppendUint32(tail, uint32(len(f.Index)))
	tail = binary.BigEndian.AppendUint32(tail, index)
	crc = Checksum(crc, tail)
	tail = binary.BigEndian.AppendUint32(tail, crc)
	return tail, Checksum(crc, tail[len(tail)-4:])
}

// Index is a fragment's index, as read back. It is never empty.
type Index []IndexRecord

// ParseHeader checks the first DataStart bytes of an object.
func ParseHeader(b []byte) error {
	if len(b) < DataStart || string(b[:4]) != magic {
		return fmt.Errorf("fragment: not a fragment object: it begins with %x, want %q", b[:min(len(b), 4)], magic)
	}
	if v := binary.BigEndian.Uint32(b[4:]); v != version {
		return fmt.Errorf("fragment: format version %d is not known here (want %d): a newer Millrace wrote it, upgrade this node", v, version)
	}
	return nil
}

// ParseIndex reads an index and the footer behind it: the bytes of an object from
// DataStart+dataSize to its end. It verifies the index's checksum, that offsets
// and positions rise, and that all positions lie in the data.
func ParseIndex(b []byte, dataSize int64) (Index, error) {
	if len(b) < IndexRecordSize+FooterSize || (len(b)-FooterSize)%IndexRecordSize != 0 {
		return nil, fmt.Errorf("fragment: index and footer take %d bytes, which is no whole number of records: the object is cut short or damaged", len(b))
	}
	records, footer := b[:len(b)-FooterSize], b[len(b)-FooterSize:]
	at, count, crc := binary.BigEndian.Uint64(footer), binary.BigEndian.Uint32(footer[8:]), binary.BigEndian.Uint32(footer[12:])
	switch got := Checksum(0, records); {
	case at != uint64(DataStart+dataSize):
		return nil, fmt.Errorf("fragment: footer puts the index at %d, want %d: the object and its manifest entry disagree", at, DataStart+dataSize)
	case int64(count)*IndexRecordSize != int64(len(records)):
		return nil, fmt.Errorf("fragment: footer counts %d chunks, the index has %d", count, len(records)/IndexRecordSize)
	case got != crc:
		return nil, fmt.Errorf("fragment: index checksum is %08x, want %08x: the object is damaged", got, crc)
	}
	return parseRecords(records, DataStart+dataSize)
}

func parseRecords(b []byte, end int64) (Index, error) {
	index := make(Index, 0, len(b)/IndexRecordSize)
	last := IndexRecord{Offset: -1, Position: DataStart - 1}
	for ; len(b) > 0; b = b[IndexRecordSize:] {
		r := IndexRecord{
			Offset:   pos.Offset(binary.BigEndian.Uint64(b)),
			Time:     pos.Millis(binary.BigEndian.Uint64(b[8:])),
			Position: int64(binary.BigEndian.Uint64(b[16:])),
		}
		if r.Offset <= last.Offset || r.Position <= last.Position || r.Position >= end {
			return nil, fmt.Errorf("fragment: index record %d (offset %d at %d) is out of order or outside the data, which ends at %d",
				len(index), r.Offset, r.Position, end)
		}
		index, last = append(index, r), r
	}
	if index[0].Position != DataStart {
		return nil, fmt.Errorf("fragment: the first chunk is at %d, want %d", index[0].Position, DataStart)
	}
	return index, nil
}

// Verify checks a whole object: header, index, footer and the checksum over all.
// It returns the index and the size of the data.
func Verify(object []byte) (Index, int64, error) {
	if err := ParseHeader(object); err != nil {
		return nil, 0, err
	}
	if len(object) < DataStart+IndexRecordSize+FooterSize {
		return nil, 0, fmt.Errorf("fragment: object has %d bytes: it is cut short", len(object))
	}
	end := len(object) - 4
	if got, want := Checksum(0, object[:end]), binary.BigEndian.Uint32(object[end:]); got != want {
		return nil, 0, fmt.Errorf("fragment: object checksum is %08x, want %08x: the object is damaged", got, want)
	}
	at := binary.BigEndian.Uint64(object[len(object)-FooterSize:])
	if at < DataStart || at > uint64(len(object)-FooterSize) {
		return nil, 0, fmt.Errorf("fragment: footer puts the index at %d of %d bytes", at, len(object))
	}
	size := int64(at) - DataStart
	index, err := ParseIndex(object[at:], size)
	return index, size, err
}

// Find returns the record of the chunk that contains o: the last one at or below
// it, or the first if o lies below all.
func (x Index) Find(o pos.Offset) IndexRecord {
	lo, hi := 0, len(x) // x[lo].Offset <= o < x[hi].Offset, but for lo == 0
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) / 2); x[mid].Offset <= o {
			lo = mid
		} else {
			hi = mid
		}
	}
	return x[lo]
}

// FindTime returns the record of the first chunk whose timestamp is t or later,
// or the last record if all are earlier. It looks at every record before it:
// timestamps need not rise.
func (x Index) FindTime(t pos.Millis) IndexRecord {
	for _, r := range x {
		if r.Time >= t {
			return r
		}
	}
	return x[len(x)-1]
}
