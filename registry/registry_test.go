package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"millrace/actors"
	"millrace/registry"
)

var name = registry.Name{Kind: "writer", ID: "s", Node: "n"}

// holder takes names when it starts, and when it is sent one.
type holder struct {
	r     *registry.Registry
	names []registry.Name
	free  chan struct{} // what "block" waits for
	got   []string
}

var errTaken = errors.New("taken")

func (h *holder) Init(c *actors.Context) error {
	for _, n := range h.names {
		if !h.r.Register(c, n) {
			return errTaken
		}
	}
	return nil
}

func (h *holder) Handle(c *actors.Context, msg any) *actors.Reason {
	switch m := msg.(type) {
	case registry.Registered:
		h.got = append(h.got, fmt.Sprintf("registered %v %d", m.Name, m.Handle.Incarnation()))
	case registry.Unregistered:
		h.got = append(h.got, fmt.Sprintf("unregistered %v", m.Name))
	case registry.Name:
		h.r.Subscribe(c, m)
	case string:
		switch m {
		case "crash":
			panic(m)
		case "block":
			<-h.free
			// A zombie by now, or not: it tries to take its name again.
			for _, n := range h.names {
				h.r.Register(c, n)
			}
		case "normal":
			return actors.Exit(actors.Normal, "")
		}
	}
	return nil
}

func (h *holder) Terminate(*actors.Context, actors.Reason) {}

func inBubble(t *testing.T, f func(sys *actors.System)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sys := actors.NewSystem(1)
		defer sys.Close()
		f(sys)
	})
}

func run(sys *actors.System, h *holder) (*actors.Handle, error) {
	return sys.Start(context.Background(), actors.Spec{Path: "p", New: func() actors.Process { return h }})
}

func TestOneHolderAtATime(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		r := registry.New()
		names := []registry.Name{name}
		first, err := run(sys, &holder{r: r, names: []registry.Name{name, name}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run(sys, &holder{r: r, names: names}); !errors.Is(err, errTaken) {
			t.Errorf("a second holder: %v", err)
		}
		if h, ok := r.WhereIs(name); !ok || h != first || !r.Send(name, "x") {
			t.Errorf("holder %v, %v", h, ok)
		}
		first.Send("crash")
		<-first.Done()
		if _, ok := r.WhereIs(name); ok || r.Send(name, "x") || len(r.Names("writer")) != 0 {
			t.Error("the name outlives its holder")
		}
		if _, err := run(sys, &holder{r: r, names: names}); err != nil {
			t.Errorf("a successor: %v", err)
		}
	})
}

// All lists what is held, in order, and nothing of the dead.
func TestAll(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		var none *registry.Registry
		if len(none.All()) != 0 {
			t.Error("no registry holds names")
		}
		r := registry.New()
		reader, other := registry.Name{Kind: "reader", ID: "s", Node: "n"}, registry.Name{Kind: "writer", ID: "a", Node: "n"}
		first, err := run(sys, &holder{r: r, names: []registry.Name{name, reader}})
		if err != nil {
			t.Fatal(err)
		}
		second, err := run(sys, &holder{r: r, names: []registry.Name{other}})
		if err != nil {
			t.Fatal(err)
		}
		want := []registry.Held{{Name: reader, Handle: first}, {Name: other, Handle: second}, {Name: name, Handle: first}}
		if got := r.All(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		first.Kill()
		<-first.Done()
		if got := r.All(); !slices.Equal(got, want[1:2]) {
			t.Errorf("got %v after one holder ended", got)
		}
	})
}

// A name taken in an init that then fails is free when Start returns.
func TestFailedInitKeepsNoName(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		r := registry.New()
		other := registry.Name{Kind: "writer", ID: "t", Node: "n"}
		if _, err := run(sys, &holder{r: r, names: []registry.Name{other}}); err != nil {
			t.Fatal(err)
		}
		if _, err := run(sys, &holder{r: r, names: []registry.Name{name, other}}); err == nil {
			t.Fatal("two hold one name")
		}
		if _, ok := r.WhereIs(name); ok {
			t.Error("a failed start holds a name")
		}
	})
}

// A zombie neither takes its successor's name away nor gets it back.
func TestZombieIsFenced(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		r := registry.New()
		free := make(chan struct{})
		old, err := run(sys, &holder{r: r, names: []registry.Name{name}, free: free})
		if err != nil {
			t.Fatal(err)
		}
		old.Send("block")
		synctest.Wait()
		old.Kill()
		if _, ok := r.WhereIs(name); ok {
			t.Error("the killed one still holds the name")
		}
		next, err := run(sys, &holder{r: r, names: []registry.Name{name}})
		if err != nil {
			t.Fatal(err)
		}
		next.Kill() // and back to nobody: the zombie could take it
		close(free)
		synctest.Wait()
		if h, ok := r.WhereIs(name); ok {
			t.Errorf("a zombie holds the name: %v", h == old)
		}
	})
}

func TestNilRegistryIsEmpty(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		var r *registry.Registry
		if _, ok := r.WhereIs(name); ok || r.Send(name, "x") || r.Names("writer") != nil {
			t.Error("something is in no registry")
		}
		if _, err := run(sys, &holder{r: r, names: []registry.Name{name}}); !errors.Is(err, errTaken) {
			t.Errorf("register in no registry: %v", err)
		}
		s := &holder{r: r}
		h, err := run(sys, s)
		if err != nil {
			t.Fatal(err)
		}
		h.Send(name)
		synctest.Wait()
		if fmt.Sprint(s.got) != "[unregistered writer/s/n]" {
			t.Errorf("got %q", s.got)
		}
	})
}

func TestSubscribersSeeEveryChange(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		r := registry.New()
		s := &holder{r: r}
		sub, err := run(sys, s)
		if err != nil {
			t.Fatal(err)
		}
		sub.Send(name)
		sub.Send(name) // again: the state again, the changes once
		synctest.Wait()
		var want []string
		want = append(want, "unregistered writer/s/n", "unregistered writer/s/n")
		for _, end := range []string{"crash", "normal", ""} {
			h, err := run(sys, &holder{r: r, names: []registry.Name{name}})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("registered writer/s/n %d", h.Incarnation()), "unregistered writer/s/n")
			if end == "" {
				h.Kill()
			}
			h.Send(end)
			<-h.Done()
		}
		synctest.Wait()
		if fmt.Sprint(s.got) != fmt.Sprint(want) {
			t.Errorf("got\n%q, want\n%q", s.got, want)
		}
		sub.Stop(actors.Reason{Kind: actors.Shutdown})
		<-sub.Done()
		if n := registry.Subscribers(r); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

// model is what the registry must show.
type model struct {
	t       *rapid.T
	sys     *actors.System
	r       *registry.Registry
	holders map[registry.Name]*actors.Handle
	names   map[*actors.Handle][]registry.Name
	blocked []chan struct{}
	all     []*actors.Handle
}

func (m *model) act() {
	n := registry.Name{Kind: rapid.SampledFrom([]string{"a", "b"}).Draw(m.t, "kind"), ID: rapid.SampledFrom([]string{"1", "2"}).Draw(m.t, "id")}
	live := m.live()
	switch act := rapid.SampledFrom([]string{"start", "start", "crash", "normal", "kill", "stop", "block", "unblock"}).Draw(m.t, "act"); act {
	case "start":
		m.start(n)
	case "unblock":
		for _, free := range m.blocked {
			close(free)
		}
		m.blocked = nil
	default:
		if len(live) == 0 {
			return
		}
		m.end(rapid.SampledFrom(live).Draw(m.t, "who"), act)
	}
	synctest.Wait()
	m.compare()
}

func (m *model) start(n registry.Name) {
	free := make(chan struct{})
	h, err := run(m.sys, &holder{r: m.r, names: []registry.Name{n}, free: free})
	if taken := m.holders[n] != nil; taken != (err != nil) {
		m.t.Fatalf("start with %v: %v, taken %v", n, err, taken)
	}
	if err == nil {
		m.holders[n], m.names[h] = h, []registry.Name{n}
		m.all = append(m.all, h)
		m.blocked = append(m.blocked, free)
	}
}

// end ends a process in one of many ways; a blocked one only ends when it is killed.
func (m *model) end(h *actors.Handle, way string) {
	switch way {
	case "kill":
		h.Kill()
	case "stop":
		h.Stop(actors.Reason{Kind: actors.Shutdown})
	default:
		h.Send(way)
	}
	synctest.Wait()
	if !h.Alive() {
		for _, n := range m.names[h] {
			delete(m.holders, n)
		}
	}
}

func (m *model) live() []*actors.Handle {
	var live []*actors.Handle
	for _, h := range m.all {
		if h.Alive() {
			live = append(live, h)
		}
	}
	return live
}

func (m *model) compare() {
	for n, h := range m.holders {
		if !h.Alive() { // it was blocked when it was stopped, and has ended since
			delete(m.holders, n)
		}
	}
	for _, kind := range []string{"a", "b"} {
		found := m.r.Names(kind)
		for _, id := range []string{"1", "2"} {
			n := registry.Name{Kind: kind, ID: id}
			h, ok := m.r.WhereIs(n)
			if want := m.holders[n]; h != want || ok != (want != nil) {
				m.t.Fatalf("%v is held by %v, want %v", n, h, want)
			}
			if ok {
				if len(found) == 0 || found[0] != n {
					m.t.Fatalf("names %v, want %v next", found, n)
				}
				found = found[1:]
			}
		}
		if len(found) > 0 {
			m.t.Fatalf("names %v too many", found)
		}
	}
}

func TestModel(t *testing.T) {
	inBubble(t, func(sys *actors.System) {
		rapid.Check(t, func(t *rapid.T) {
			m := &model{t: t, sys: sys, r: registry.New(), holders: map[registry.Name]*actors.Handle{}, names: map[*actors.Handle][]registry.Name{}}
			defer m.finish() // also after a failure, or the blocked would hide it
			for range 30 {
				m.act()
			}
		})
	})
}

// finish lets everyone end, after which nothing is left.
func (m *model) finish() {
	for _, free := range m.blocked {
		close(free)
	}
	for _, h := range m.all {
		h.Kill()
		<-h.Gone()
	}
	if n := registry.Size(m.r); n != 0 {
		m.t.Errorf("%d names are left", n)
	}
}
