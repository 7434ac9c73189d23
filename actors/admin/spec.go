package admin

import (
	"fmt"

	"millrace/core/pos"
)

// FromKind says which member of From counts.
type FromKind uint8

// The kinds.
const (
	FromFirst  FromKind = iota // the oldest record there is
	FromLast                   // the newest chunk, from its first record
	FromNext                   // what is committed from now on
	FromOffset                 // From.Offset
	FromTime                   // the first chunk at or after From.Time
)

// From says where to begin reading.
type From struct {
	Kind   FromKind
	Offset pos.Offset
	Time   pos.Millis
}

// ReadSpec says what to read.
type ReadSpec struct {
	From   From
	Follow bool // wait for more at the tail instead of ending there
}

// String prints f as ParseFrom reads it.
func (f From) String() string {
	switch f.Kind {
	case FromFirst:
		return "first"
	case FromLast:
		return "last"
	case FromNext:
		return "next"
	case FromOffset:
		return f.Offset.String()
	case FromTime:
		return f.Time.String()
	}
	return fmt.Sprintf("kind %d", f.Kind)
}

// ParseFrom reads first, last, next, an offset, or an RFC 3339 time.
func ParseFrom(s string) (From, error) {
	switch s {
	case "first":
		return From{Kind: FromFirst}, nil
	case "last":
		return From{Kind: FromLast}, nil
	case "next":
		return From{Kind: FromNext}, nil
	}
	if o, err := pos.ParseOffset(s); err == nil && o.Valid() {
		return From{Kind: FromOffset, Offset: o}, nil
	}
	if t, err := pos.ParseMillis(s); err == nil && t >= 0 {
		return From{Kind: FromTime, Time: t}, nil
	}
	return From{}, fmt.Errorf("from %q: want first, last, next, an offset from 0, or a time since 1970 such as 2026-03-01T12:00:00Z", s)
}
