package port_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"millrace/actors/port"
)

func TestClassIsFoundThroughEverything(t *testing.T) {
	for _, c := range []struct {
		err  error
		want port.Class
	}{
		{nil, port.Unclassified},
		{errors.New("x"), port.Unclassified},
		{port.Conflict, port.Conflict},
		{fmt.Errorf("read: %w", &port.StoreError{Class: port.Throttled}), port.Throttled},
		{errors.Join(errors.New("x"), &port.MetadataError{Class: port.UnknownOutcome}), port.UnknownOutcome},
		{&port.DiskError{Class: port.Full, Err: fs.ErrNotExist}, port.Full},
		{fmt.Errorf("x: %w", context.Canceled), port.Timeout},
		{&fs.PathError{Err: syscall.EDQUOT}, port.Full},
		{&fs.PathError{Err: syscall.ENOENT}, port.NotFound},
		{&fs.PathError{Err: syscall.EEXIST}, port.Exists},
		{&fs.PathError{Err: syscall.EPERM}, port.Denied},
	} {
		if got := port.ClassOf(c.err); got != c.want {
			t.Errorf("ClassOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	for class := port.Unclassified; class <= port.Full; class++ {
		if class.String() == "unknown class" || class.Transient() != strings.Contains("throttled unavailable timed out", class.String()) {
			t.Errorf("class %d: %q, transient %v", class, class, class.Transient())
		}
	}
}

func TestErrorsSayWhatFailedOnWhat(t *testing.T) {
	cause := errors.New("connection reset")
	for want, err := range map[string]error{
		"object store: put p/a: timed out: connection reset": &port.StoreError{Op: "put", Key: "p/a", Class: port.Timeout, Err: cause},
		"object store: probe: unavailable":                   &port.StoreError{Op: "probe", Class: port.Unavailable},
		"object store: probe: unavailable: moved away":       &port.StoreError{Op: "probe", Class: port.Unavailable, Err: fmt.Errorf("moved away: %w", port.Unavailable)},
		"object store: probe: denied: what key":              &port.StoreError{Op: "probe", Class: port.Denied, Err: fmt.Errorf("%w: what key", port.Denied)},
		"metadata: stream s1: not found":                     &port.MetadataError{Op: "stream", What: "s1", Class: port.NotFound, Err: port.NotFound},
		"disk: sync s1/0.segment: connection reset":          &port.DiskError{Op: "sync", Name: "s1/0.segment", Err: cause},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	err := error(&port.StoreError{Class: port.Timeout, Err: cause})
	if !errors.Is(err, port.Timeout) || errors.Is(err, port.Full) || !errors.Is(err, cause) || port.IsNotFound(err) {
		t.Errorf("%v does not match what it is, or matches what it is not", err)
	}
}
