package segment

import (
	"errors"
	"fmt"
	"hash/crc32"

	"millrace/core/chunk"
	"millrace/core/pos"
)

const (
	walkPiece  = 256 << 10 // bytes asked for at a time
	maxTrailer = 16 << 20  // bytes of a trailer that is looked at
)

// Walk goes over the chunks of one segment file from its beginning. It is driven:
// while Want asks for bytes, Give it these.
//
// A chunk counts when its header parses, its id is where the chunk before ended, its
// epoch has not fallen, it lies within the file, and, if the walk verifies, its data
// has the CRC of its header. The walk ends at the first chunk that does not. If it
// verifies, it also leaves out chunks at the end whose trailer does not parse, and
// looks whether a whole chunk follows the broken one: then the file was not torn by a
// crash of the writer, but damaged.
type Walk struct {
	first  pos.Offset
	size   int64
	verify bool

	phase phase
	at    int64 // of the chunk that is being read
	off   int64 // of the next byte wanted
	next  pos.Offset
	epoch pos.Epoch
	ref   ChunkRef
	crc   uint32
	tail  []byte // of the trailer, what was given so far

	end      WalkEnd
	broken   bool  // past the end already: looking for a whole chunk that follows
	scanning bool  // ids may jump: the broken chunk does not tell where the next one is
	scanned  int64 // up to where nothing that parses as a header begins
}

type phase uint8

const (
	phaseFile phase = iota
	phaseHeader
	phaseData
	phaseTrailer
	phaseScan
	phaseDone
)

// WalkEnd is what a walk found besides the chunks.
type WalkEnd struct {
	Bytes     int64      // where the last chunk that counts ends: the file is to be cut here
	Next      pos.Offset // after its last record
	Torn      string     // why what follows Bytes does not count; "" if nothing follows
	Damaged   bool       // a whole chunk follows what does not count
	BadHeader bool       // the file does not begin as a segment file does
}

// NewWalk walks the segment file of size bytes whose first record has offset first.
// With verify every byte is read, without only the headers.
func NewWalk(first pos.Offset, size int64, verify bool) *Walk {
	w := &Walk{first: first, size: size, verify: verify, next: first}
	w.end = WalkEnd{Bytes: min(size, FileHeaderSize), Next: first}
	return w
}

// NewWalkFrom is NewWalk for the part of the file from a chunk on.
func NewWalkFrom(p Place, size int64, verify bool) *Walk {
	w := &Walk{first: p.Segment, size: size, verify: verify, next: p.Next}
	w.end = WalkEnd{Bytes: p.Position, Next: p.Next}
	w.chunkAt(p.Position)
	return w
}

// Want returns which bytes of the file Give takes next. n is 0 when the walk is over.
func (w *Walk) Want() (off int64, n int) {
	switch w.phase {
	case phaseFile:
		return 0, FileHeaderSize
	case phaseHeader:
		return w.at, chunk.HeaderSize
	case phaseData:
		return w.off, int(min(walkPiece, w.dataEnd()-w.off))
	case phaseTrailer:
		return w.off, int(min(walkPiece, w.ref.End()-w.off))
	case phaseScan:
		return w.scanned, int(min(walkPiece, w.size-w.scanned))
	case phaseDone:
	}
	return 0, 0
}

func (w *Walk) dataEnd() int64 {
	return w.ref.Position + w.ref.Header.DataStart() + int64(w.ref.Header.DataSize)
}

// Give takes the bytes Want asked for; fewer mean that the file ends there. ok tells
// that they complete a chunk. With verify it counts only if it lies before the end
// that End returns.
func (w *Walk) Give(b []byte) (ref ChunkRef, ok bool) {
	_, n := w.Want()
	short := len(b) < n
	switch w.phase {
	case phaseFile:
		w.file(b)
	case phaseHeader:
		return w.header(b)
	case phaseData:
		if short {
			w.stop("the file is shorter than its size said")
			break
		}
		w.crc = crc32.Update(w.crc, crc32.IEEETable, b)
		if w.off += int64(n); w.off == w.dataEnd() {
			return w.data()
		}
	case phaseTrailer:
		if short {
			w.stop("the file is shorter than its size said")
			break
		}
		if len(w.tail) < maxTrailer {
			w.tail = append(w.tail, b...)
		}
		if w.off += int64(n); w.off == w.ref.End() {
			return w.whole()
		}
	case phaseScan:
		w.scan(b, short)
	case phaseDone:
	}
	return ChunkRef{}, false
}

// End returns what the walk found. Precondition: it is over.
func (w *Walk) End() WalkEnd { return w.end }

func (w *Walk) file(b []byte) {
	w.end.BadHeader = CheckFileHeader(b) != nil
	w.chunkAt(FileHeaderSize)
}

// chunkAt expects a chunk at the position, or the end of the file.
func (w *Walk) chunkAt(at int64) {
	w.at, w.phase = at, phaseHeader
	if at >= w.size {
		w.stop("")
	}
}

// header judges a chunk by its header, and skips or reads what follows it.
func (w *Walk) header(b []byte) (ChunkRef, bool) {
	h, err := chunk.ParseHeader(b)
	if err == nil {
		err = w.fits(h)
	}
	if err != nil {
		w.breakAt(err.Error())
		// A chunk that is longer than the file was being written; else the search goes on.
		if w.phase == phaseScan && (errors.Is(err, errLong) || len(b) < chunk.HeaderSize) {
			w.phase = phaseDone
		}
		return ChunkRef{}, false
	}
	w.ref = ChunkRef{Header: h, Segment: w.first, Position: w.at, Size: h.Size()}
	if !w.verify {
		return w.whole()
	}
	w.phase, w.crc, w.off = phaseData, 0, w.at+h.DataStart()
	return ChunkRef{}, false
}

var errLong = errors.New("a chunk is longer than what is left of the file")

func (w *Walk) fits(h chunk.Header) error {
	switch {
	case h.ID != w.next && !w.scanning:
		return fmt.Errorf("a chunk says it is %s where %s should be", h.ID, w.next)
	case h.ID < w.next:
		return fmt.Errorf("a chunk says it is %s where at least %s should be", h.ID, w.next)
	case h.Epoch < w.epoch:
		return fmt.Errorf("chunk %s has epoch %s after epoch %s", h.ID, h.Epoch, w.epoch)
	case w.at+h.Size() > w.size:
		return errLong
	}
	return nil
}

// data judges a chunk by its CRC.
func (w *Walk) data() (ChunkRef, bool) {
	h := w.ref.Header
	switch {
	case w.crc == h.CRC && w.broken:
		w.end.Damaged = true
		w.phase = phaseDone
		return ChunkRef{}, false
	case w.crc != h.CRC:
		w.breakAt((&chunk.ChecksumError{ID: h.ID, Want: h.CRC, Got: w.crc}).Error())
		w.scanning, w.next = false, h.Next()
		w.chunkAt(w.ref.End())
		return ChunkRef{}, false
	case h.TrailerSize == 0:
		return w.whole()
	}
	w.phase, w.tail = phaseTrailer, w.tail[:0]
	return ChunkRef{}, false
}

// whole takes a chunk that counts, unless it turns out to be one of the last and its
// trailer does not parse.
func (w *Walk) whole() (ChunkRef, bool) {
	h := w.ref.Header
	w.next, w.epoch = h.Next(), h.Epoch
	var bad error
	if w.verify && h.TrailerSize > 0 {
		bad = chunk.CheckTrailer(w.tail)
	}
	w.tail = w.tail[:0]
	if bad == nil {
		w.end.Bytes, w.end.Next, w.end.Torn = w.ref.End(), h.Next(), ""
	} else if w.end.Torn == "" {
		w.end.Torn = fmt.Sprintf("chunk %s: %s", h.ID, bad)
	}
	w.chunkAt(w.ref.End())
	return w.ref, true
}

// stop ends the walk.
func (w *Walk) stop(why string) {
	if w.end.Torn == "" && !w.broken {
		w.end.Torn = why
	}
	w.phase = phaseDone
}

// breakAt ends the part of the walk that counts at a chunk that is broken, and starts
// to look for a whole one after it. The second break ends that.
func (w *Walk) breakAt(why string) {
	first := !w.broken
	if first && w.end.Torn == "" {
		w.end.Torn = why
	}
	w.broken, w.phase = true, phaseDone
	if first && w.verify {
		w.scanning, w.phase, w.scanned = true, phaseScan, w.at+1
		w.endScan()
	}
}

// scan looks for the first byte of something that parses as a chunk's header.
func (w *Walk) scan(b []byte, short bool) {
	for i := 0; i+chunk.HeaderSize <= len(b); i++ {
		h, err := chunk.ParseHeader(b[i:])
		w.at = w.scanned + int64(i)
		if err == nil && w.fits(h) == nil {
			w.phase = phaseHeader
			return
		}
	}
	w.scanned += int64(max(1, len(b)-chunk.HeaderSize+1))
	if short {
		w.scanned = w.size
	}
	w.endScan()
}

func (w *Walk) endScan() {
	if w.scanned+chunk.HeaderSize > w.size {
		w.phase = phaseDone
	}
}
