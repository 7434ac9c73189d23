package node

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/actors/admin"
	"millrace/actors/port"
	"millrace/core/pgout"
	"millrace/core/settings"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakepg"
	"millrace/test/fake/fakestate"
	"millrace/test/fake/fakestore"
)

// site is a whole node on fakes, which captures into the stream shop.
type site struct {
	*Node
	t     *testing.T
	cfg   settings.Settings
	ports Ports
	meta  *fakemeta.Meta
	db    *fakepg.DB
	// What operations of the metadata store, the object store and the disk fail with:
	// instead of them, or after they took effect.
	metaFault, metaAfter, storeFault, diskFault faults
	storeTime                                   atomic.Int64 // that an operation of the object store takes, in nanoseconds
}

// faults are set while the node runs.
type faults struct {
	byOp atomic.Pointer[map[string]error]
}

func (f *faults) set(byOp map[string]error) { f.byOp.Store(&byOp) }

func (f *faults) hook(op, _ string) error {
	if byOp := f.byOp.Load(); byOp != nil {
		return (*byOp)[op]
	}
	return nil
}

// noMetrics counts nothing; it does what a test wants done at the moment of an event.
type noMetrics struct{ at func(event []string) }

func (m noMetrics) Count(name string, delta int64, labels ...string) {
	if m.at != nil && name == "supervisor_events" && delta > 0 {
		m.at(labels)
	}
}
func (noMetrics) Gauge(string, float64, ...string) {}
func (noMetrics) Forget(...string)                 {}

type idleServer struct{}

func (idleServer) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// standing runs f beside a node where all is well, a second after one of the keeper's looks.
func standing(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.boot()
		defer s.stop()
		pass(time.Minute + time.Second)
		s.ready()
		f(t, s)
	})
}

func newSite(t *testing.T) *site {
	s := &site{t: t, cfg: settings.Default(), meta: fakemeta.New(), db: fakepg.New()}
	s.db.CreateTable("orders", pgout.IdentityDefault, 1, pgout.Column{Name: "id", Type: 23, Mod: -1})
	s.db.CreatePublication("pub", "orders")
	s.cfg.Node.Name, s.cfg.Store.ProbeInterval = "n1", time.Minute
	s.cfg.Captures = []settings.Capture{{Name: "shop", Stream: "shop", URL: "fake", Slot: "pub", Publication: "pub", OnSlotLost: settings.SlotLostReload, MaxValue: 1 << 20}}
	s.meta.Fault, s.meta.After = s.metaFault.hook, s.metaAfter.hook
	disk := fakedisk.New()
	disk.Fault = s.diskFault.hook
	store := fakestore.New()
	store.Fault = s.storeFault.hook
	store.Latency = func(string, string) time.Duration { return time.Duration(s.storeTime.Load()) }
	s.ports = Ports{
		Disk: disk, Store: store, Uploads: store, Metadata: s.meta, State: fakestate.New("n1"),
		Metrics: noMetrics{}, Postgres: func(settings.Capture) port.Postgres { return s.db },
		Serve: func(admin.Node) admin.Server { return idleServer{} },
	}
	return s
}

func (s *site) boot() {
	s.t.Helper()
	n, err := Start(s.t.Context(), s.cfg, s.ports, About{}, zerolog.Nop())
	if err != nil {
		s.t.Fatal(err)
	}
	s.Node = n
	synctest.Wait()
}

func (s *site) stop() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

func pass(d time.Duration) { <-time.After(d); synctest.Wait() }

func (s *site) ready() {
	s.t.Helper()
	if ok, why := s.Ready(); !ok {
		s.t.Errorf("not ready: %q", why)
	}
}

// unready demands these reasons and no others.
func (s *site) unready(want ...string) {
	s.t.Helper()
	if ok, why := s.Ready(); ok || !slices.Equal(why, want) {
		s.t.Errorf("ready %v, for %q; want %q", ok, why, want)
	}
}

// live returns a process, nil if it does not run.
func (s *site) live(path string) *actors.Handle {
	s.t.Helper()
	c, err := s.find(path)
	if err != nil || !c.Handle.Alive() {
		return nil
	}
	return c.Handle
}

// id is that of the stream shop.
func (s *site) id() string {
	s.t.Helper()
	id, ok := s.rows.named("shop")
	if !ok {
		s.t.Fatal("the stream is not known")
	}
	return id.String()
}

// kill kills a process so often, so far apart, and reports whether it still came back.
func (s *site) kill(path string, times int, apart time.Duration) bool {
	s.t.Helper()
	for range times {
		h := s.live(path)
		if h == nil {
			return false
		}
		h.Kill()
		synctest.Wait()
		pass(apart)
	}
	return s.live(path) != nil
}

// says demands a substring.
func says(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}
