package pgout

import (
	"cmp"
	"fmt"

	"millrace/core/pos"
)

// Position orders the records of one capture. The zero value is before all of them.
type Position struct {
	LSN     pos.LSN
	Seq     int64
	Message bool // a schema message: it has the seq of the change it precedes
}

// Compare orders positions: by LSN, then seq, a message before the change of the same seq.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.LSN, o.LSN), cmp.Compare(p.Seq, o.Seq), cmp.Compare(p.half(), o.half()))
}

func (p Position) half() int {
	if p.Message {
		return 0
	}
	return 1
}

// IsZero reports whether no record is meant.
func (p Position) IsZero() bool { return p == Position{} }

// String prints p as "lsn seq", with "m" behind a message's.
func (p Position) String() string {
	if p.Message {
		return fmt.Sprintf("%s %dm", p.LSN, p.Seq)
	}
	return fmt.Sprintf("%s %d", p.LSN, p.Seq)
}

// Mark is a Position and where in the stream its record lies.
type Mark struct {
	Position
	Offset pos.Offset
}
