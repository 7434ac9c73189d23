package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
	"millrace/actors/port"
)

// wished demands who says whether tiering runs, and that it does as is said.
func (s *site) wished(enabled bool, by string) {
	s.t.Helper()
	state := "disabled by the " + by
	if enabled {
		state = "enabled"
	}
	if got, want := s.Tiering(), (admin.Tiering{Enabled: enabled, By: by, State: state}); got != want {
		s.t.Errorf("tiering is %+v, want %+v", got, want)
	}
	if runs := s.live("node/tiering") != nil; runs != enabled {
		s.t.Errorf("tiering runs: %v, want %v", runs, enabled)
	}
}

func (s *site) storedWish(want string) {
	s.t.Helper()
	if got, err := s.meta.Setting(context.Background(), settingTiering); err != nil || got != want {
		s.t.Errorf("stored is %q, %v; want %q", got, err, want)
	}
}

// An operator's wish is in the metadata store when he is told so, holds after a restart of
// the node, and against the configuration; nothing starts what is disabled.
func TestAWishOutlivesTheNode(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.wished(true, "configuration")
		for _, enabled := range []bool{false, true} {
			for range 2 { // once more is no error
				if _, err := s.SetTiering(t.Context(), enabled); err != nil {
					t.Fatal(err)
				}
				s.wished(enabled, "operator")
			}
			s.storedWish(map[bool]string{false: "false", true: "true"}[enabled])
			s.stop()
			s.cfg.Tiering.Enabled = !enabled
			s.boot()
			pass(5 * time.Minute)
			s.wished(enabled, "operator")
			s.ready()
		}
	})
}

// Until an operator says something the configuration decides.
func TestWithoutAWishTheConfigurationDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.cfg.Tiering.Enabled = false
		s.boot()
		defer s.stop()
		pass(5 * time.Minute)
		s.wished(false, "configuration")
		err := s.Restart(t.Context(), "node/tiering")
		refused(t, err, admin.Forbidden, "tiering is disabled")
		s.wished(false, "configuration")
		s.ready()
	})
}

// A node that can't tell what was wished does not start with a guess.
func TestAWishThatCannotBeReadKeepsTheNodeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		down := func(want string) {
			t.Helper()
			n, err := Start(t.Context(), s.cfg, s.ports, About{}, zerolog.Nop())
			if err == nil {
				t.Fatalf("%+v stands", n.Tiering())
			}
			says(t, err.Error(), want)
		}
		s.metaFault.set(map[string]error{"setting": port.Unavailable})
		down("reading the operator's wishes")
		s.metaFault.set(nil)
		if err := s.meta.PutSetting(t.Context(), settingTiering, "perhaps"); err != nil {
			t.Fatal(err)
		}
		down(`setting tiering.enabled is "perhaps": want true or false`)
	})
}

// A wish that was not stored is not carried out; where that is not known it is looked up.
func TestAWishIsStoredBeforeItIsCarriedOut(t *testing.T) {
	for _, c := range []struct {
		what           string
		instead, after map[string]error
		refused        string
	}{
		{"not stored", map[string]error{"putsetting": port.Unavailable}, nil, "storing the wish for tiering"},
		{"lost on its way", map[string]error{"putsetting": port.UnknownOutcome}, nil, "storing the wish for tiering"},
		{"its answer is lost", nil, map[string]error{"putsetting": port.UnknownOutcome}, ""},
		{"its answer is lost, and nobody tells", map[string]error{"setting": port.Unavailable}, map[string]error{"putsetting": port.UnknownOutcome}, "storing the wish for tiering"},
	} {
		t.Run(c.what, func(t *testing.T) {
			standing(t, func(t *testing.T, s *site) {
				if _, err := s.SetTiering(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				s.metaFault.set(c.instead)
				s.metaAfter.set(c.after)
				got, err := s.SetTiering(t.Context(), false)
				if c.refused == "" {
					if err != nil || got.Enabled {
						t.Errorf("%+v, %v", got, err)
					}
					s.wished(false, "operator")
					return
				}
				refused(t, err, admin.Unavailable, c.refused)
				s.wished(true, "operator")
			})
		})
	}
}

// One change of tiering at a time; who can't wait for the other is told.
func TestWishesAreCarriedOutOneByOne(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		s.wish.turn <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.SetTiering(ctx, false)
		refused(t, err, admin.Unavailable, "another change of tiering is under way")
		<-s.wish.turn
		for _, enabled := range []bool{false, true} {
			if _, err := s.SetTiering(t.Context(), enabled); err != nil {
				t.Fatal(err)
			}
			s.wished(enabled, "operator")
		}
	})
}

// Whoever reads the events learns that it was an operator who stopped tiering.
func TestDisablingTieringIsAnEvent(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		_, from, _ := s.events.Since(0)
		for range 2 {
			if _, err := s.SetTiering(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		var told []string
		for _, e := range s.Events(from).Events {
			if strings.Contains(e.Reason, byOperator) {
				told = append(told, e.Kind+" "+e.Path)
			}
		}
		if len(told) != 1 || told[0] != "child_terminated node/tiering" {
			t.Errorf("told is %q", told)
		}
	})
}
