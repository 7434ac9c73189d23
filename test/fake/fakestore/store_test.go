package fakestore

import (
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/test/porttest/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) port.ObjectStore { return New() })
}

func put(s *Store, key, body string) error {
	sum := crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli))
	return s.Put(context.Background(), key, port.NewBody(strings.NewReader(body), sum), int64(len(body)), false)
}

func TestFaultStandsForTheOperation(t *testing.T) {
	s := New()
	for fault, class := range map[error]port.Class{port.Throttled: port.Throttled, port.Denied: port.Denied,
		errors.New("reset by peer"): port.Unavailable, context.DeadlineExceeded: port.Timeout,
		&port.StoreError{Class: port.Full}: port.Full} {
		s.Fault = func(op, what string) error {
			if op != "put" || what != "p/a" {
				t.Errorf("asked about %s %s", op, what)
			}
			return fault
		}
		if err := put(s, "p/a", "x"); port.ClassOf(err) != class || !errors.Is(err, fault) {
			t.Errorf("%v became %v, want class %q", fault, err, class)
		}
	}
	if keys := s.Keys(); len(keys) != 0 {
		t.Errorf("a put that failed stored %v", keys)
	}
}

func TestAfterHidesAnEffect(t *testing.T) {
	s := New()
	s.After = func(string, string) error { return port.Timeout }
	if err := put(s, "p/a", "x"); port.ClassOf(err) != port.Timeout {
		t.Errorf("Put: %v", err)
	}
	if b, ok := s.Object("p/a"); !ok || string(b) != "x" {
		t.Errorf("the object is %q, %v", b, ok)
	}
}

func TestDeleteFailsForOneKeyOrAll(t *testing.T) {
	s := New()
	for _, key := range []string{"a", "b", "c"} {
		if err := put(s, key, key); err != nil {
			t.Fatal(err)
		}
	}
	s.Fault = func(op, what string) error {
		if op == "delete" && what == "b" {
			return port.Denied
		}
		return nil
	}
	failed, err := s.Delete(t.Context(), []string{"a", "b"})
	if err != nil || len(failed) != 1 || failed[0].Key != "b" || port.ClassOf(failed[0].Err) != port.Denied {
		t.Errorf("Delete: %v, %v", failed, err)
	}
	s.Fault = func(op, what string) error {
		if op == "deletebatch" {
			return port.Throttled
		}
		return nil
	}
	if _, err := s.Delete(t.Context(), []string{"b", "c"}); port.ClassOf(err) != port.Throttled {
		t.Errorf("Delete: %v", err)
	}
	if keys := s.Keys(); !slices.Equal(keys, []string{"b", "c"}) {
		t.Errorf("left: %v", keys)
	}
}

func TestDamageIsToOrder(t *testing.T) {
	s := New()
	s.Fault = func(string, string) error { t.Error("a hook was asked"); return nil }
	s.Replace("a", []byte("damaged"))
	if b, ok := s.Object("a"); !ok || string(b) != "damaged" {
		t.Errorf("the object is %q, %v", b, ok)
	}
	s.Drop("a")
	if _, ok := s.Object("a"); ok {
		t.Error("the object is there")
	}
}

func TestLatencyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Latency = func(op, what string) time.Duration { return time.Hour }
		begin := time.Now()
		if err := s.Probe(t.Context()); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("Probe: %v after %s", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin = time.Now()
		if err := s.Probe(ctx); port.ClassOf(err) != port.Timeout || time.Since(begin) != time.Minute {
			t.Errorf("Probe: %v after %s", err, time.Since(begin))
		}
	})
}
