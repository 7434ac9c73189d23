package node

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/test/fake/fakepg"
	"millrace/test/fake/fakestore"
)

// A store has lost everything, and holds back that it took the marker which the operator puts there.
// Until it is known what lies in it nothing is put there, nothing is said to be durable that was not,
// and nothing is freed, whether the store monitor hears of the marker or dies before.
func TestAClaimWhoseAnswerIsHeldBack(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			marker := port.ClusterKey(s.cfg.Store.Prefix)
			s.cfg.Log.SegmentMaxBytes, s.cfg.Local.MinBytes = 1, 1<<30
			s.boot()
			defer s.stop()
			rows := 0
			insert := func() {
				for range 5 {
					rows++
					s.db.Exec(func(tx *fakepg.Tx) { tx.Insert("orders", fakepg.T(strconv.Itoa(rows))) })
					pass(time.Second)
				}
				pass(time.Minute)
			}
			insert()
			if _, err := s.CutStream(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}
			if d, err := s.Durable(t.Context(), "shop", pos.NoOffset, time.Minute); err != nil || !d.Durable {
				t.Fatal(d, err)
			}
			store := s.ports.Store.(*fakestore.Store)
			for _, key := range store.Keys() {
				store.Drop(key)
			}
			if dies { // else nobody has noticed
				pass(6 * time.Minute)
			}
			hold := make(chan struct{})
			store.After = func(op, key string) error {
				if op == "put" && key == marker {
					<-hold
				}
				return nil
			}
			_, err := s.ClaimStore(t.Context())
			refused(t, err, admin.Unavailable, "it is not known yet whether the prefix of")
			insert()
			if _, err := s.CutStream(t.Context(), "shop"); err != nil {
				t.Log(err) // a stream may wait by now
			}
			if d, err := s.Durable(t.Context(), "shop", pos.NoOffset, time.Minute); err == nil && d.Durable {
				t.Errorf("durable: %+v", d)
			}
			if got := store.Keys(); !slices.Equal(got, []string{marker}) {
				t.Errorf("the store holds %q", got)
			}
			if dies {
				s.live("node/tiering/store_monitor").Kill()
			}
			close(hold)
			pass(5 * time.Minute)
			st, err := s.Stream(t.Context(), "shop")
			if err != nil || st.LocalFirst != 0 {
				t.Errorf("%+v, %v", st, err)
			}
			if why := s.access(); why != "yes" {
				t.Errorf("accessible is %s", why)
			}
			s.inTrouble("is not in the object store")
			for _, key := range store.Keys() {
				if strings.HasSuffix(key, ".fragment") {
					t.Errorf("%s was put", key)
				}
			}
		})
	}
}

// A claim that ends with the store monitor says so in words for an operator.
func TestAClaimThatTheMonitorDiesOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.boot()
		defer s.stop()
		pass(time.Minute)
		store := s.ports.Store.(*fakestore.Store)
		store.Drop(port.ClusterKey(s.cfg.Store.Prefix))
		store.Latency = func(op, _ string) time.Duration {
			if op == "put" {
				return 10 * time.Second
			}
			return 0
		}
		time.AfterFunc(time.Second, s.live("node/tiering/store_monitor").Kill)
		_, err := s.ClaimStore(t.Context())
		refused(t, err, admin.Unavailable, "the store monitor ended while it was at it")
	})
}
