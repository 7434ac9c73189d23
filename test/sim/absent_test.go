package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/core/settings"
)

// captured is a calm world whose node captures the stream "shop".
func captured(t *testing.T) (*world, *node.Node) {
	t.Helper()
	w, n := calmWorld(t, func(w *world, s *settings.Settings, _ *node.Ports) { s.Captures = simSettings(w.rng).Captures })
	// Not at the moment of one of the keeper's looks: what a test stops it may find at once.
	time.Sleep(time.Minute + time.Second)
	mustBeReady(t, n)
	return w, n
}

func mustBeReady(t *testing.T, n *node.Node) {
	t.Helper()
	if ready, why := n.Ready(); !ready {
		t.Errorf("not ready: %q", why)
	}
}

// mustSay demands one reason for not being ready.
func mustSay(t *testing.T, n *node.Node, want string) {
	t.Helper()
	ready, reasons := n.Ready()
	if ready || !slices.ContainsFunc(reasons, func(why string) bool { return strings.Contains(why, want) }) {
		t.Errorf("ready %v, for %q; want %q", ready, reasons, want)
	}
}

// below are the processes of the stream and the capture "shop", with what misses them,
// who brings them back, and how soon.
var below = []struct {
	path, supervisor string
	ready, trouble   string
	within           time.Duration
}{
	{"node/log/shop/writer", "node/log/shop", "log shop is stopped: ", "the log is stopped: ", 11 * time.Second},
	{"node/captures/shop/capturer", "node/captures/shop", "capture shop is stopped: ", "capture shop is stopped: ", 11 * time.Second},
	{"node/tiering/stream_factory/shop/replica_reader", "node/tiering/stream_factory/shop", "tiering of stream shop is stopped: ", "uploading is stopped: ", 61 * time.Second},
}

// TestWhatAnOperatorStopsIsMissedAndBroughtBack: a worker or its supervisor, stopped by an
// operator, makes the node not ready while it is away, shows in the stream's status, leaves
// an event, and comes back by itself.
func TestWhatAnOperatorStopsIsMissedAndBroughtBack(t *testing.T) {
	for _, tc := range below {
		for _, path := range []string{tc.path, tc.supervisor} {
			synctest.Test(t, func(t *testing.T) {
				_, n := captured(t)
				defer stopNode(t, n)
				ctx := context.Background()
				old, process := process(t, n, tc.path), process(t, n, path)
				latest := n.Events(0).Next
				if err := n.Terminate(ctx, path); err != nil || old.Alive() {
					t.Fatalf("terminating %s: %v, it lives: %v", path, err, old.Alive())
				}
				mustSay(t, n, tc.ready)
				mustSay(t, n, " starts it again ")
				if path == tc.supervisor {
					mustSay(t, n, "an operator stopped it; ")
					if shown := tree(t, n, path); shown.State != admin.StateStopped || !shown.Trouble || !strings.Contains(shown.Note, "starts it again") {
						t.Errorf("the tree shows %+v", shown)
					}
				}
				if st, err := n.Stream(ctx, "shop"); err != nil || !strings.Contains(st.Trouble, tc.trouble) {
					t.Errorf("%s is stopped, and the stream's trouble is %q, %v", path, st.Trouble, err)
				}
				events := n.Events(latest).Events
				i := slices.IndexFunc(events, func(e admin.Event) bool { return e.Path == process.Path() })
				if i < 0 || events[i].Kind != "child_terminated" || events[i].Reason != "shutdown: an operator stopped it" || events[i].Trouble || events[i].Incarnation != process.Incarnation() {
					t.Errorf("of %s the events tell %+v", process.Path(), events)
				}
				time.Sleep(tc.within)
				if now := tree(t, n, tc.path).Handle; now == old || !now.Alive() {
					t.Errorf("%s is not back", tc.path)
				}
				time.Sleep(time.Second)
				mustBeReady(t, n)
			})
		}
	}
}

// TestWhatAnOperatorStoppedCanBeStartedAtOnce: also a child of a factory, which leaves
// nothing behind when it is stopped.
func TestWhatAnOperatorStoppedCanBeStartedAtOnce(t *testing.T) {
	for _, tc := range below {
		synctest.Test(t, func(t *testing.T) {
			_, n := captured(t)
			defer stopNode(t, n)
			ctx := context.Background()
			for _, steps := range [][2]string{{tc.supervisor, tc.supervisor}, {tc.supervisor, tc.path}, {tc.path, tc.path}, {tc.path, tc.supervisor}} {
				old := process(t, n, tc.path)
				if err := n.Terminate(ctx, steps[0]); err != nil {
					t.Fatal(err)
				}
				var refusal *admin.Error
				if err := n.Restart(ctx, tc.supervisor+"/nobody"); !errors.As(err, &refusal) || refusal.Class != admin.NotFound {
					t.Errorf("restarting what never is there gave %v", err)
				}
				if err := n.Restart(ctx, steps[1]); err != nil {
					t.Errorf("%s after %s was terminated: %v", steps[1], steps[0], err)
				}
				if now := process(t, n, tc.path); now == old {
					t.Errorf("%s is what it was", tc.path)
				}
				time.Sleep(2 * time.Minute)
				mustBeReady(t, n)
			}
			for _, path := range []string{strings.Replace(tc.supervisor, "shop", "nobody", 1), strings.Replace(tc.path, "shop", "nobody", 1)} {
				var refusal *admin.Error
				if err := n.Restart(ctx, path); !errors.As(err, &refusal) || refusal.Class != admin.NotFound {
					t.Errorf("restarting %s gave %v", path, err)
				}
			}
		})
	}
}

// TestReadyMissesWhatIsParked: what spent its restarts has left the tree, and is missed.
func TestReadyMissesWhatIsParked(t *testing.T) {
	for _, tc := range below {
		synctest.Test(t, func(t *testing.T) {
			_, n := captured(t)
			defer stopNode(t, n)
			for range 6 {
				process(t, n, tc.path).Kill()
				synctest.Wait()
			}
			mustSay(t, n, strings.Split(tc.ready, "stopped")[0]+"parked: ")
			time.Sleep(2 * time.Minute)
			mustBeReady(t, n)
		})
	}
}

// TestReadyMissesTheNodesOwnParts: each of them, wherever it stands in the tree, and says
// how it comes back.
func TestReadyMissesTheNodesOwnParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := captured(t)
		defer stopNode(t, n)
		ctx := context.Background()
		for _, id := range []string{"manifest_replica", "reaper", "store_monitor", "governor", "stream_factory", "reconciler"} {
			path := "node/tiering/" + id
			if err := n.Terminate(ctx, path); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			mustSay(t, n, "tiering/"+id+" does not run: millrace tree restart "+path+" starts it")
			if _, reasons := n.Ready(); len(reasons) != 1 && id != "store_monitor" {
				t.Errorf("without %s the reasons are %q", id, reasons)
			}
			if err := n.Restart(ctx, path); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Minute)
			mustBeReady(t, n)
		}
		if _, err := n.SetTiering(ctx, false); err != nil {
			t.Fatal(err)
		}
		mustBeReady(t, n)
	})
}

// TestReadyKnowsThatItDoesNotKnow: while the streams can't be listed the node is not ready.
func TestReadyKnowsThatItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		_, n := calmWorld(t, func(w *world, _ *settings.Settings, _ *node.Ports) {
			w.meta.Fault = func(op, _ string) error {
				if down.Load() && op == "streams" {
					return port.Unavailable
				}
				return nil
			}
		})
		defer stopNode(t, n)
		synctest.Wait()
		mustSay(t, n, "which streams this node has is not known yet")
		time.Sleep(time.Minute)
		mustSay(t, n, "which streams this node has is not known yet")
		down.Store(false)
		time.Sleep(time.Minute)
		mustBeReady(t, n)
		down.Store(true)
		time.Sleep(time.Minute)
		mustBeReady(t, n)
	})
}

// TestReadersAndCapturesStay: they may be restarted as a whole, not stopped.
func TestReadersAndCapturesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := captured(t)
		defer stopNode(t, n)
		ctx := context.Background()
		for _, path := range []string{"node/readers", "node/captures"} {
			var refusal *admin.Error
			err := n.Terminate(ctx, path)
			if !errors.As(err, &refusal) || refusal.Class != admin.Forbidden || !strings.Contains(refusal.Hint, "millrace tree restart "+path) {
				t.Errorf("terminating %s gave %v", path, err)
			}
			old := process(t, n, path)
			if err := n.Restart(ctx, path); err != nil || old.Alive() {
				t.Errorf("restarting %s gave %v", path, err)
			}
			synctest.Wait()
			process(t, n, "node/captures/shop/capturer")
			r, err := n.Open(ctx, "shop", admin.ReadSpec{From: resolve.At(0)})
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		}
	})
}

// TestOperatorsAllAtOnce: many of them create streams, switch tiering and stop and start
// processes, also of what the others just stopped. Nothing crashes for it, and when they
// leave off all comes back.
func TestOperatorsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := captured(t)
		ctx := context.Background()
		paths := []string{"node/tiering/governor", "node/tiering/reaper", "node/tiering/manifest_replica", "node/tiering/reconciler",
			"node/tiering/stream_factory", "node/captures", "node/readers", "node/tiering"}
		for _, tc := range below {
			paths = append(paths, tc.path, tc.supervisor)
		}
		operate := func(r *rand.Rand) {
			var err error
			switch r.IntN(6) {
			case 0:
				_, err = n.CreateStream(ctx, fmt.Sprint("s", r.IntN(40)), nil)
			case 1:
				_, err = n.SetTiering(ctx, r.IntN(2) == 0)
			case 2:
				err = n.Terminate(ctx, paths[r.IntN(len(paths))])
			case 3, 4:
				err = n.Restart(ctx, paths[r.IntN(len(paths))])
			default:
				_, err = n.Tree(admin.TreeQuery{Limit: 1000})
			}
			if refusal, ok := errors.AsType[*admin.Error](err); err != nil && (!ok || refusal.Class == admin.Internal) {
				t.Errorf("an operator was answered %v", err)
			}
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 3))
				for range 300 {
					operate(r)
					time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
				}
			})
		}
		all.Wait()
		for _, e := range n.Events(0).Events {
			if e.Kind != "child_terminated" && e.Trouble || strings.Contains(e.Stack, "millrace/supervision") {
				t.Errorf("%s of %s: %s\n%s", e.Kind, e.Path, e.Reason, e.Stack)
			}
		}
		if _, err := n.SetTiering(ctx, true); err != nil {
			t.Error(err)
		}
		for _, path := range paths {
			if c, err := n.Tree(admin.TreeQuery{Path: path}); err == nil && c.State == "undefined" {
				if err := n.Restart(ctx, path); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(3 * time.Minute)
		mustBeReady(t, n)
		st, err := n.Stream(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		publish(t, n, pos.StreamID(st.ID), "after all that")
		stopNode(t, n)
	})
}

// TestARestartedFactoryBringsBackItsChildrenAtOnce: however often an operator restarts what
// children run below, they are back at once: that is no sign that they do not last.
func TestARestartedFactoryBringsBackItsChildrenAtOnce(t *testing.T) {
	for _, tc := range []struct{ restart, child string }{
		{"node/captures", "node/captures/shop/capturer"},
		{"node/captures/shop", "node/captures/shop/capturer"},
		{"node/log/shop", "node/log/shop/writer"},
		{"node/tiering/stream_factory", "node/tiering/stream_factory/shop/replica_reader"},
		{"node/tiering", "node/tiering/stream_factory/shop/replica_reader"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, n := captured(t)
			defer stopNode(t, n)
			for i := range 6 {
				old := process(t, n, tc.child)
				if err := n.Restart(context.Background(), tc.restart); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if now := tree(t, n, tc.child).Handle; now == old || !now.Alive() {
					t.Fatalf("restart %d of %s: %s is not back", i, tc.restart, tc.child)
				}
			}
			// The next that is only terminated is back at the keeper's or reconciler's next look.
			if err := n.Terminate(context.Background(), tc.child); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			mustBeReady(t, n)
		})
	}
}

// TestEveryNameCanBeAddressed: a stream whose name is allowed is found by it wherever a path
// leads to it; a path that can mean two things is refused, and an id is always one.
func TestEveryNameCanBeAddressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := calmWorld(t, func(*world, *settings.Settings, *node.Ports) {})
		defer stopNode(t, n)
		ctx := context.Background()
		ids := map[string]string{}
		for _, name := range []string{"a", "a/b", "a/b/c", "a/writer", "''", "two words", "日本", "a.b:c%d?e#f", "node", "node/log"} {
			st, err := n.CreateStream(ctx, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids[name] = st.ID
			time.Sleep(time.Second)
		}
		for name, id := range ids {
			for _, at := range []string{name, id} {
				if at == "a/writer" {
					continue
				}
				if found := tree(t, n, "node/log/"+at); found.ID != id || found.Label != name {
					t.Errorf("at %q there is %s, %q", at, found.ID, found.Label)
				}
				if name == "a" && at == name {
					continue // its writer's path can be another stream
				}
				old := process(t, n, "node/log/"+at+"/writer")
				if old.Path() != "node/log/"+id+"/writer" {
					t.Errorf("the writer of %q is %s", at, old.Path())
				}
				if err := n.Restart(ctx, "node/log/"+at+"/writer"); err != nil || old.Alive() {
					t.Errorf("restarting the writer of %q: %v", at, err)
				}
				time.Sleep(5 * time.Second)
				if err := n.Terminate(ctx, "node/tiering/stream_factory/"+at); err != nil {
					t.Error(err)
				}
				if err := n.Restart(ctx, "node/tiering/stream_factory/"+at+"/replica_reader"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
			if st, err := n.Stream(ctx, name); err != nil || st.ID != id {
				t.Errorf("stream %q is %s, %v", name, st.ID, err)
			}
			if names, err := n.Names(ctx, name); err != nil || len(names) != 2 || names[0].ID != id {
				t.Errorf("the names of %q are %+v, %v", name, names, err)
			}
		}
		_, shown := n.Tree(admin.TreeQuery{Path: "log/a/writer"})
		for what, err := range map[string]error{"shown": shown, "terminated": n.Terminate(ctx, "node/log/a/writer"), "restarted": n.Restart(ctx, "/node/log/a/writer/")} {
			var refusal *admin.Error
			if !errors.As(err, &refusal) || refusal.Class != admin.Invalid || !strings.Contains(refusal.Hint, "node/log/"+ids["a/writer"]+", or node/log/"+ids["a"]+"/writer") {
				t.Errorf("what can mean two things is %s: %v", what, err)
			}
		}
		for _, name := range []string{"a//b", "x\u202ey", "a\x1b[2J"} {
			var refusal *admin.Error
			if _, err := n.CreateStream(ctx, name, nil); !errors.As(err, &refusal) || refusal.Class != admin.Invalid || !strings.Contains(err.Error(), "at byte") {
				t.Errorf("creating %q gave %v", name, err)
			}
		}
	})
}
