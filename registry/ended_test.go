package registry

import (
	"context"
	"testing"
	"testing/synctest"

	"millrace/actors"
)

// asker holds a name, and asks for it when it has ended and before that is given back.
type asker struct {
	r    *Registry
	free chan struct{}
	held []bool
}

var mine = Name{Kind: "writer", ID: "s", Node: "n"}

func (a *asker) Init(c *actors.Context) error {
	ask := func() {
		_, ok := a.r.WhereIs(mine)
		a.held = append(a.held, ok || a.r.Send(mine, "x") || len(a.r.Names("writer"))+len(a.r.All()) > 0)
	}
	c.OnExit(ask)
	a.r.Register(c, mine)
	c.OnExit(ask)
	return nil
}

func (a *asker) Handle(c *actors.Context, _ any) *actors.Reason {
	<-a.free
	a.r.Subscribe(c, Name{Kind: "writer", ID: "other", Node: "n"})
	return nil
}

func (a *asker) Terminate(*actors.Context, actors.Reason) {}

// Between its end and the giving back of its name nobody is handed a process that ended.
func TestNobodyIsHandedAProcessThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		a := &asker{r: New()}
		h, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process { return a }})
		if err != nil {
			t.Fatal(err)
		}
		h.Kill()
		<-h.Done()
		if len(a.held) != 2 || a.held[0] || a.held[1] {
			t.Fatalf("found after its end: %v", a.held)
		}
	})
}

// A killed process whose code subscribes yet leaves nothing behind.
func TestAZombieDoesNotSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		a := &asker{r: New(), free: make(chan struct{})}
		h, err := sys.Start(context.Background(), actors.Spec{Path: "a", New: func() actors.Process { return a }})
		if err != nil {
			t.Fatal(err)
		}
		h.Send("subscribe")
		synctest.Wait()
		h.Kill()
		close(a.free)
		<-h.Gone()
		if len(a.r.subscribers) != 0 {
			t.Fatalf("subscribed are %v", a.r.subscribers)
		}
	})
}
