package resolve

import (
	"errors"
	"fmt"

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
		return s.Offset.String()
	case KindTimestamp:
		return s.Time.String()
	}
	return fmt.Sprintf("spec of kind %d", uint8(s.Kind))
}

// ParseSpec reads first, last, next, an offset, or an RFC 3339 time since 1970. An error
// says what is wanted, and not of what.
func ParseSpec(s string) (Spec, error) {
	switch s {
	case "first":
		return First(), nil
	case "last":
		return Last(), nil
	case "next":
		return Next(), nil
	}
	if o, err := pos.ParseOffset(s); err == nil && o.Valid() {
		return At(o), nil
	}
	if t, err := pos.ParseMillis(s); err == nil && t >= 0 {
		return Since(t), nil
	}
	return Spec{}, errors.New("want first, last, next, an offset from 0, or a time since 1970 such as 2026-03-01T12:00:00Z")
}
