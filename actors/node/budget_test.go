package node

import (
	"testing"
	"time"

	"millrace/actors/admin"
)

// Three crashes of a part within 5 s are borne, of its node's own parts as of tiering's.
// The fourth ends what it is a part of: the node, or tiering, which the keeper brings back.
func TestTheBudgetOfAPart(t *testing.T) {
	for _, c := range []struct {
		path  string
		lives func(s *site) bool
	}{
		{"node/admin", func(s *site) bool { return s.root.Load().Alive() }},
		{"node/tiering/governor", func(s *site) bool { return s.live("node/tiering") != nil }},
	} {
		t.Run(c.path, func(t *testing.T) {
			for _, within := range []bool{true, false} {
				standing(t, func(t *testing.T, s *site) {
					apart := 1700 * time.Millisecond // four take 5.1 s
					if within {
						apart = 1600 * time.Millisecond
					}
					if !s.kill(c.path, 3, apart) {
						t.Fatal("three crashes are not borne")
					}
					s.kill(c.path, 1, 0)
					if c.lives(s) == within {
						t.Errorf("the fourth crash, within 5 s: %v, is survived: %v", within, !within)
					}
				})
			}
		})
	}
}

// Five crashes within 10 s are borne of what is one stream's; the sixth parks that, costs
// nothing above it a restart, and the keeper or the reconciler brings it back.
func TestTheBudgetOfAStream(t *testing.T) {
	for _, c := range []struct{ above, factory, worker, missed string }{
		{"node", "node/log", "writer", "log shop is parked: "},
		{"node", "node/captures", "capturer", "capture shop is parked: "},
		{"node/tiering", "node/tiering/stream_factory", "replica_reader", "tiering of stream shop is parked: "},
	} {
		t.Run(c.factory, func(t *testing.T) {
			for _, within := range []bool{true, false} {
				standing(t, func(t *testing.T, s *site) {
					one := c.factory + "/shop"
					factory, above := s.live(c.factory), s.live(c.above)
					apart := 2100 * time.Millisecond // six take 10.5 s
					if within {
						apart = 1900 * time.Millisecond
					}
					if !s.kill(one+"/"+c.worker, 5, apart) {
						t.Fatal("five crashes are not borne")
					}
					s.kill(one+"/"+c.worker, 1, 0)
					if parked := s.live(one) == nil; parked != within {
						t.Fatalf("the sixth crash, within 10 s: %v, parks: %v", within, parked)
					}
					if s.live(c.factory) != factory || s.live(c.above) != above {
						t.Error("others are restarted for it")
					}
					if !within {
						return
					}
					at, err := s.find(one)
					if err != nil || at.State != admin.StateParked {
						t.Errorf("shown is %+v, %v", at, err)
					}
					ok, why := s.Ready()
					if ok || len(why) == 0 {
						t.Error("ready without it")
					}
					says(t, why[len(why)-1], c.missed)
					says(t, at.LastExit, "5 restarts within its period, the last for ")
					pass(time.Minute)
					s.ready()
				})
			}
		})
	}
}

// Tiering that gave up costs the node no restart, and is back within a minute.
func TestTieringThatGaveUpComesBack(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		log := s.live("node/log")
		for i := range 6 { // more often than the node's own budget has
			s.kill("node/tiering/governor", 4, 0)
			if s.live("node/tiering") != nil {
				t.Fatalf("it did not give up, time %d", i)
			}
			says(t, s.Tiering().State, "not running: it gave up")
			s.unready("tiering does not run: gave up; the keeper starts it again within a minute")
			pass(time.Minute + time.Second)
			s.ready()
		}
		if s.live("node/log") != log {
			t.Error("the logs were restarted for it")
		}
	})
}
