package hooks

import (
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/segment"
)

// Index is an index file that is open for reading. An index is a help and no truth: what
// cannot be read or parsed is as good as absent.
type Index struct {
	f port.File
	n int64
}

// OpenIndex opens the index of a stream's segment; nil when there is none to read.
func OpenIndex(disk port.Disk, stream pos.StreamID, first pos.Offset) *Index {
	f, err := disk.Open(string(stream), segment.IndexName(first), false)
	if err != nil {
		return nil
	}
	size, err := f.Size()
	if err != nil {
		giveBack(f)
		return nil
	}
	return &Index{f: f, n: segment.IndexChunks(size)}
}

// Close gives the file back.
func (i *Index) Close() { giveBack(i.f) }

// giveBack closes a file that was only read: that it fails harms nobody, the handle is
// gone in any case.
func giveBack(f port.File) {
	if err := f.Close(); err != nil {
		return
	}
}

// Len is the number of whole records.
func (i *Index) Len() int64 { return i.n }

// Record reads record k, from 0; false if it cannot be read or is none.
func (i *Index) Record(k int64) (segment.IndexRecord, bool) {
	var b [segment.IndexRecordSize]byte
	if n, err := i.f.ReadAt(b[:], segment.IndexSize(k)); err != nil && n < len(b) {
		return segment.IndexRecord{}, false
	}
	r, err := segment.ParseIndexRecord(b[:])
	return r, err == nil
}

// before returns the last record for which over is false; over is false, then true,
// along the index. ok is false if there is none, or a record does not parse.
func (i *Index) before(over func(segment.IndexRecord) bool) (r segment.IndexRecord, ok bool) {
	lo, hi := int64(0), i.n // over(record lo-1) is false, over(record hi) is true
	for lo < hi {
		mid := (lo + hi) / 2
		at, readable := i.Record(mid)
		if !readable {
			return segment.IndexRecord{}, false
		}
		if over(at) {
			hi = mid
		} else {
			lo, r, ok = mid+1, at, true
		}
	}
	return r, ok
}
