package supervision_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"millrace/actors"
	"millrace/supervision"
)

// Look and Find see what Tree sees, also of children that have no process.
func TestLookAndFind(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		inner := supervision.Child{ID: "inner", Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
			New: func(any) actors.Process {
				return supervision.New(three5, []supervision.Child{child("a", script{}), child("b", script{})}, nil)
			}}
		root := w.supervise(t, three5, child("first", script{}), inner)
		tree := supervision.Tree(root)
		infos := supervision.Look(root)
		if len(infos) != 2 || infos[0].ID != "first" || infos[0].Handle != tree.Children[0].Handle || infos[1].Kind != "supervisor" || len(infos[1].Children) != 0 || infos[1].State != "running" {
			t.Errorf("looked and saw %+v", infos)
		}
		for i, n := range infos {
			alone, ok := supervision.LookAt(root, n.ID)
			below := supervision.Below(n.Handle)
			if !ok || !reflect.DeepEqual(alone, n) || len(below) != len(tree.Children[i].Children) {
				t.Errorf("looked at %s and saw %+v, below it %+v", n.ID, alone, below)
			}
		}
		if n, ok := supervision.LookAt(root, "nobody"); ok {
			t.Errorf("looked at nobody and saw %+v", n)
		}
		if supervision.State(root) != tree.State || supervision.State(infos[0].Handle) != "undefined" || supervision.State(nil) != "undefined" {
			t.Errorf("states %s and %s", supervision.State(root), supervision.State(infos[0].Handle))
		}
		b := at(root, "inner/b").Handle
		if got := supervision.Find(root, "inner", "b"); got != b || b == nil {
			t.Errorf("found %v, want %v", got, b)
		}
		if supervision.Find(root) != root {
			t.Error("the root is not at the end of no path")
		}
		for _, path := range [][]string{{"x"}, {"first", "x"}, {"inner", "x"}} {
			if got := supervision.Find(root, path...); got != nil {
				t.Errorf("found %v at %q", got, path)
			}
		}
		if supervision.Find(nil, "x") != nil || supervision.Look(nil) != nil || len(supervision.Look(infos[0].Handle)) != 0 {
			t.Error("something is below nobody")
		}
		b.Kill()
		root.Stop(stop)
		<-root.Done()
		synctest.Wait()
		if supervision.Find(root, "first") != nil || supervision.Look(root) != nil {
			t.Error("something is below the dead")
		}
	})
}

// A child that leaves nothing behind but running code is seen as that at once.
func TestAZombieIsSeenAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		c := child("w", script{init: func(c *actors.Context) error {
			c.Task("stays", func(context.Context) any { <-free; return nil })
			return nil
		}})
		c.Restart = supervision.Temporary
		h := w.supervise(t, three5, c)
		at(h, "w").Handle.Stop(stop)
		synctest.Wait()
		if n, ok := supervision.LookAt(h, "w"); !ok || n.State != "zombie" || at(h, "w").State != "zombie" {
			t.Errorf("seen is %+v", n)
		}
		close(free)
		synctest.Wait()
		if n, ok := supervision.LookAt(h, "w"); ok {
			t.Errorf("seen is %+v, and nothing of it runs", n)
		}
	})
}
