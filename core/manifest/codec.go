package manifest

import (
	"encoding/binary"
	"fmt"

	"millrace/core/fragment"
	"millrace/core/pos"
)

const (
	magic      = "MRMF"
	version    = 1
	headerSize = 68
	entrySize  = 61
	crcSize    = 4
)

// Encode returns m as a root object holds it.
func (m *Manifest) Encode() []byte {
	b := make([]byte, 0, headerSize+len(m.Entries)*entrySize+crcSize)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	for _, v := range [...]uint64{
		uint64(m.Epoch), uint64(m.Revision), uint64(m.First), uint64(m.Next),
		uint64(m.FirstTime), uint64(m.FirstLastTime), uint64(m.Size),
	} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Entries)))
	for i := range m.Entries {
		b = m.Entries[i].appendTo(b)
	}
	return binary.BigEndian.AppendUint32(b, fragment.Checksum(0, b))
}

func (e *Entry) appendTo(b []byte) []byte {
	for _, v := range [...]uint64{
		uint64(e.First), uint64(e.Next), uint64(e.FirstTime), uint64(e.LastTime),
		uint64(e.Epoch), uint64(e.Size), uint64(e.UID),
	} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(e.Chunks))
	return append(b, byte(e.Kind))
}

// Decode reads what Encode wrote. It verifies the checksum and every invariant.
func Decode(b []byte) (*Manifest, error) {
	if len(b) < headerSize+crcSize || string(b[:4]) != magic {
		return nil, fmt.Errorf("manifest: not a manifest: %d bytes that begin with %x, want %q", len(b), b[:min(len(b), 4)], magic)
	}
	body := b[:len(b)-crcSize]
	if got, want := fragment.Checksum(0, body), binary.BigEndian.Uint32(b[len(body):]); got != want {
		return nil, fmt.Errorf("manifest: checksum is %08x, want %08x: the object is damaged", got, want)
	}
	if v := binary.BigEndian.Uint32(b[4:]); v != version {
		return nil, fmt.Errorf("manifest: format version %d is not known here (want %d): a newer Millrace wrote it, upgrade this node", v, version)
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[8+8*i:]) }
	m := &Manifest{
		Epoch: pos.Epoch(word(0)), Revision: pos.Revision(word(1)),
		First: pos.Offset(word(2)), Next: pos.Offset(word(3)),
		FirstTime: pos.Millis(word(4)), FirstLastTime: pos.Millis(word(5)), Size: int64(word(6)),
	}
	count, rest := binary.BigEndian.Uint32(body[headerSize-4:]), body[headerSize:]
	if int64(count)*entrySize != int64(len(rest)) {
		return nil, fmt.Errorf("manifest: it counts %d entries, but has %d bytes of them", count, len(rest))
	}
	for ; len(rest) > 0; rest = rest[entrySize:] {
		m.Entries = append(m.Entries, parseEntry(rest))
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}

func parseEntry(b []byte) Entry {
	word := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return Entry{
		First: pos.Offset(word(0)), Next: pos.Offset(word(1)),
		FirstTime: pos.Millis(word(2)), LastTime: pos.Millis(word(3)),
		Epoch: pos.Epoch(word(4)), Size: int64(word(5)), UID: pos.UID(word(6)),
		Chunks: int(binary.BigEndian.Uint32(b[56:])), Kind: Kind(b[60]),
	}
}
