package admin

import (
	"errors"
	"testing"
)

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
