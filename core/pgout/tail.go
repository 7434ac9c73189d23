package pgout

import (
	"fmt"

	"millrace/core/pos"
)

// Tail is what the log's last records say.
type Tail struct {
	Found bool // false: the log holds no record of the capture
	Mark
	Open bool // the last record is inside a transaction: its end has not been written
	// Held are the digests of the last chunk's streamed records of the tail's
	// transaction, oldest first: what the resent transaction is compared with.
	Held []Digest
}

// Digest is one event without what may differ when it is written again.
type Digest struct {
	At            Position
	Source, Image uint64
	AnyImage      bool // the image depends on a setting (omitted): not compared
}

// TailScan builds a Tail from user chunks, newest first.
type TailScan struct{ Tail Tail }

// Chunk takes the records of one user chunk whose first offset is first, and reports
// whether an older chunk is needed. An error means that the last record is not a
// capture's: the stream holds somebody else's data.
func (s *TailScan) Chunk(first pos.Offset, bodies [][]byte) (more bool, err error) {
	n := len(bodies)
	if n == 0 {
		return true, nil
	}
	offset := first + pos.Offset(n-1)
	last, err := DecodeRecord(bodies[n-1])
	if err != nil {
		return false, fmt.Errorf("offset %s: %w; a capture's stream must be its own", offset, err)
	}
	src := last.Source
	s.Tail = Tail{Found: true, Mark: Mark{Position: last.Position(), Offset: offset},
		Open: !src.Last && src.Snapshot == SnapshotNo}
	for i := n - 1; i >= 0; i-- {
		e, err := DecodeRecord(bodies[i])
		if err != nil || e.Source.LSN != src.LSN {
			break
		}
		if e.Source.Snapshot == SnapshotNo {
			s.Tail.Held = append(s.Tail.Held, e.digest(bodies[i]))
		}
	}
	for i, j := 0, len(s.Tail.Held)-1; i < j; i, j = i+1, j-1 {
		s.Tail.Held[i], s.Tail.Held[j] = s.Tail.Held[j], s.Tail.Held[i]
	}
	return false, nil
}

func (e *Event) digest(body []byte) Digest {
	return Digest{At: e.Position(), Source: e.sourceSum, Image: e.imageSum, AnyImage: mayDiffer(body)}
}

// agrees reports whether the event written again is the same.
func (d Digest) agrees(o Digest) bool {
	return d.Source == o.Source && (d.Image == o.Image || d.AnyImage || o.AnyImage)
}
