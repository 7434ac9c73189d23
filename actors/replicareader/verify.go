package replicareader

import (
	"fmt"
	"hash/crc32"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/pos"
	"millrace/core/segment"
)

// verifier holds a fragment's chunks to what the writer wrote while their bytes pass,
// in pieces of any size: a chunk may be larger than every buffer. What the disk has
// damaged must not get into the store, since its being there is what allows the local
// file to be trimmed.
//
// Between two pieces: i chunks have passed whole, and at is the position of the next
// byte in the object.
type verifier struct {
	frag *fragment.Fragment
	i    int
	at   int64
	head []byte       // of the chunk being passed, as far as it came
	h    chunk.Header // once head is whole
	crc  uint32       // of its data so far
	next pos.Offset   // what it must begin with
}

func newVerifier(f *fragment.Fragment) *verifier {
	return &verifier{frag: f, at: fragment.DataStart, head: make([]byte, 0, chunk.HeaderSize), next: f.First}
}

// pass takes the next bytes of the chunks.
func (v *verifier) pass(p []byte) error {
	for len(p) > 0 {
		if v.i == len(v.frag.Index) {
			return v.damage("%d bytes follow the last chunk", len(p))
		}
		n := min(v.left(), int64(len(p)))
		if len(v.head) < chunk.HeaderSize {
			v.head = append(v.head, p[:n]...)
		} else if inData := v.at - v.start(); inData >= v.h.DataStart() && inData < v.h.DataStart()+int64(v.h.DataSize) {
			v.crc = crc32.Update(v.crc, crc32.IEEETable, p[:n])
		}
		v.at += n
		p = p[n:]
		if err := v.step(); err != nil {
			return err
		}
	}
	return nil
}

// start is where the present chunk begins in the object.
func (v *verifier) start() int64 { return v.frag.Index[v.i].Position }

// left is how many bytes there are to the end of the present part of the chunk: its
// header, its filter, its data or its trailer.
func (v *verifier) left() int64 {
	if len(v.head) < chunk.HeaderSize {
		return int64(chunk.HeaderSize - len(v.head))
	}
	in := v.at - v.start()
	for _, end := range []int64{v.h.DataStart(), v.h.DataStart() + int64(v.h.DataSize)} {
		if in < end {
			return end - in
		}
	}
	return v.h.Size() - in
}

// step looks at what has become whole: a header, the data, the chunk.
func (v *verifier) step() error {
	in := v.at - v.start()
	if in == chunk.HeaderSize {
		if err := v.header(); err != nil {
			return err
		}
	}
	if len(v.head) < chunk.HeaderSize {
		return nil
	}
	if in == v.h.DataStart()+int64(v.h.DataSize) && v.crc != v.h.CRC {
		return v.damage("%w", &chunk.ChecksumError{ID: v.h.ID, Want: v.h.CRC, Got: v.crc})
	}
	if in == v.h.Size() {
		v.next = v.h.Next()
		v.i, v.head, v.crc = v.i+1, v.head[:0], 0
	}
	return nil
}

// header holds a header to the one that was committed, and this to the chunk before it and to
// where the next one begins.
func (v *verifier) header() error {
	h, err := chunk.ParseHeader(v.head)
	if err != nil {
		return v.damage("%w", err)
	}
	next, end := v.frag.Next, fragment.DataStart+v.frag.Size
	if v.i+1 < len(v.frag.Index) {
		next, end = v.frag.Index[v.i+1].Offset, v.frag.Index[v.i+1].Position
	}
	if h.ID != v.next || h.Next() != next || h.Size() != end-v.start() {
		return v.damage("a chunk of the records [%s, %s) and %d bytes stands where [%s, %s) with %d bytes was committed",
			h.ID, h.Next(), h.Size(), v.next, next, end-v.start())
	}
	if h.Sum() != v.frag.Headers[v.i] {
		return v.damage("the header of the chunk %s is not the one that was committed: now it has %d entries, timestamp %s, epoch %d and is of type %s",
			h.ID, h.Entries, h.Timestamp, h.Epoch, h.Type)
	}
	v.h = h
	return nil
}

// whole reports why the fragment does not end where its last chunk does.
func (v *verifier) whole() error {
	if v.i != len(v.frag.Index) {
		return v.damage("the chunk is cut short")
	}
	return nil
}

// damage names the file and the place of the chunk being passed.
func (v *verifier) damage(format string, args ...any) error {
	at := v.at
	if v.i < len(v.frag.Index) {
		at = v.start()
	}
	file, position := place(v.frag, at)
	return fmt.Errorf("%s at %d: %w; the disk has damaged it: it is not uploaded before the file is restored",
		segment.FileName(file), position, fmt.Errorf(format, args...))
}

// place is where byte at of the object comes from.
func place(f *fragment.Fragment, at int64) (file pos.Offset, position int64) {
	at -= fragment.DataStart
	for _, s := range f.Spans {
		if file, position = s.Segment, s.Start+at; at < s.Size() {
			break
		}
		at -= s.Size()
	}
	return file, position
}
