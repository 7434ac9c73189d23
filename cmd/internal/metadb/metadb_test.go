package metadb

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"millrace/actors/port"
	"millrace/cmd/internal/boltfile"
	"millrace/test/porttest/metatest"
)

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	metatest.Run(t, func(t *testing.T) metatest.Store { return openStore(t, filepath.Join(t.TempDir(), FileName)) })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReopenedItHoldsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	ctx := t.Context()
	s, err := Open(path)
	must(t, err)
	before, err := s.Cluster(ctx)
	must(t, err)
	_, err = s.CreateStream(ctx, port.Stream{ID: "s1", Name: "one"})
	must(t, err)
	must(t, s.SwapPointer(ctx, "s1", 0, port.Pointer{Revision: 4}))
	must(t, s.PutAnchor(ctx, "s1"))
	must(t, s.PutSetting(ctx, "k", ""))
	lease, err := s.AcquireLease(ctx, "c", "n1", 1, time.Hour)
	must(t, err)
	must(t, s.Close())

	s = openStore(t, path)
	after, err := s.Cluster(ctx)
	must(t, err)
	if after != before {
		t.Errorf("cluster %+v, before %+v", after, before)
	}
	p, err := s.Pointer(ctx, "s1")
	must(t, err)
	anchored, err := s.Anchored(ctx, "s1")
	must(t, err)
	value, err := s.Setting(ctx, "k")
	must(t, err)
	if p.Revision != 4 || !anchored || value != "" {
		t.Errorf("pointer %+v, anchored %v, setting %q", p, anchored, value)
	}
	if _, err := s.CreateStream(ctx, port.Stream{ID: "s1", Name: "two"}); !port.IsConflict(err) {
		t.Errorf("the id was taken again: %v", err)
	}
	next, err := s.AcquireLease(ctx, "c", "n1", 2, time.Hour)
	must(t, err)
	if next.Token <= lease.Token {
		t.Errorf("lease token %d after %d", next.Token, lease.Token)
	}
}

func TestTwoStoresAreTwoClusters(t *testing.T) {
	a := openStore(t, filepath.Join(t.TempDir(), FileName))
	b := openStore(t, filepath.Join(t.TempDir(), FileName))
	if a.cluster.ID == b.cluster.ID {
		t.Errorf("both are %s", a.cluster.ID)
	}
}

// TestUsedRevisionsAreRemembered puts an older pointer back under the store's feet.
func TestUsedRevisionsAreRemembered(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), FileName))
	ctx := t.Context()
	_, err := s.CreateStream(ctx, port.Stream{ID: "s1", Name: "one"})
	must(t, err)
	must(t, s.SwapPointer(ctx, "s1", 0, port.Pointer{Revision: 1}))
	must(t, s.SwapPointer(ctx, "s1", 1, port.Pointer{Revision: 7}))
	must(t, s.file.Update(ctx, func(tx *bbolt.Tx) error { return store(tx, bPointers, "s1", port.Pointer{Revision: 1}) }))
	if err := s.SwapPointer(ctx, "s1", 1, port.Pointer{Revision: 7}); !port.IsConflict(err) || !strings.Contains(err.Error(), "used before") {
		t.Errorf("a revision was used twice: %v", err)
	}
	must(t, s.SwapPointer(ctx, "s1", 1, port.Pointer{Revision: 8}))
}

func TestDamageIsTold(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), FileName))
	ctx := t.Context()
	must(t, s.file.Update(ctx, func(tx *bbolt.Tx) error { return tx.Bucket(bStreams).Put([]byte("s1"), []byte("{")) }))
	_, err := s.Streams(ctx)
	if port.ClassOf(err) != port.Unavailable || !strings.Contains(err.Error(), `streams "s1" is damaged`) {
		t.Errorf("Streams: %v", err)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	for err, want := range map[error]port.Class{
		&boltfile.CommitError{Err: syscall.ENOSPC}:             port.Full,
		&boltfile.CommitError{Err: syscall.EIO}:                port.Unavailable,
		&boltfile.CommitError{Unknown: true, Err: syscall.EIO}: port.UnknownOutcome,
		context.DeadlineExceeded:                               port.Unavailable,
		bolterrors.ErrDatabaseNotOpen:                          port.Unavailable,
		port.Conflict:                                          port.Conflict,
	} {
		if got := port.ClassOf(metaError("op", "", err)); got != want {
			t.Errorf("%v is classed %q, want %q", err, got, want)
		}
	}
}
