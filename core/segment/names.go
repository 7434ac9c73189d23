package segment

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/core/pos"
)

const (
	segmentSuffix = ".segment"
	indexSuffix   = ".index"
	nameDigits    = 20
)

// FileName is the name of the segment file whose first record has offset first.
func FileName(first pos.Offset) string { return fmt.Sprintf("%020d%s", int64(first), segmentSuffix) }

// IndexName is the name of that segment's index file.
func IndexName(first pos.Offset) string { return fmt.Sprintf("%020d%s", int64(first), indexSuffix) }

// parseName tells what a file of a log's folder is; ok is false for a file that is
// not the log's.
func parseName(name string) (first pos.Offset, index, ok bool) {
	digits, index := strings.CutSuffix(name, indexSuffix)
	if !index {
		if digits, ok = strings.CutSuffix(name, segmentSuffix); !ok {
			return 0, false, false
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) != nameDigits || digits[0] == '+' || digits[0] == '-' {
		return 0, false, false
	}
	return pos.Offset(n), index, true
}

// Pair is a segment file and its index file as the folder lists them.
type Pair struct {
	First pos.Offset
	Bytes int64 // of the segment file
	Index int64 // bytes of the index file, -1 if there is none
}

// Folder is what a log's folder holds.
type Folder struct {
	Pairs   []Pair       // oldest first
	Orphans []pos.Offset // index files without their segment
}

// Survey sorts the files of a log's folder. It takes them one by one in lexical
// order, as port.Disk lists them: "index" stands before "segment".
type Survey struct {
	f     Folder
	index Pair // the last index seen
	some  bool // index is waiting for its segment
}

// Add takes the next file.
func (s *Survey) Add(name string, size int64) {
	first, index, ok := parseName(name)
	switch {
	case !ok:
	case index:
		s.orphan()
		s.index, s.some = Pair{First: first, Index: size}, true
	case s.some && s.index.First == first:
		s.f.Pairs = append(s.f.Pairs, Pair{First: first, Bytes: size, Index: s.index.Index})
		s.some = false
	default:
		s.orphan()
		s.f.Pairs = append(s.f.Pairs, Pair{First: first, Bytes: size, Index: -1})
	}
}

func (s *Survey) orphan() {
	if s.some {
		s.f.Orphans = append(s.f.Orphans, s.index.First)
		s.some = false
	}
}

// Folder returns what the folder holds.
func (s *Survey) Folder() Folder {
	s.orphan()
	return s.f
}
