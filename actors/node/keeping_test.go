package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/keeper"
	"millrace/actors/port"
	"millrace/core/keep"
	"millrace/core/segment"
	"millrace/core/settings"
	"millrace/registry"
)

// listening stands in for the keeper: it notes what it is told.
type listening struct {
	reg   *registry.Registry
	heard []any
}

func (l *listening) Init(c *actors.Context) error {
	l.reg.Register(c, keeper.Name("n1"))
	return nil
}

func (l *listening) Handle(_ *actors.Context, msg any) *actors.Reason {
	l.heard = append(l.heard, msg)
	return nil
}

func (l *listening) Terminate(*actors.Context, actors.Reason) {}

// The keeper is told of everything that went down with what an operator stopped, and of
// nothing that has another keeper.
func TestWhatIsExcused(t *testing.T) {
	captures := []keep.Item{{Kind: keep.Capture, ID: "a"}, {Kind: keep.Capture, ID: "log"}}
	for at, want := range map[string][]keep.Item{
		"node/tiering":          {{Kind: keep.Tiering}},
		"node/tiering/governor": nil,
		"node/tiering/stream_factory/__s_1/replica_reader": nil,
		"node/readers/7":             nil,
		"node/log/__s_1":             {{Kind: keep.Writer, ID: "__s_1"}},
		"node/log/__s_1/writer":      {{Kind: keep.Writer, ID: "__s_1"}},
		"node/captures/a":            captures[:1],
		"node/captures/log/capturer": captures[1:],
		"node/captures":              captures,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &Node{system: actors.NewSystem(1), registry: registry.New()}
			defer n.system.Close()
			n.identity.Node = "n1"
			n.cfg.Captures = []settings.Capture{{Name: "a"}, {Name: "log"}}
			k := &listening{reg: n.registry}
			if _, err := n.system.Start(context.Background(), actors.Spec{Path: "keeper", New: func() actors.Process { return k }}); err != nil {
				t.Fatal(err)
			}
			n.excuse(at)
			synctest.Wait()
			var got []keep.Item
			for _, msg := range k.heard {
				got = append(got, msg.(keeper.Excused).Items...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("stopping %s excuses %v, want %v", at, got, want)
			}
		})
	}
}

// wants demands what the keeper is told that should run here.
func (s *site) wants(want ...keep.Item) {
	s.t.Helper()
	got, err := s.wanted(s.t.Context())
	if err != nil || !slices.Equal(got, want) {
		s.t.Errorf("wanted are %v, %v; want %v", got, err, want)
	}
}

func (s *site) runs(want ...keep.Item) {
	s.t.Helper()
	if got := s.running(); !slices.Equal(slices.SortedFunc(slices.Values(got), func(a, b keep.Item) int { return int(a.Kind) - int(b.Kind) }), want) {
		s.t.Errorf("running are %v, want %v", got, want)
	}
}

// Wanted is what the configuration and the metadata name, but nothing that an operator
// disabled or that is being deleted; running is what has a process, and not what has an
// empty supervisor only.
func TestWhatIsWantedAndWhatRuns(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		tiering, log, capture := keep.Item{Kind: keep.Tiering}, keep.Item{Kind: keep.Writer, ID: s.id()}, keep.Item{Kind: keep.Capture, ID: "shop"}
		s.wants(tiering, capture, log)
		s.runs(tiering, log, capture)
		s.stopAll("node/captures/shop/capturer")
		s.runs(tiering, log)
		if _, err := s.SetTiering(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		s.wants(capture, log)
		s.runs(log)
		if _, err := s.meta.CreateStream(t.Context(), port.Stream{ID: "__gone_1", Name: "gone", Phase: port.PhaseDeleting}); err != nil {
			t.Fatal(err)
		}
		s.wants(capture, log)
		s.metaFault.set(map[string]error{"streambyname": errors.New("planned")})
		if got, err := s.wanted(t.Context()); err == nil {
			t.Errorf("a stream that can't be looked up is taken for one: %v", got)
		} else {
			says(t, err.Error(), "capture shop: ")
		}
	})
}

// That a thing runs already, or is not wanted any more, is no failure of its start.
func TestStartingWhatRuns(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		items := s.running()
		for range 2 {
			for _, item := range items {
				if err := s.start(t.Context(), item); err != nil {
					t.Errorf("starting %s: %v", item, err)
				}
			}
			if _, err := s.SetTiering(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		s.wished(false, "operator")
	})
}

// A capture runs as soon as its stream is there, also where the answer to its creation was
// lost.
func TestACaptureWhoseStreamsCreationHasNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.metaAfter.set(map[string]error{"createstream": port.UnknownOutcome})
		s.boot()
		defer s.stop()
		pass(5 * time.Second)
		s.ready()
	})
}

// What another has changed of a stream's row reaches the log that runs at the next look.
func TestAChangedRowReachesTheLog(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		row, err := s.meta.StreamByName(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		row.Arguments = map[string]string{"max-age": "7D"}
		if err := s.meta.SwapStreams(t.Context(), []port.Stream{row}); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if got, ok := s.live("node/log/shop/writer").Status().(segment.Status); !ok || got.Retention.MaxAge != 7*24*time.Hour {
			t.Errorf("the log goes by %+v", got.Retention)
		}
	})
}

// What can't be a stream is not stored: it would be a folder's and an object's name.
func TestAStreamThatCannotBeCreated(t *testing.T) {
	standing(t, func(t *testing.T, s *site) {
		for name, args := range map[string]map[string]string{
			"": nil, "a\nb": nil, "bad-age": {"max-age": "soon"}, "bad-size": {"max-length-bytes": "0"},
		} {
			_, err := s.CreateStream(t.Context(), name, args)
			if e, ok := errors.AsType[*admin.Error](err); !ok || e.Class != admin.Invalid {
				t.Errorf("%q with %v: %v", name, args, err)
			}
		}
		if all, err := s.meta.Streams(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("stored are %+v, %v", all, err)
		}
	})
}
