package sim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/core/resolve"
)

// TestTieringIsSwitchedUnderLoad disables and enables tiering again and again while the
// source writes and followers read, with a store that fails now and then, and a restart
// of the node in between: nothing is lost or doubled, and uploading resumes where the
// manifest left off.
func TestTieringIsSwitchedUnderLoad(t *testing.T) {
	var refused, switches int
	for seed := uint64(1); seed <= 4; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.showLog()
			w.source.preload(300)
			worked := make(chan struct{})
			go func() {
				defer close(worked)
				w.source.run(250)
			}()
			for range 3 {
				r, s := w.switchingLife(worked)
				refused, switches = refused+r, switches+s
			}
			<-worked
			w.lastLife()
		})
	}
	t.Logf("tiering was switched %d times, %d reads were refused for it", switches, refused)
	if refused == 0 || switches < 20 {
		t.Errorf("%d reads were refused in %d switches: the test does not do what it is for", refused, switches)
	}
}

func (w *world) showLog() {
	if w.t.Failed() {
		w.t.Logf("seed %d: the nodes' logs:\n%s", w.seed, w.tailOfLog())
	}
}

// switchingLife runs the node, stops it in order in the middle of a switch or between
// two, and leaves tiering enabled only at its very end, so that the next life begins
// with the wish of this one.
func (w *world) switchingLife(worked <-chan struct{}) (refused, switches int) {
	s := w.begin(-1, true)
	n := w.start(s)
	if n == nil {
		w.t.Fatalf("seed %d: the node does not start", w.seed)
	}
	stop := w.follow(n, s)
	enabled := n.Tiering().Enabled
	for range 4 + w.rng.IntN(4) {
		enabled = !enabled
		w.say(n, enabled)
		switches++
		time.Sleep(time.Duration(w.rng.IntN(15_000)) * time.Millisecond)
		if !enabled && w.readsBelowAreRefused(n) {
			refused++
		}
	}
	w.say(n, isClosed(worked)) // while there is work the next life starts disabled
	stop()
	s.calm()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	s.stop()
	w.bury(nil, s)
	if isClosed(worked) {
		return refused, switches
	}
	return refused, switches + w.theWishSurvives()
}

// say tells the node the wish until it is carried out: the metadata store fails at times.
func (w *world) say(n *node.Node, enabled bool) {
	for range 20 {
		t, err := n.SetTiering(context.Background(), enabled)
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		state := n.Status(context.Background()).Tiering
		if t.Enabled != enabled || t.By != "operator" || enabled == strings.HasPrefix(state, "disabled") {
			w.t.Errorf("seed %d: told %v, tiering is %+v, the status says %q", w.seed, enabled, t, state)
		}
		return
	}
	w.t.Errorf("seed %d: tiering can't be switched", w.seed)
}

// readsBelowAreRefused reads the first record while tiering is disabled. That works
// while it is on local disk; otherwise the refusal says what to do.
func (w *world) readsBelowAreRefused(n *node.Node) bool {
	st, err := n.Stream(context.Background(), streamName)
	if err != nil || st.LocalFirst <= 0 {
		return false
	}
	r, err := n.Open(context.Background(), streamName, admin.ReadSpec{From: resolve.At(0)})
	if err != nil {
		return false
	}
	defer r.Close()
	b, err := r.Pull(context.Background())
	var refusal *admin.Error
	if !errors.As(err, &refusal) || refusal.Class != admin.Unavailable || !strings.Contains(err.Error(), "enable tiering") || refusal.Hint != "millrace tiering enable" {
		w.t.Errorf("seed %d: reading offset 0, with %s the first on disk and tiering disabled, gave %d records, moved %+v, error %v", w.seed, st.LocalFirst, len(b.Records), b.Moved, err)
	}
	return true
}

// theWishSurvives starts the node once more: tiering is disabled although the
// configuration says otherwise, nothing is uploaded, and the keeper leaves it so.
func (w *world) theWishSurvives() int {
	s := w.begin(-1, false)
	n := w.start(s)
	puts := s.count("store.put")
	time.Sleep(2 * time.Minute)
	if tiering := n.Tiering(); tiering.Enabled || n.Status(context.Background()).Tiering != "disabled by the operator" {
		w.t.Errorf("seed %d: after a restart tiering is %+v", w.seed, tiering)
	}
	if now := s.count("store.put"); now != puts {
		w.t.Errorf("seed %d: %d objects were put while tiering was disabled", w.seed, now-puts)
	}
	if ready, why := n.Ready(); !ready {
		w.t.Errorf("seed %d: the node is not ready without tiering: %q", w.seed, why)
	}
	w.say(n, true)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	s.stop()
	w.bury(nil, s)
	return 1
}

// TestConcurrentWishes: of wishes that are said at the same time the last one stored is
// the one that holds.
func TestConcurrentWishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.showLog()
		s := w.begin(-1, false)
		n := w.start(s)
		var said sync.WaitGroup
		for i := range 20 {
			said.Go(func() {
				if _, err := n.SetTiering(context.Background(), i%2 == 0); err != nil {
					t.Error(err)
				}
			})
		}
		said.Wait()
		stored, err := w.meta.Setting(context.Background(), "tiering.enabled")
		if err != nil || (stored == "true") != n.Tiering().Enabled {
			t.Errorf("stored %q, %v; tiering is %+v", stored, err, n.Tiering())
		}
		for _, c := range tree(t, n, "node").Children {
			if c.ID == "tiering" && (c.State == "running") != n.Tiering().Enabled {
				t.Errorf("tiering is %s, wanted %+v", c.State, n.Tiering())
			}
		}
		w.end(n, s)
	})
}

// TestSettingThatCannotBeRead: a node that can't tell what its operator wished does not
// guess.
func TestSettingThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		s := w.begin(-1, false)
		if err := w.meta.PutSetting(context.Background(), "tiering.enabled", "perhaps"); err != nil {
			t.Fatal(err)
		}
		_, err := node.Start(context.Background(), simSettings(w.rng), w.ports(), node.About{}, quiet)
		if err == nil || !strings.Contains(err.Error(), `"perhaps": want true or false`) {
			t.Errorf("started with %v", err)
		}
		w.meta.Fault = func(string, string) error { return port.Unavailable }
		if _, err := node.Start(context.Background(), simSettings(w.rng), w.ports(), node.About{}, quiet); err == nil {
			t.Error("started without metadata")
		}
		s.stop()
	})
}
