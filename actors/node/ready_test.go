package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/probe"
	"millrace/core/upload"
	"millrace/test/fake/fakestore"
)

// inTrouble demands what the status of the stream shop says is wrong.
func (s *site) inTrouble(want string) {
	s.t.Helper()
	st, err := s.Stream(s.t.Context(), "shop")
	if err != nil {
		s.t.Fatal(err)
	}
	if want == "" && st.Trouble != "" {
		s.t.Errorf("the stream's trouble is %q", st.Trouble)
	}
	says(s.t, st.Trouble, want)
}

func (s *site) stopAll(paths ...string) {
	s.t.Helper()
	for _, path := range paths {
		if err := s.Terminate(s.t.Context(), path); err != nil {
			s.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// Of what hangs together the first in order is the trouble: the log, its capture, its uploads.
func TestTheTroubleOfAStream(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.inTrouble("")
		s.stopAll("node/tiering/stream_factory/shop")
		s.inTrouble("uploading is stopped: " + byOperator + "; the reconciler starts it again at its next look")
		s.stopAll("node/captures/shop")
		s.inTrouble("capture shop is stopped: " + byOperator + "; the keeper starts it again within a minute")
		s.stopAll("node/log/shop")
		s.inTrouble("the log is stopped: " + byOperator + "; the keeper starts it again within a minute")
		pass(2 * time.Minute)
		s.inTrouble("")
		s.stopAll("node/log/shop/writer")
		s.inTrouble("the log is stopped: the keeper starts it again within a minute")
		pass(2 * time.Minute)
		if _, err := s.SetTiering(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.inTrouble("")
	})
}

// A replica reader that runs and does not get on is the stream's trouble.
func TestUploadingThatStalls(t *testing.T) {
	n := &Node{wish: wish{configured: true}}
	s := admin.StreamStatus{State: "running", Tiering: upload.Status{Stream: upload.StreamStatus{State: "stalled", Why: "planned"}}}
	if got := n.trouble(s); got != "uploading is stalled: planned" {
		t.Errorf("the trouble is %q", got)
	}
	n.wish.configured = false
	if got := n.trouble(s); got != "" {
		t.Errorf("with tiering disabled the trouble is %q", got)
	}
}

// Each of the world's failures is a reason for not being ready, and the trouble of the
// stream, for as long as it lasts.
func TestWhatTheWorldRefusesIsAReason(t *testing.T) {
	for what, c := range map[string]struct {
		begin, end      func(s *site)
		reason, trouble string
	}{
		"the database is down": {
			func(s *site) { s.db.SetDown(true) }, func(s *site) { s.db.SetDown(false) },
			"capture shop: waiting: ", "capture shop: ",
		},
		"the disk does not read": {
			func(s *site) {
				s.diskFault.set(map[string]error{"list": errors.New("planned"), "open": errors.New("planned"), "create": errors.New("planned")})
				s.live("node/log/shop/writer").Kill()
			}, func(s *site) { s.diskFault.set(nil) },
			"log shop is waiting: ", "the log is waiting: ",
		},
		"the store refuses": {
			func(s *site) { s.storeFault.set(map[string]error{"get": port.Denied, "probe": port.Denied}) }, func(s *site) { s.storeFault.set(nil) },
			"the object store is not accessible: no (", "",
		},
	} {
		t.Run(what, func(t *testing.T) {
			standing(t, func(t *testing.T, s *site) {
				c.begin(s)
				pass(3 * time.Minute)
				ok, why := s.Ready()
				if ok {
					t.Fatal("ready")
				}
				if !slices.ContainsFunc(why, func(r string) bool { return strings.HasPrefix(r, c.reason) && r != c.reason }) {
					t.Errorf("reasons %q, want %q and more", why, c.reason)
				}
				s.inTrouble(c.trouble)
				c.end(s)
				pass(3 * time.Minute)
				s.ready()
				s.inTrouble("")
			})
		})
	}
}

// While what all uploads run under is away that is the one reason, not one for each stream;
// and while tiering is disabled nothing of it is missed.
func TestOneReasonForAllUploads(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.stopAll("node/tiering/stream_factory")
		s.unready("tiering/stream_factory does not run: millrace tree restart node/tiering/stream_factory starts it")
		if _, err := s.SetTiering(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.ready()
	})
}

// What misses is named once, by its stream, and not again as a process.
func TestOneReasonForOneThing(t *testing.T) {
	standing(t, func(_ *testing.T, s *site) {
		s.stopAll("node/tiering/stream_factory/shop/replica_reader")
		s.unready("tiering of stream shop is stopped: the reconciler starts it again at its next look")
	})
}

// What is lost shows until it is declared, and only where it is known what the store holds
// and where the local log begins. A seam that moved on has declared what lies below.
func TestWhatIsLostAndNotDeclared(t *testing.T) {
	for what, c := range map[string]struct {
		state       admin.RemoteState
		floor, seam pos.Offset
		want        []admin.Gap
	}{
		"a hole":                      {admin.RemoteKnown, 50, 20, []admin.Gap{{From: 20, To: 50}}},
		"no hole":                     {admin.RemoteKnown, 20, 20, nil},
		"the seam has moved on":       {admin.RemoteKnown, 50, 50, nil},
		"nothing was ever stored":     {admin.RemoteKnown, 50, 0, []admin.Gap{{From: 0, To: 50}}},
		"the store is not known":      {admin.RemoteUnknown, 50, pos.NoOffset, nil},
		"the local log does not know": {admin.RemoteKnown, pos.NoOffset, 20, nil},
	} {
		s := admin.StreamStatus{
			RemoteState: c.state, LocalFirst: c.floor, SeamNext: c.seam,
			Tiering: upload.Status{},
		}
		if got := undeclared(s); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

// A node that has never heard which streams it has can't say that they run; what was once
// known stays known.
func TestReadyNeedsToKnowTheStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.cfg.Captures = nil
		s.metaFault.set(map[string]error{"streams": port.Unavailable})
		s.boot()
		defer s.stop()
		_, why := s.Ready()
		if len(why) == 0 {
			t.Fatal("ready")
		}
		says(t, why[len(why)-1], "which streams this node has is not known yet: ")
		pass(5 * time.Minute)
		_, why = s.Ready()
		if len(why) != 1 {
			t.Fatalf("reasons %q", why)
		}
		says(t, why[0], "which streams this node has is not known yet: ")
		says(t, why[0], port.Unavailable.Error())
		s.metaFault.set(nil)
		pass(time.Minute)
		s.ready()
		s.metaFault.set(map[string]error{"streams": port.Unavailable})
		pass(5 * time.Minute)
		s.ready()
	})
}

// A node whose tree has ended is not ready, whatever it was.
func TestAStoppedNodeIsNotReady(t *testing.T) {
	standing(t, func(_ *testing.T, s *site) {
		s.stop()
		s.unready(notUp)
	})
}

// A store that does not answer is a reason once that lasts, whether or not something waits for
// it, and then it is the one reason of all streams' uploads.
func TestAStoreThatIsAwayIsAReason(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.storeFault.set(map[string]error{"probe": port.Unavailable})
		pass(time.Minute - time.Second) // it has been looked at
		asked := s.tieringStatus(idStoreMonitor).(probe.Status)
		since := time.Since(asked.UnsureSince.Time())
		if asked.UnsureSince == 0 || since >= upload.Passes {
			t.Fatalf("shown is %+v", asked)
		}
		pass(upload.Passes - since - time.Millisecond)
		if _, why := s.Ready(); slices.ContainsFunc(why, func(w string) bool { return strings.Contains(w, "object store") }) {
			t.Errorf("not ready for %q, though it may pass", why)
		}
		pass(time.Millisecond)
		s.stopAll("node/tiering/stream_factory/shop")
		_, why := s.Ready()
		if len(why) != 1 || !strings.HasPrefix(why[0], "it is not known whether the object store is accessible: unknown since ") {
			t.Errorf("not ready for %q", why)
		}
		s.storeFault.set(nil)
		pass(2 * time.Minute)
		s.ready()
	})
}

// Who waits for the store is told what hinders it, the store or what its stream meets.
func TestWhoWaitsIsToldWhatHindersIt(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		told := func(want string) {
			t.Helper()
			d, err := s.Durable(t.Context(), "shop", 1<<40, time.Second)
			if err != nil || d.Durable || !strings.HasPrefix(d.Why, want) || (d.Why == "") != (want == "") {
				t.Errorf("%+v, %v: want %q", d, err, want)
			}
		}
		told("")
		s.storeFault.set(map[string]error{"get": port.Denied, "probe": port.Denied})
		pass(time.Minute)
		told("the object store is not accessible: no (access denied)")
		if d, err := s.Durable(t.Context(), "shop", 0, time.Second); err != nil || !d.Durable || d.Why != "" {
			t.Errorf("what is durable is hindered: %+v, %v", d, err)
		}
		s.storeFault.set(nil)
		s.metaFault.set(map[string]error{"pointer": port.Unavailable})
		s.kill("node/tiering/stream_factory/shop/replica_reader", 1, time.Minute)
		told("waiting: metadata: ")
	})
}

// A stream is found by its id as well, which is what metrics and logs tell; so no other may have
// that for its name.
func TestAStreamIsFoundByItsID(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		id := s.id()
		if st, err := s.Stream(t.Context(), id); err != nil || st.Name != "shop" || st.ID != id {
			t.Errorf("%+v, %v", st, err)
		}
		if cut, err := s.CutStream(t.Context(), id); err == nil && cut.Stream != "shop" {
			t.Errorf("%+v", cut)
		}
		if d, err := s.Durable(t.Context(), id, 0, time.Second); err != nil || d.Stream != "shop" {
			t.Errorf("%+v, %v", d, err)
		}
		_, err := s.CreateStream(t.Context(), id, nil)
		refused(t, err, admin.Exists, `is the id of the stream "shop"`)
	})
}

// A store is asked whose it is before a reset, for a while; and if the prefix is all that it tells
// at once, that is enough.
func TestAResetAsksTheStore(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		pass(time.Minute)
		s.storeTime.Store(int64(time.Hour))
		began := time.Now()
		_, err := s.ResetStream(t.Context(), "shop")
		refused(t, err, admin.Unavailable, "was asked whose it is, and has not said it")
		if took := time.Since(began); took != lookTime {
			t.Errorf("refused after %s", took)
		}
		s.storeTime.Store(0)
		pass(time.Minute)
		s.storeTime.Store(int64(lookTime * 2 / 3)) // each question of a round
		_, err = s.ResetStream(t.Context(), "shop")
		refused(t, err, admin.Exists, "neither lost nor damaged")
	})
}

// A store that is not ours has lost nothing.
func TestAResetIsRefusedInAStoreThatIsNotOurs(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		_, err := s.ResetStream(t.Context(), "shop")
		refused(t, err, admin.Exists, "neither lost nor damaged")
		store := s.ports.Store.(*fakestore.Store)
		for _, key := range store.Keys() {
			store.Drop(key)
		}
		if !s.gate.Trusted() {
			t.Fatal("it was noticed already: the test does not do what it is for")
		}
		_, err = s.ResetStream(t.Context(), "shop")
		refused(t, err, admin.Unavailable, "is not known to be this cluster's: accessible is no (the cluster's marker is missing)")
		if _, err := s.ClaimStore(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		_, err = s.ResetStream(t.Context(), "shop")
		refused(t, err, admin.Exists, "neither lost nor damaged")
		s.ready()
	})
}
