package node

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/test/fake/fakepg"
	"millrace/test/fake/fakestore"
)

// What is stored is freed on local disk, but not by a node that starts while it is not known that the
// store is ours, until the operator says that it is.
func TestAStartInAStoreThatIsNotOursFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		marker := port.ClusterKey(s.cfg.Store.Prefix)
		s.cfg.Log.SegmentMaxBytes, s.cfg.Local.MinBytes = 1, 1<<30
		s.boot()
		for i := range 5 {
			s.db.Exec(func(tx *fakepg.Tx) { tx.Insert("orders", fakepg.T(strconv.Itoa(i))) })
			pass(time.Second)
		}
		pass(time.Minute)
		if _, err := s.CutStream(t.Context(), "shop"); err != nil {
			t.Fatal(err)
		}
		if d, err := s.Durable(t.Context(), "shop", pos.NoOffset, time.Minute); err != nil || !d.Durable {
			t.Fatal(d, err)
		}
		s.stop()

		store := s.ports.Store.(*fakestore.Store)
		store.Latency = func(_, key string) time.Duration {
			if key == marker {
				return 5 * time.Second // the stream is looked at before
			}
			return 0
		}
		store.Drop(marker)
		s.cfg.Local.MinBytes = 0
		s.boot()
		defer s.stop()
		first := func() pos.Offset {
			st, err := s.Stream(t.Context(), "shop")
			if err != nil || st.RemoteState != admin.RemoteKnown {
				t.Fatal(st, err)
			}
			return st.LocalFirst
		}
		pass(5 * time.Minute)
		if at := first(); at != 0 {
			t.Errorf("the local log begins at %s", at)
		}
		if _, err := s.ClaimStore(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Minute)
		if at := first(); at == 0 {
			t.Error("nothing is freed in the end: the test does not do what it is for")
		}
	})
}

// While tiering is disabled nobody looks whose the store is, and nothing in it is given up.
func TestAResetIsRefusedWhileNobodyLooksAtTheStore(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		if _, err := s.SetTiering(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		_, err := s.ResetStream(t.Context(), "shop")
		refused(t, err, admin.Unavailable, "the object store is not looked at")
	})
}

// A claim that the store does not answer in time is not said to have failed: it goes on.
func TestAClaimThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		marker := port.ClusterKey(s.cfg.Store.Prefix)
		s.boot()
		defer s.stop()
		pass(time.Minute)
		store := s.ports.Store.(*fakestore.Store)
		store.Drop(marker)
		store.Latency = func(op, _ string) time.Duration {
			if op == "put" {
				return 40 * time.Second
			}
			return 0
		}
		began := time.Now()
		_, err := s.ClaimStore(t.Context())
		refused(t, err, admin.Unavailable, "it is not known yet whether the prefix of")
		if took := time.Since(began); took != claimTime {
			t.Errorf("told after %s", took)
		}
		pass(40 * time.Second)
		if at := s.access(); at != "yes" {
			t.Errorf("accessible is %s", at)
		}
	})
}
