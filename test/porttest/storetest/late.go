package storetest

import (
	"errors"
	"hash/crc32"
	"io"
	"strings"

	"millrace/actors/port"
)

// Late is a body that knows its checksum once it was read to its end, as a fragment's.
type Late struct {
	io.ReadSeeker
	Wrong uint32 // is added to the checksum

	crc uint32
	end bool
}

var _ port.Body = (*Late)(nil)

func late(text string, wrong uint32) *Late {
	return &Late{ReadSeeker: strings.NewReader(text), Wrong: wrong}
}

// Read implements io.Reader.
func (l *Late) Read(p []byte) (int, error) {
	n, err := l.ReadSeeker.Read(p)
	l.crc = crc32.Update(l.crc, crc32.MakeTable(crc32.Castagnoli), p[:n])
	l.end = errors.Is(err, io.EOF)
	return n, err
}

// Rewind implements port.Body.
func (l *Late) Rewind() error {
	l.crc, l.end = 0, false
	_, err := l.Seek(0, io.SeekStart)
	return err
}

// Sum implements port.Body.
func (l *Late) Sum() (uint32, bool) { return l.crc + l.Wrong, l.end }
