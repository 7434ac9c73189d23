package admin

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/pos"
)

func TestFromReadsWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := From{Kind: FromKind(rapid.IntRange(0, int(FromTime)).Draw(t, "kind"))}
		switch f.Kind {
		case FromOffset:
			f.Offset = pos.Offset(rapid.Int64Min(0).Draw(t, "offset"))
		case FromTime:
			f.Time = pos.Millis(rapid.Int64Range(0, 253402300799999).Draw(t, "time"))
		case FromFirst, FromLast, FromNext:
		}
		if got, err := ParseFrom(f.String()); err != nil || got != f {
			t.Fatalf("%+v prints %s and reads %+v, %v", f, f, got, err)
		}
	})
}

func TestFromRefuses(t *testing.T) {
	for _, s := range []string{"", "First", "-1", "none", "1.5", "2026-03-01", "1969-12-31T23:59:59Z", "9223372036854775808", "+5", "05"} {
		if f, err := ParseFrom(s); err == nil || !strings.Contains(err.Error(), "want first, last, next") {
			t.Errorf("%q is taken as %+v, %v", s, f, err)
		}
	}
}

func TestErrorsPrintTheCauseAndUnwrap(t *testing.T) {
	cause := errors.New("because")
	e := &Error{Class: NotFound, What: "no stream x", Hint: "do", Err: cause}
	if e.Error() != "no stream x: because" || !errors.Is(e, cause) {
		t.Errorf("%v", e)
	}
	if (&Error{What: "alone"}).Error() != "alone" || Unavailable.String() != "unavailable" || Class(9).String() != "class 9" {
		t.Error("names of errors and classes")
	}
}
