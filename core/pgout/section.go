package pgout

import (
	"encoding/binary"
	"fmt"
)

// AMQP 1.0: a described type (0x00) whose descriptor is the small ulong (0x53) 0x75,
// the data section, then a binary of at most 255 bytes (0xa0) or more (0xb0).
const (
	binary8  = 0xa0
	binary32 = 0xb0
)

// AppendSection appends payload as an AMQP 1.0 data section.
func AppendSection(dst, payload []byte) []byte {
	dst = append(dst, 0x00, 0x53, 0x75)
	if len(payload) <= 255 {
		dst = append(dst, binary8, byte(len(payload)))
	} else {
		dst = binary.BigEndian.AppendUint32(append(dst, binary32), uint32(len(payload)))
	}
	return append(dst, payload...)
}

// Section returns what the AMQP 1.0 data section that is the whole of b holds,
// without copying it.
func Section(b []byte) ([]byte, error) {
	if len(b) < 5 || b[0] != 0x00 || b[1] != 0x53 || b[2] != 0x75 {
		return nil, fmt.Errorf("record of %d bytes is not an AMQP 1.0 data section", len(b))
	}
	var payload []byte
	size := uint64(0)
	switch {
	case b[3] == binary8:
		size, payload = uint64(b[4]), b[5:]
	case b[3] == binary32 && len(b) >= 8:
		size, payload = uint64(binary.BigEndian.Uint32(b[4:])), b[8:]
	default:
		return nil, fmt.Errorf("record of %d bytes: its AMQP 1.0 data section holds no binary", len(b))
	}
	if uint64(len(payload)) != size {
		return nil, fmt.Errorf("record of %d bytes: its AMQP 1.0 data section says %d bytes and has %d", len(b), size, len(payload))
	}
	return payload, nil
}
