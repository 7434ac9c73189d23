package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/core/pos"
	"millrace/core/settings"
)

// calmWorld is a world without latency, faults or a captured database, and a node on it.
func calmWorld(t *testing.T, change func(w *world, s *settings.Settings, p *node.Ports)) (*world, *node.Node) {
	w := newWorld(t, 1)
	w.store.Latency, w.meta.Latency, w.store.Fault, w.store.After, w.meta.Fault, w.meta.After = nil, nil, nil, nil, nil, nil
	s, p := simSettings(w.rng), w.ports()
	s.Captures, s.Tiering.ReconcileInterval = nil, time.Minute
	change(w, &s, &p)
	n, err := node.Start(context.Background(), s, p, node.About{Version: "sim"}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return w, n
}

func stopNode(t *testing.T, n *node.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

const (
	manyStreams = 1000
	victim      = 500
)

// TestOneStreamOfAThousandCrashesForEver: its replica reader parks alone, nobody beside it
// or above it is restarted or slowed down, and it is picked up within a minute of the
// cause being gone.
func TestOneStreamOfAThousandCrashesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		var bad pos.StreamID
		_, n := calmWorld(t, func(w *world, _ *settings.Settings, _ *node.Ports) {
			w.store.Fault = func(_, key string) error {
				if broken.Load() && strings.Contains(key, bad.String()) {
					panic("a planted bug")
				}
				return nil
			}
		})
		var streams []pos.StreamID
		for i := range manyStreams {
			st, err := n.CreateStream(context.Background(), fmt.Sprintf("s%04d", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, pos.StreamID(st.ID))
		}
		bad = streams[victim]
		for round := range 3 {
			// The first round is stored whole, so that from the second one on the victim
			// crashes as soon as it looks for what it has stored.
			broken.Store(round > 0)
			logs := tree(t, n, "node/log").Children
			for _, l := range logs {
				publishTo(t, l.Children[0].Handle, "a record")
			}
			time.Sleep(2*time.Minute + 7*time.Second) // between two looks of the reconciler
			checkTheOthers(t, n, round+1)
		}
		checkParked(t, n, bad)
		broken.Store(false)
		mended := time.Now()
		for {
			time.Sleep(time.Second)
			if _, err := n.Tree(admin.TreeQuery{Path: "node/tiering/stream_factory/s0500/replica_reader"}); err == nil {
				break
			}
		}
		if took := time.Since(mended); took > time.Minute {
			t.Errorf("picked up %v after the cause was gone", took)
		}
		time.Sleep(10 * time.Second)
		st, err := n.Stream(context.Background(), "s0500")
		if err != nil || st.SeamNext != 3 || st.Trouble != "" {
			t.Errorf("after it was picked up: %+v, %v", st, err)
		}
		stopNode(t, n)
	})
}

// checkTheOthers: all but the victim are stored up to what was published, and none of
// their processes was ever restarted.
func checkTheOthers(t *testing.T, n *node.Node, records int) {
	t.Helper()
	all, err := n.Streams(context.Background())
	if err != nil || len(all) != manyStreams {
		t.Fatalf("%d streams, %v", len(all), err)
	}
	for _, st := range all {
		if st.Name != "s0500" && (st.SeamNext != pos.Offset(records) || st.Next != pos.Offset(records) || st.Trouble != "") {
			t.Errorf("%s is stored to %s of %s: %s", st.Name, st.SeamNext, st.Next, st.Trouble)
		}
	}
	for _, factory := range []string{"node/log", "node/tiering/stream_factory"} {
		f := tree(t, n, factory)
		if f.Budget.Restarts != 0 {
			t.Errorf("%s was charged %d restarts", factory, f.Budget.Restarts)
		}
		for _, c := range f.Children {
			if c.Label != "s0500" && (c.State != "running" || c.Restarts != 0 || c.Trouble || c.LastExit != "") {
				t.Errorf("%s is %s after %d restarts: %s", c.Label, c.State, c.Restarts, c.LastExit)
			}
			for _, worker := range c.Children {
				if c.Label != "s0500" && (worker.State != "running" || worker.LastExit != "") {
					t.Errorf("%s is %s: %s", worker.Path, worker.State, worker.LastExit)
				}
			}
		}
	}
	for _, c := range tree(t, n, "node").Children {
		if c.Restarts != 0 || c.State != "running" {
			t.Errorf("%s is %s after %d restarts", c.Path, c.State, c.Restarts)
		}
	}
}

// checkParked: the victim's supervisor gave up after 5 restarts in 10 s, every time, and
// the surface says so.
func checkParked(t *testing.T, n *node.Node, bad pos.StreamID) {
	t.Helper()
	f := tree(t, n, "node/tiering/stream_factory")
	if f.Page.Total != manyStreams || f.Page.States[admin.StateParked] != 1 || f.Page.States["running"] != manyStreams-1 || f.Page.Troubled != 1 {
		t.Errorf("the factory holds %+v", f.Page)
	}
	if first := f.Children[0]; first.Label != "s0500" || first.State != admin.StateParked || !strings.Contains(first.LastExit, "a planted bug") || !first.Trouble {
		t.Errorf("the first of the factory's children is %+v", first)
	}
	st, err := n.Stream(context.Background(), "s0500")
	if err != nil || st.State != "running" || !strings.Contains(st.Trouble, "uploading is parked: 5 restarts") {
		t.Errorf("the stream's trouble is %q, %v", st.Trouble, err)
	}
	first, gaveUp := map[int]time.Time{}, 0
	for _, e := range n.Events(0).Events {
		if !e.Trouble {
			continue
		}
		if !strings.HasPrefix(e.Path, "node/tiering/stream_factory/"+bad.String()) {
			t.Errorf("trouble elsewhere: %+v", e)
		}
		switch e.Kind {
		case "child_terminated":
			if _, known := first[gaveUp]; !known {
				first[gaveUp] = e.Time
			}
		case "max_intensity":
			if took := e.Time.Sub(first[gaveUp]); e.Restarts != 5 && e.Restarts != 6 || e.Intensity != 5 || took > 10*time.Second {
				t.Errorf("gave up %v after the first crash: %+v", took, e)
			}
			gaveUp++
		}
	}
	if gaveUp < 3 {
		t.Errorf("gave up %d times in 6 minutes: it is not picked up again", gaveUp)
	}
}

// breakableMetrics panic for what they are told to.
type breakableMetrics struct {
	noMetrics
	broken atomic.Pointer[string]
}

func (m *breakableMetrics) Gauge(name string, _ float64, _ ...string) {
	if prefix := m.broken.Load(); prefix != nil && strings.HasPrefix(name, *prefix) {
		panic("a planted bug in " + name)
	}
}

// TestTieringGivesUpAgainAndAgain: with a governor that can't live, and then with a
// reaper that is killed whenever it runs, tiering gives up each time it is started. No
// publisher, capture or local reader notices, the node stays up, and the keeper brings
// tiering back once the cause is gone.
func TestTieringGivesUpAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.showLog()
		metrics := &breakableMetrics{}
		s := w.begin(-1, false)
		p := w.ports()
		p.Metrics = metrics
		n, err := node.Start(context.Background(), simSettings(w.rng), p, node.About{}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		st, err := n.CreateStream(context.Background(), "published", nil)
		if err != nil {
			t.Fatal(err)
		}
		id := pos.StreamID(st.ID)
		time.Sleep(30 * time.Second)
		stop := w.follow(n, s)
		governor := "governor_"
		metrics.broken.Store(&governor)
		process(t, n, "node/tiering/governor").Kill()
		w.lifeGoesOn(t, n, id, 5*time.Minute, nil)
		metrics.broken.Store(nil)
		w.lifeGoesOn(t, n, id, time.Minute, nil)
		checkTieringRuns(t, n)
		w.lifeGoesOn(t, n, id, 5*time.Minute, func() {
			if reaper, err := n.Tree(admin.TreeQuery{Path: "node/tiering/reaper"}); err == nil && reaper.Handle.Alive() {
				reaper.Handle.Kill()
			}
		})
		w.lifeGoesOn(t, n, id, time.Minute, nil)
		checkTieringRuns(t, n)
		gaveUp := 0
		for _, e := range n.Events(0).Events {
			if e.Kind == "max_intensity" && strings.HasPrefix(e.Path, "node/tiering/") {
				gaveUp++
			}
			if e.Trouble && !strings.HasPrefix(e.Path, "node/tiering") {
				t.Errorf("trouble elsewhere: %+v", e)
			}
		}
		if gaveUp < 5 {
			t.Errorf("tiering gave up %d times: the test does not do what it is for", gaveUp)
		}
		for _, c := range tree(t, n, "node").Children {
			if c.Restarts != 0 {
				t.Errorf("the root restarted %s %d times", c.ID, c.Restarts)
			}
		}
		if w.caughtUp(n) {
			w.verify(n)
		}
		stop()
		w.end(n, s)
	})
}

func checkTieringRuns(t *testing.T, n *node.Node) {
	t.Helper()
	if state := n.Tiering().State; state != "enabled" {
		t.Errorf("a minute after the cause was gone tiering is %s", state)
	}
}

// lifeGoesOn publishes, commits to the captured database and waits for what was committed
// to be readable, all the time, and demands that each happens within a second of
// virtual time. between runs ten times a second.
func (w *world) lifeGoesOn(t *testing.T, n *node.Node, id pos.StreamID, for_ time.Duration, between func()) {
	t.Helper()
	var all sync.WaitGroup
	over := make(chan struct{})
	if between != nil {
		all.Go(func() {
			for !isClosed(over) {
				between()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	for began := time.Now(); time.Since(began) < for_; {
		if took := publish(t, n, id, "a record"); took > time.Second {
			t.Errorf("publishing took %v", took)
		}
		before, err := n.Stream(context.Background(), streamName)
		if err != nil {
			t.Error(err)
		}
		x := &writer{s: w.source, tx: w.source.db.Begin()}
		x.insert()
		x.commit()
		time.Sleep(time.Second)
		after, err := n.Stream(context.Background(), streamName)
		if err != nil || after.Next <= before.Next || after.State != "running" {
			t.Errorf("a second after a commit the captured stream ends at %s, it was %s before: %s %v", after.Next, before.Next, after.Trouble, err)
		}
		w.mu.Lock()
		_, seen := w.seen[after.Next-1]
		w.mu.Unlock()
		if !seen {
			t.Errorf("a second after a commit a follower has not seen offset %s", after.Next-1)
		}
	}
	close(over)
	all.Wait()
}
