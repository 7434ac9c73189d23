package chunk

import (
	"encoding/binary"
	"fmt"
	"iter"

	"millrace/core/pos"
)

// Record is one record of a chunk. Body is lent by the chunk's bytes.
type Record struct {
	Offset pos.Offset
	Body   []byte
}

// CompressedError stands for the records of a sub-batch that this package cannot
// decompress: offsets First up to First+Records.
type CompressedError struct {
	First   pos.Offset
	Records uint16
	Code    uint8  // 1 gzip, 2 snappy, 3 lz4, 4 zstd, 7 user defined
	Size    uint32 // of the body once decompressed, in bytes, as the writer stated it
	Body    []byte // as stored, lent by the chunk's bytes
}

// Error names the records and the compression.
func (e *CompressedError) Error() string {
	return fmt.Sprintf("records %s to %s are compressed (code %d): decompress the sub-batch's body first",
		e.First, e.First+pos.Offset(e.Records)-1, e.Code)
}

// entryMin is the size of the smallest entry: a simple one without a body.
const entryMin = 4

// subHeader is the size of a sub-batch's header.
const subHeader = 11

// Records goes over the records of a whole chunk in order. It yields a
// *CompressedError in place of a compressed sub-batch and goes on after it; any
// other error is a *FormatError, and the last thing it yields. It does not check
// the CRC: see Verify.
func Records(b []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h, data, err := split(b)
		if err != nil {
			yield(Record{}, err)
			return
		}
		w := recordWalk{next: h.ID, end: h.Next(), yield: yield}
		for range h.Entries {
			if data = w.entry(data); w.stopped {
				return
			}
		}
		if len(data) > 0 || w.next != w.end {
			w.fail("%d bytes and %d records are left after the last entry", len(data), w.end-w.next)
		}
	}
}

// recordWalk carries the offset of the next record through a chunk's entries.
type recordWalk struct {
	next, end pos.Offset
	yield     func(Record, error) bool
	stopped   bool
}

func (w *recordWalk) fail(format string, args ...any) []byte {
	w.yield(Record{Offset: w.next}, &FormatError{"data", fmt.Sprintf(format, args...)})
	w.stopped = true
	return nil
}

// entry yields the records of the entry data begins with, and returns what
// follows it.
func (w *recordWalk) entry(data []byte) []byte {
	if len(data) < entryMin {
		return w.fail("ends within an entry")
	}
	if data[0]&0x80 != 0 {
		return w.subBatch(data)
	}
	return w.simple(data)
}

func (w *recordWalk) simple(data []byte) []byte {
	if len(data) < entryMin {
		return w.fail("ends within an entry")
	}
	n := int64(binary.BigEndian.Uint32(data))
	if data[0]&0x80 != 0 || n > int64(len(data)-entryMin) {
		return w.fail("an entry is longer than what is left")
	}
	if w.next >= w.end {
		return w.fail("more records than the header says")
	}
	body := data[entryMin : entryMin+n : entryMin+n]
	w.stopped = !w.yield(Record{Offset: w.next, Body: body}, nil)
	w.next++
	return data[entryMin+n:]
}

func (w *recordWalk) subBatch(data []byte) []byte {
	if len(data) < subHeader {
		return w.fail("ends within a sub-batch's header")
	}
	code, records := data[0]>>4&7, binary.BigEndian.Uint16(data[1:])
	size, stored := binary.BigEndian.Uint32(data[3:]), int64(binary.BigEndian.Uint32(data[7:]))
	if stored > int64(len(data)-subHeader) {
		return w.fail("a sub-batch is longer than what is left")
	}
	if records == 0 || w.next+pos.Offset(records) > w.end {
		return w.fail("a sub-batch of %d records, %d are left", records, w.end-w.next)
	}
	body, rest := data[subHeader:subHeader+stored], data[subHeader+stored:]
	if code != 0 {
		e := &CompressedError{First: w.next, Records: records, Code: code, Size: size, Body: body}
		w.stopped = !w.yield(Record{Offset: w.next}, e)
		w.next += pos.Offset(records)
		return rest
	}
	for range records {
		if body = w.simple(body); w.stopped {
			return nil
		}
	}
	if len(body) > 0 {
		return w.fail("%d bytes are left in a sub-batch", len(body))
	}
	return rest
}
