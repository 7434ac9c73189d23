package resolve

import (
	"fmt"
	"strings"

	"millrace/core/pos"
)

// Kind tells the forms of a Spec apart.
type Kind uint8

// Kinds of a Spec.
const (
	KindFirst Kind = iota + 1
	KindLast
	KindNext
	KindOffset
	KindTimestamp
)

// Spec is where in a stream a reader asks to begin.
type Spec struct {
	Kind   Kind
	Offset pos.Offset // with KindOffset
	Time   pos.Millis // with KindTimestamp
}

// First is the oldest record that any tier has.
func First() Spec { return Spec{Kind: KindFirst} }

// Last is the last chunk of user data.
func Last() Spec { return Spec{Kind: KindLast} }

// Next is what is appended from now on.
func Next() Spec { return Spec{Kind: KindNext} }

// At is the chunk that contains the offset o.
func At(o pos.Offset) Spec { return Spec{Kind: KindOffset, Offset: o} }

// Since is the first chunk with the timestamp t or a later one.
func Since(t pos.Millis) Spec { return Spec{Kind: KindTimestamp, Time: t} }

// String prints s as ParseSpec reads it.
func (s Spec) String() string {
	switch s.Kind {
	case KindFirst:
		return "first"
	case KindLast:
		return "last"
	case KindNext:
		return "next"
	case KindOffset:
		return "offset " + s.Offset.String()
	case KindTimestamp:
		return "timestamp " + s.Time.String()
	}
	return fmt.Sprintf("spec of kind %d", uint8(s.Kind))
}

// ParseSpec reads "first", "last", "next", "offset N" or "timestamp T", where T is
// RFC 3339.
func ParseSpec(s string) (Spec, error) {
	switch s {
	case "first":
		return First(), nil
	case "last":
		return Last(), nil
	case "next":
		return Next(), nil
	}
	if n, ok := strings.CutPrefix(s, "offset "); ok {
		o, err := pos.ParseOffset(n)
		if err != nil || !o.Valid() {
			return Spec{}, fmt.Errorf("offset %q: want a number from 0", n)
		}
		return At(o), nil
	}
	if t, ok := strings.CutPrefix(s, "timestamp "); ok {
		at, err := pos.ParseMillis(t)
		return Since(at), err
	}
	return Spec{}, fmt.Errorf("%q: want first, last, next, offset N or timestamp T", s)
}
