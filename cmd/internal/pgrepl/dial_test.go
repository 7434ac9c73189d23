package pgrepl

import (
	"errors"
	"net"
	"strings"
	"testing"

	"millrace/actors/port"
	"millrace/core/pgout"
)

// A server that is not there is told of once and in one line, whatever was tried.
func TestADeadServerIsToldOfOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open("postgres://someone@"+addr+"/shop?sslmode=prefer", Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Inspect(t.Context(), "s", "p")
	pg, ok := errors.AsType[*port.PostgresError](err)
	if !ok || pg.Class != pgout.Unavailable {
		t.Fatalf("%v", err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || strings.Count(text, "connection refused") != 1 {
		t.Fatalf("%q", text)
	}
}
