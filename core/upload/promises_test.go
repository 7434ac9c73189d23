package upload

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestWhateverHappensNothingIsLostUnseen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig
		cfg.Discard = rapid.Bool().Draw(t, "discard")
		w := newWorld(t, cfg)
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			w.act()
		}
		w.heal()
		root := w.root()
		if !cfg.Discard && !root.Empty() && root.First > 0 && !w.taken[0] && !w.bounded {
			t.Fatalf("the store begins at %s", root.First)
		}
		if w.replica == nil || w.replica.Next != w.end {
			t.Fatalf("the replica has %+v", w.replica)
		}
	})
}

func TestDeletionEndsItFromEveryState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, testConfig)
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			w.act()
		}
		w.deleted = true
		w.step(StreamDeleted{w.stamp()})
		if !w.stopped {
			t.Fatal("it goes on")
		}
		if out := w.m.Step(Tick{w.stamp()}, nil); len(out) != 0 {
			t.Fatal(fmt.Sprint("it goes on: ", dump(out)))
		}
	})
}
