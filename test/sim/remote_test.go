package sim

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/core/settings"
	"millrace/test/fake/fakekeyring"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakepool"
	"millrace/test/fake/fakestore"
)

// far is an object store beyond the network, in a calm world: reached through pools, by
// requests that are signed.
type far struct {
	keys        *fakekeyring.Keyring
	up, general *fakepool.Pool
	seen        recorder
}

// recorder notes how the operations of the node went.
type recorder struct {
	mu       sync.Mutex
	failures map[port.Class]int
	open     map[string]int // operations under way, by the number of keys used when they began
	across   int            // operations during which the key in use changed
}

func (r *recorder) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failures[port.ClassOf(err)]++
	}
}

// taken returns what failed since the last call.
func (r *recorder) taken() map[port.Class]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.failures
	r.failures = map[port.Class]int{}
	return taken
}

// recorded is a store whose uploads and reads are noted.
type recorded struct {
	port.ObjectStore
	to *recorder
}

func (s recorded) Put(ctx context.Context, key string, body port.Body, size int64, ifAbsent bool) error {
	err := s.ObjectStore.Put(ctx, key, body, size, ifAbsent)
	s.to.note(err)
	return err
}

func (s recorded) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := s.ObjectStore.Get(ctx, key)
	s.to.note(err)
	return b, err
}

func (s recorded) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	b, err := s.ObjectStore.GetRange(ctx, key, off, n)
	s.to.note(err)
	return b, err
}

// away puts the world's store beyond the network. Credentials live that long.
func (w *world) away(p *node.Ports, life time.Duration) *far {
	f := &far{keys: fakekeyring.New(life), up: fakepool.New(4), general: fakepool.New(8)}
	f.seen.failures, f.seen.open = map[port.Class]int{}, map[string]int{}
	rng := rand.New(rand.NewPCG(w.seed, 3))
	w.store.Latency = func(op, what string) time.Duration {
		f.seen.mu.Lock()
		defer f.seen.mu.Unlock()
		if op == "put" {
			f.seen.open[what] = len(f.keys.Uses())
		}
		return time.Duration(rng.Int64N(int64(4 * time.Second)))
	}
	w.store.After = func(op, what string) error {
		f.seen.mu.Lock()
		defer f.seen.mu.Unlock()
		if op == "put" && f.seen.open[what] != len(f.keys.Uses()) {
			f.seen.across++
		}
		return nil
	}
	p.Store = recorded{fakepool.Behind(w.store, f.general, f.keys), &f.seen}
	p.Uploads = recorded{fakepool.Behind(w.store, f.up, f.keys), &f.seen}
	p.Remote = &node.Remote{Keyring: f.keys, UploadPool: f.up, GeneralPool: f.general}
	return f
}

// load publishes to a few streams, two records a second each.
type load struct {
	n       *node.Node
	streams []pos.StreamID
}

func newLoad(t *testing.T, n *node.Node) *load {
	t.Helper()
	l := &load{n: n}
	for _, name := range []string{"a", "b", "c", "d"} {
		st, err := n.CreateStream(context.Background(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.streams = append(l.streams, pos.StreamID(st.ID))
	}
	return l
}

// run publishes for that long. No publisher ever waits.
func (l *load) run(t *testing.T, for_ time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < for_; {
		for _, id := range l.streams {
			if took := publish(t, l.n, id, strings.Repeat("x", 900)); took > time.Millisecond {
				t.Errorf("publishing took %s", took)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// stored demands that all is in the store soon, and that nothing is missing in between.
func (l *load) stored(t *testing.T, within time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		all, err := l.n.Streams(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		behind := slices.DeleteFunc(all, func(s admin.StreamStatus) bool {
			return s.Next > 0 && s.SeamNext == s.Next && s.Gaps == 0 && s.RemoteFirst == 0
		})
		if len(behind) == 0 {
			return
		}
		if time.Since(began) > within {
			t.Errorf("after %s not all is stored: %+v", within, behind[0])
			return
		}
		time.Sleep(time.Second)
	}
}

// quietTree: nobody but who is named was restarted, and nothing gave up.
func quietTree(t *testing.T, n *node.Node, but ...string) {
	t.Helper()
	for _, e := range n.Events(0).Events {
		if e.Trouble && !slices.Contains(but, e.Path) {
			t.Errorf("trouble: %+v", e)
		}
	}
}

// readable demands all records of a stream, from the store's first to the local log's last.
func (l *load) readable(t *testing.T, name string) {
	t.Helper()
	st, err := l.n.Stream(context.Background(), name)
	if err != nil || st.RemoteFirst != 0 || st.LocalFirst == 0 {
		t.Fatalf("%+v, %v: not both tiers are read", st, err)
	}
	r, err := l.n.Open(context.Background(), name, admin.ReadSpec{From: resolve.First()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	next := pos.Offset(0)
	for {
		b, err := r.Pull(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || b.Moved != nil {
			t.Errorf("reading %s: %+v, %v", name, b.Moved, err)
			return
		}
		next += pos.Offset(len(b.Records))
	}
	if next != st.Next {
		t.Errorf("%s of %s records of %s were read", next, st.Next, name)
	}
}

func status(n *node.Node) admin.NodeStatus { return n.Status(context.Background()) }

// TestCredentialsAreRenewedUnderLoad: they live two minutes, so that uploads are under way
// whenever others come into use. None of them fails for it, and all is stored.
func TestCredentialsAreRenewedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *far
		_, n := calmWorld(t, func(w *world, _ *settings.Settings, p *node.Ports) { f = w.away(p, 2*time.Minute) })
		l := newLoad(t, n)
		time.Sleep(10 * time.Second)
		f.seen.taken() // what was asked for before the first fetch had ended
		l.run(t, 20*time.Minute)
		l.stored(t, time.Minute)
		if failed := f.seen.taken(); len(failed) != 0 {
			t.Errorf("operations failed: %v", failed)
		}
		if uses := f.keys.Uses(); len(uses) < 15 || f.seen.across < 10 {
			t.Errorf("%d keys were used, and %d uploads saw one change: the test does not do what it is for", len(uses), f.seen.across)
		}
		for _, id := range f.keys.Uses() {
			if f.keys.Signed(id) == 0 {
				t.Errorf("%s has signed nothing", id)
			}
		}
		if c := status(n).Credentials; c == nil || c.State != "valid" || c.Source != "fake source" || c.Expires == 0 {
			t.Errorf("shown are %+v", c)
		}
		quietTree(t, n)
		stopNode(t, n)
		if _, why := f.keys.InUse(); why == "" || f.up.Stats().Open != 0 {
			t.Errorf("a stopped node leaves credentials (%q) and %d connections", why, f.up.Stats().Open)
		}
	})
}

// TestAPoolIsKilledUnderLoad, again and again, and the process of the credentials too: what
// was under way fails as unavailable and is tried again, the successor carries on.
func TestAPoolIsKilledUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *far
		_, n := calmWorld(t, func(w *world, _ *settings.Settings, p *node.Ports) { f = w.away(p, time.Hour) })
		l := newLoad(t, n)
		time.Sleep(10 * time.Second)
		f.seen.taken()
		killed := []string{"node/tiering/upload_pool", "node/tiering/general_pool", "node/tiering/credentials"}
		for i := range 9 {
			process(t, n, killed[i%3]).Kill()
			l.run(t, 10*time.Second)
		}
		l.stored(t, time.Minute)
		failed := f.seen.taken()
		if failed[port.Unavailable] == 0 || len(failed) != 1 {
			t.Errorf("operations failed: %v, want %s only", failed, port.Unavailable)
		}
		for _, p := range status(n).Pools {
			if p.Closed != "" || p.Max == 0 || p.Taken == 0 {
				t.Errorf("pool %s is shown as %s, %+v", p.Name, p, p)
			}
		}
		quietTree(t, n, killed...)
		stopNode(t, n)
	})
}

// foreignMarker is the marker of another cluster.
func foreignMarker(t *testing.T, prefix string) []byte {
	t.Helper()
	other := fakestore.New()
	if err := (port.Claimant{Store: other, Prefix: prefix, Cluster: 0xbad, Settings: fakemeta.New()}).Claim(context.Background()); err != nil {
		t.Fatal(err)
	}
	marker, _ := other.Object(port.ClusterKey(prefix))
	return marker
}

// TestAnotherClusterTakesThePrefix after the node has started: from the next look on nothing
// is put and nothing deleted, no publisher notices, what is stored can be read; and when
// the prefix is ours again, everything is caught up with.
func TestAnotherClusterTakesThePrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := watchStore(t)
		marker := port.ClusterKey(settings.Default().Store.Prefix)
		mine, ok := e.w.store.Object(marker)
		if !ok {
			t.Fatal("the prefix is not marked")
		}
		e.w.store.Replace(marker, foreignMarker(t, settings.Default().Store.Prefix))
		e.held(t, "no (owned by cluster 0000000000000bad): ")
		e.l.readable(t, "a")
		e.w.store.Replace(marker, mine)
		time.Sleep(10 * time.Second)
		e.l.stored(t, 2*time.Minute)
		if s := status(e.n); s.Access != "yes" || !s.Ready {
			t.Errorf("shown is %q, ready %v: %q", s.Access, s.Ready, s.Reasons)
		}
		stopNode(t, e.n)
	})
}

// TestTheStoreIsDownAtTheStart: the node starts, takes what is published, says what it waits
// for and stores nothing; once the store answers, the prefix is claimed and all is stored.
func TestTheStoreIsDownAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		var f *far
		w, n := calmWorld(t, func(w *world, _ *settings.Settings, p *node.Ports) {
			f = w.away(p, time.Hour)
			w.outage.Store(true)
			w.store.Fault = func(string, string) error {
				if w.outage.Load() {
					return down
				}
				return nil
			}
		})
		l := newLoad(t, n)
		l.run(t, 10*time.Minute)
		s := status(n)
		if !strings.HasPrefix(s.Access, "unknown since ") || !strings.Contains(s.Access, "connection refused") || s.Ready {
			t.Errorf("shown is %q, ready %v", s.Access, s.Ready)
		}
		if keys := w.store.Keys(); len(keys) != 0 {
			t.Errorf("stored is %v", keys)
		}
		w.outage.Store(false)
		time.Sleep(30 * time.Second)
		if s := status(n); s.Access != "yes" {
			t.Errorf("shown is %q half a minute after the store came up", s.Access)
		}
		l.stored(t, 10*time.Minute) // four uploads at a time
		if s := status(n); !s.Ready {
			t.Errorf("not ready: %q", s.Reasons)
		}
		if failed := f.seen.taken(); len(failed) != 2 || failed[port.Unavailable] == 0 || failed[port.NotFound] != 1 { // one: the marker, before it was put
			t.Errorf("operations failed: %v", failed)
		}
		quietTree(t, n)
		stopNode(t, n)
	})
}

// TestTheTreeOfTheStore: with a store beyond the network all its owners run; a directory has
// neither credentials nor pools, and these show as OTP shows an ignored child.
func TestTheTreeOfTheStore(t *testing.T) {
	order := "credentials manifest_replica reaper upload_pool general_pool store_monitor governor stream_factory reconciler"
	for name, remote := range map[string]bool{"directory": false, "beyond the network": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, n := calmWorld(t, func(w *world, _ *settings.Settings, p *node.Ports) {
					if remote {
						w.away(p, time.Hour)
					}
				})
				time.Sleep(time.Minute)
				var ids []string
				for _, c := range tree(t, n, "node/tiering").Children {
					ids = append(ids, c.ID)
					ignored := !remote && slices.Contains([]string{"credentials", "upload_pool", "general_pool"}, c.ID)
					switch {
					case ignored && (c.State != "undefined" || c.Handle.Alive() || c.Trouble || c.Note != "not needed" || c.Restarts != 0):
						t.Errorf("ignored %s shows as %+v", c.ID, c)
					case !ignored && c.State != "running":
						t.Errorf("%s is %s", c.ID, c.State)
					}
					if ignored {
						if err := n.Restart(context.Background(), c.Path); err != nil {
							t.Errorf("restarting ignored %s: %v", c.ID, err)
						}
					}
				}
				if got := strings.Join(ids, " "); got != order {
					t.Errorf("the order is %s", got)
				}
				s := status(n)
				if s.Access != "yes" || !s.Ready || (s.Credentials != nil) != remote || (len(s.Pools) == 2) != remote {
					t.Errorf("status %+v", s)
				}
				if _, err := n.SetTiering(context.Background(), false); err != nil {
					t.Fatal(err)
				}
				if s := status(n); !strings.HasPrefix(s.Access, "not looked at: tiering is disabled") || remote && (s.Credentials.State != "none" || s.Pools[0].Closed == "") {
					t.Errorf("with tiering off: %+v", s)
				}
				quietTree(t, n)
				stopNode(t, n)
			})
		})
	}
}
