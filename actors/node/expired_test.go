package node

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/test/fake/fakepg"
)

// A capture goes on behind its last event though that has expired with all before, and was not
// confirmed yet when the node stopped: it is kept until it is.
func TestACaptureGoesOnBehindWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.cfg.Retention.MaxAge = time.Minute
		s.boot()
		next := func() (first, next pos.Offset) {
			st, err := s.Stream(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			return st.First, st.Next
		}
		pass(time.Minute)
		for i := range 5 {
			s.db.Exec(func(tx *fakepg.Tx) { tx.Insert("orders", fakepg.T(strconv.Itoa(i))) })
			pass(10 * time.Millisecond)
		}
		_, end := next()
		s.stop()
		pass(time.Hour)
		s.boot()
		defer s.stop()
		pass(time.Second)
		if _, now := next(); now != end {
			t.Errorf("it ended at %s, and is at %s after the start", end, now)
		}
		pass(5 * time.Minute)
		if first, now := next(); first != end || now != end {
			t.Errorf("the stream holds %s to %s", first, now)
		}
	})
}

// What the row says is passed on though its capturer was not told that it is saved.
func TestWhatWasSavedUnnoticedExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.cfg.Retention.MaxAge = time.Minute
		s.boot()
		defer s.stop()
		pass(time.Minute)
		s.metaAfter.set(map[string]error{"swapcapture": port.UnknownOutcome})
		s.db.Exec(func(tx *fakepg.Tx) { tx.Insert("orders", fakepg.T("1")) })
		pass(5 * time.Millisecond)
		s.metaAfter.set(nil)
		pass(10 * time.Minute)
		if st, err := s.Stream(t.Context(), "shop"); err != nil || st.Next == 0 || st.First != st.Next {
			t.Errorf("the stream holds %s to %s, %v", st.First, st.Next, err)
		}
	})
}
