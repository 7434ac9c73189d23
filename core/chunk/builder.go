package chunk

import (
	"encoding/binary"
	"hash/crc32"

	"millrace/core/pos"
)

// Bounds of what a Builder puts into one chunk. Readers must not rely on them:
// chunks that RabbitMQ wrote are larger.
const (
	MaxBytes   = 1 << 20       // of data, unless it is one record that is larger
	MaxEntries = 8192          // entries, each one record
	MaxRecord  = 1<<30 - 1<<16 // bytes of one record's body
)

// Sizes of a stream's Bloom filter in bytes.
const (
	MinFilter     = 16
	MaxFilter     = 255
	DefaultFilter = 16
)

// keepBuffer is the largest buffer a Builder keeps for the next chunk.
const keepBuffer = 4 * MaxBytes

// Builder collects records and seals them into chunks. It has one buffer, which
// it uses again for every chunk, so adding a record allocates nothing once the
// buffer has grown. The zero Builder is not ready: use NewBuilder.
//
// The buffer is [room for a header][room for a filter][data]: a chunk without
// filter values begins so much later that its header touches the data.
type Builder struct {
	filterSize int
	buf        []byte
	entries    int
	filtered   bool // an entry has a filter value
	sealed     bool // the buffer belongs to the chunk Seal returned
}

// NewBuilder returns an empty builder of chunks whose filters have filterSize
// bytes; a size outside MinFilter to MaxFilter means DefaultFilter.
func NewBuilder(filterSize int) *Builder {
	if filterSize < MinFilter || filterSize > MaxFilter {
		filterSize = DefaultFilter
	}
	return &Builder{filterSize: filterSize}
}

// Reset forgets the records added since the last Seal.
func (b *Builder) Reset() {
	if cap(b.buf) > keepBuffer {
		b.buf = nil
	}
	b.buf, b.entries, b.filtered, b.sealed = b.buf[:0], 0, false, false
}

// Release forgets the records and frees the buffer: an idle log holds none.
func (b *Builder) Release() {
	b.Reset()
	b.buf = nil
}

// Len is the number of records added since the last Seal.
func (b *Builder) Len() int {
	if b.sealed {
		return 0
	}
	return b.entries
}

// Fits reports whether a body of n bytes may be added: always to an empty
// builder, else while the chunk stays within MaxBytes and MaxEntries.
func (b *Builder) Fits(n int) bool {
	if b.Len() == 0 {
		return true
	}
	return b.entries < MaxEntries && b.dataSize()+4+n <= MaxBytes
}

// Full reports whether no further record may be added before Seal.
func (b *Builder) Full() bool { return !b.Fits(0) }

// Add appends one record. The caller has asked Fits; body has at most MaxRecord
// bytes. filter is the record's filter value, empty for none. Both are copied.
func (b *Builder) Add(body, filter []byte) {
	if b.sealed {
		b.Reset()
	}
	if b.entries == 0 {
		b.open()
	}
	bloom(b.buf[HeaderSize:b.dataStart()]).add(filter)
	b.filtered = b.filtered || len(filter) > 0
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(len(body)))
	b.buf = append(b.buf, body...)
	b.entries++
}

// open puts the room for header and filter, zeroed, at the buffer's start.
func (b *Builder) open() {
	if cap(b.buf) < b.dataStart() {
		b.buf = make([]byte, b.dataStart(), 4096)
		return
	}
	b.buf = b.buf[:b.dataStart()]
	clear(b.buf)
}

func (b *Builder) dataStart() int { return HeaderSize + b.filterSize }

func (b *Builder) dataSize() int { return len(b.buf) - b.dataStart() }

// Seal returns the user chunk of the records added, and empties the builder. The
// bytes are lent: they change at the next Add, Reset or Release. It returns nil
// when no record was added.
func (b *Builder) Seal(id pos.Offset, epoch pos.Epoch, now pos.Millis, trailer []byte) []byte {
	if b.Len() == 0 {
		return nil
	}
	h := Header{
		Type: User, Entries: uint16(b.entries), Records: uint32(b.entries),
		Timestamp: now, Epoch: epoch, ID: id,
		CRC:         crc32.ChecksumIEEE(b.buf[b.dataStart():]),
		DataSize:    uint32(b.dataSize()),
		TrailerSize: uint32(len(trailer)),
	}
	start := b.filterSize
	if b.filtered {
		h.FilterSize, start = uint8(b.filterSize), 0
	}
	h.Append(b.buf[start:start])
	b.buf = append(b.buf, trailer...)
	b.sealed = true
	return b.buf[start:]
}
