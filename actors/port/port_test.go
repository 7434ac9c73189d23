package port_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/test/fake/fakestore"
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

func TestClaim(t *testing.T) {
	s := fakestore.New()
	for _, prefix := range []string{"", "p", "p/q/"} {
		for range 2 {
			if err := port.Claim(t.Context(), s, prefix, 7); err != nil {
				t.Fatalf("Claim(%q): %v", prefix, err)
			}
		}
		err := port.Claim(t.Context(), s, prefix, 8)
		foreign, ok := errors.AsType[*port.ForeignPrefixError](err)
		if !ok || foreign.Owner != 7 || foreign.Ours != 8 || foreign.Key != port.ClusterKey(prefix) || !strings.Contains(err.Error(), "store.prefix") {
			t.Errorf("a foreign claim of %q: %v", prefix, err)
		}
	}
	if got := strings.Join(s.Keys(), " "); got != "cluster p/cluster p/q/cluster" {
		t.Errorf("markers %q", got)
	}
	b, _ := s.Object("p/cluster")
	if want := "millrace-cluster 1 0000000000000007 "; !strings.HasPrefix(string(b), want) || len(b) != len(want)+9 {
		t.Errorf("marker %q", b)
	}
}

func TestOfManyClaimsOneWins(t *testing.T) {
	s := fakestore.New()
	var won atomic.Int32
	var wg sync.WaitGroup
	for cluster := range pos.UID(8) {
		wg.Go(func() {
			err := port.Claim(t.Context(), s, "p", cluster+1)
			if _, foreign := errors.AsType[*port.ForeignPrefixError](err); err == nil {
				won.Add(1)
			} else if !foreign {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d clusters own the prefix", won.Load())
	}
}

// TestAClaimWithoutCertaintyFails: whatever is not known must not look like ownership.
func TestAClaimWithoutCertaintyFails(t *testing.T) {
	for _, failing := range []string{"get", "put"} {
		s := fakestore.New()
		s.Fault = func(op, _ string) error {
			if op == failing {
				return port.Unavailable
			}
			return nil
		}
		if err := port.Claim(t.Context(), s, "p", 7); port.ClassOf(err) != port.Unavailable {
			t.Errorf("with %s failing: %v", failing, err)
		}
	}
	s := fakestore.New()
	if err := port.Claim(t.Context(), s, "p", 7); err != nil {
		t.Fatal(err)
	}
	whole, _ := s.Object("p/cluster")
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1
		s.Replace("p/cluster", damaged)
		if err := port.Claim(t.Context(), s, "p", 7); err == nil || !strings.Contains(err.Error(), "can't be read") {
			t.Fatalf("with byte %d damaged: %v", i, err)
		}
		s.Replace("p/cluster", whole[:i])
		if err := port.Claim(t.Context(), s, "p", 7); err == nil || !strings.Contains(err.Error(), "can't be read") {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

// TestAStoreThatIgnoresIfAbsent lets a rival write between our two looks.
func TestAStoreThatIgnoresIfAbsent(t *testing.T) {
	rival := fakestore.New()
	if err := port.Claim(t.Context(), rival, "p", 8); err != nil {
		t.Fatal(err)
	}
	theirs, _ := rival.Object("p/cluster")
	s := fakestore.New()
	s.After = func(op, key string) error {
		if op == "put" {
			s.Replace(key, theirs)
		}
		return nil
	}
	if _, ok := errors.AsType[*port.ForeignPrefixError](port.Claim(t.Context(), s, "p", 7)); !ok {
		t.Error("both clusters own the prefix")
	}
}
