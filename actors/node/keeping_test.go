package node

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"millrace/actors"
	"millrace/actors/keeper"
	"millrace/core/keep"
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
