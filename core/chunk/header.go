package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"millrace/core/pos"
)

// HeaderSize is the size in bytes of every chunk's header.
const HeaderSize = 48

// magicVersion is the first byte of every chunk: magic 5, version 0.
const magicVersion = 0x50

// Type tells what a chunk's data is.
type Type uint8

// The types a chunk can have. Only user chunks are delivered to clients.
const (
	User             Type = 0
	TrackingDelta    Type = 1
	TrackingSnapshot Type = 2
)

// String names the type in words.
func (t Type) String() string {
	switch t {
	case User:
		return "user"
	case TrackingDelta:
		return "tracking delta"
	case TrackingSnapshot:
		return "tracking snapshot"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Header is what stands before a chunk's filter, data and trailer.
//
// A header that ParseHeader returned obeys:
//
//	H1  Type is one of the three known
//	H2  1 <= Entries <= Records
//	H3  ID >= 0, and Next does not overflow
//	H4  DataSize >= 4 per entry
type Header struct {
	Type        Type
	Entries     uint16     // entries; a sub-batch counts 1
	Records     uint32     // offsets the chunk takes up
	Timestamp   pos.Millis // when the writer sealed it
	Epoch       pos.Epoch  // of the writer that sealed it
	ID          pos.Offset // offset of the first record
	CRC         uint32     // CRC-32 (IEEE) of the data
	DataSize    uint32     // bytes
	TrailerSize uint32     // bytes
	FilterSize  uint8      // bytes; 0 = no filter
}

// ErrShort says that fewer bytes are there than a header has.
var ErrShort = errors.New("fewer bytes than a chunk header has")

// FormatError says which part of a chunk breaks the format, and how.
type FormatError struct {
	Part   string // "header", "data", "trailer"
	Detail string
}

// Error names the part and what is wrong with it.
func (e *FormatError) Error() string { return "chunk " + e.Part + ": " + e.Detail }

// ChecksumError says that a chunk's data is not what was written.
type ChecksumError struct {
	ID        pos.Offset
	Want, Got uint32
}

// Error names the chunk and both checksums.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("chunk %s: data has CRC %08x, the header says %08x", e.ID, e.Got, e.Want)
}

// ParseHeader reads the header at the start of b. It returns ErrShort when b has
// fewer than HeaderSize bytes and a *FormatError when no chunk begins there. The
// reserved bytes are not looked at: writers write 0 there, and a chunk whose data
// is whole is worth more than three unused bytes.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, ErrShort
	}
	if b[0] != magicVersion {
		return Header{}, &FormatError{"header", fmt.Sprintf("begins with %#02x, want %#02x", b[0], magicVersion)}
	}
	h := Header{
		Type:        Type(b[1]),
		Entries:     binary.BigEndian.Uint16(b[2:]),
		Records:     binary.BigEndian.Uint32(b[4:]),
		Timestamp:   pos.Millis(binary.BigEndian.Uint64(b[8:])),
		Epoch:       pos.Epoch(binary.BigEndian.Uint64(b[16:])),
		ID:          pos.Offset(binary.BigEndian.Uint64(b[24:])),
		CRC:         binary.BigEndian.Uint32(b[32:]),
		DataSize:    binary.BigEndian.Uint32(b[36:]),
		TrailerSize: binary.BigEndian.Uint32(b[40:]),
		FilterSize:  b[44],
	}
	return h, h.check()
}

func (h Header) check() error {
	switch {
	case h.Type > TrackingSnapshot:
		return &FormatError{"header", fmt.Sprintf("unknown %s", h.Type)}
	case h.Entries == 0 || uint32(h.Entries) > h.Records:
		return &FormatError{"header", fmt.Sprintf("%d entries with %d records", h.Entries, h.Records)}
	case h.ID < 0 || h.ID > math.MaxInt64-pos.Offset(h.Records):
		return &FormatError{"header", fmt.Sprintf("impossible id %d", uint64(h.ID))}
	case uint64(h.DataSize) < 4*uint64(h.Entries):
		return &FormatError{"header", fmt.Sprintf("%d bytes of data for %d entries", h.DataSize, h.Entries)}
	}
	return nil
}

// Append writes the header's HeaderSize bytes to the end of b.
func (h Header) Append(b []byte) []byte {
	b = append(b, magicVersion, byte(h.Type))
	b = binary.BigEndian.AppendUint16(b, h.Entries)
	b = binary.BigEndian.AppendUint32(b, h.Records)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(h.ID))
	b = binary.BigEndian.AppendUint32(b, h.CRC)
	b = binary.BigEndian.AppendUint32(b, h.DataSize)
	b = binary.BigEndian.AppendUint32(b, h.TrailerSize)
	return append(b, h.FilterSize, 0, 0, 0)
}

// Sum is a checksum of all that the header says, to know it again by. No file has it.
func (h Header) Sum() uint32 {
	var b [HeaderSize]byte
	return crc32.ChecksumIEEE(h.Append(b[:0]))
}

// Size is the whole chunk's size on disk in bytes.
func (h Header) Size() int64 {
	return HeaderSize + int64(h.FilterSize) + int64(h.DataSize) + int64(h.TrailerSize)
}

// DataStart is where the data begins, counted from the chunk's first byte.
func (h Header) DataStart() int64 { return HeaderSize + int64(h.FilterSize) }

// Next is the offset after the chunk's last record.
func (h Header) Next() pos.Offset { return h.ID + pos.Offset(h.Records) }

// Verify reports whether b is exactly one chunk whose data is what was written:
// a *FormatError or a *ChecksumError if not. It does not parse the entries.
func Verify(b []byte) error {
	h, data, err := split(b)
	if err != nil {
		return err
	}
	if got := crc32.ChecksumIEEE(data); got != h.CRC {
		return &ChecksumError{ID: h.ID, Want: h.CRC, Got: got}
	}
	return nil
}

// Filter returns the Bloom bytes of a whole chunk, nil if it has none.
func Filter(b []byte) ([]byte, error) {
	h, _, err := split(b)
	if err != nil || h.FilterSize == 0 {
		return nil, err
	}
	return b[HeaderSize:h.DataStart()], nil
}

// Trailer returns the trailer of a whole chunk.
func Trailer(b []byte) ([]byte, error) {
	h, _, err := split(b)
	if err != nil {
		return nil, err
	}
	return b[h.DataStart()+int64(h.DataSize):], nil
}

// split takes a whole chunk apart into header and data.
func split(b []byte) (Header, []byte, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return h, nil, err
	}
	if int64(len(b)) != h.Size() {
		return h, nil, &FormatError{"data", fmt.Sprintf("%d bytes, the header speaks of %d", len(b), h.Size())}
	}
	return h, b[h.DataStart() : h.DataStart()+int64(h.DataSize)], nil
}

// trailerKinds is the number of tracking kinds a trailer may hold.
const trailerKinds = 3

// CheckTrailer reports whether b is a run of whole tracking entries. Pages that
// were never written read as zeros, so a sequence without a publisher's name,
// which no writer records, is taken as damage.
func CheckTrailer(b []byte) error {
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 10+int(b[1]) {
			return &FormatError{"trailer", "ends within an entry"}
		}
		if b[0] >= trailerKinds {
			return &FormatError{"trailer", fmt.Sprintf("unknown kind %d", b[0])}
		}
		if b[0] == 0 && b[1] == 0 {
			return &FormatError{"trailer", "a sequence without a name"}
		}
		b = b[10+int(b[1]):]
	}
	return nil
}
