package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
	"millrace/actors/node"
	"millrace/actors/port"
	"millrace/core/pos"
	"millrace/core/resolve"
	"millrace/core/settings"
	"millrace/test/fake/fakedisk"
	"millrace/test/fake/fakemeta"
	"millrace/test/fake/fakestate"
	"millrace/test/fake/fakestore"
)

const streamName = "shop"

// lifetime bounds one life of the node, in virtual time.
const lifetime = 40 * time.Second

// world is everything outside the node, and what was seen of the stream.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand

	source *source
	disk   *fakedisk.Disk
	store  *fakestore.Store
	meta   *fakemeta.Meta
	state  *fakestate.State
	strike atomic.Pointer[strike]
	outage atomic.Bool // of the object store
	trims  trims

	mu    sync.Mutex
	seen  map[pos.Offset]uint64 // hash of each record that a follower saw
	tally Tally
	log   bytes.Buffer
}

// Tally counts what a run did, so that a test can demand that its paths were taken.
type Tally struct {
	Lives, PowerLosses, Kills      int
	Events, Commits, Loads         int
	Objects, Followed, RemoteBytes int
	Trimmed, PostgresCrashes       int
	Trims                          int // segments
	Effects                        map[string]int
}

func newWorld(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 0x6d696c6c))
	w := &world{
		t: t, seed: seed, rng: rng, source: newSource(rand.New(rand.NewPCG(seed, 1))),
		disk: fakedisk.New(), store: fakestore.New(), meta: fakemeta.New(), state: fakestate.New("sim"),
		seen: map[pos.Offset]uint64{}, tally: Tally{Effects: map[string]int{}},
	}
	w.strike.Store(newStrike(seed, -1, false, func() {}))
	w.store.Latency = w.latency(200 * time.Millisecond)
	w.meta.Latency = w.latency(10 * time.Millisecond)
	w.store.Fault = func(op, what string) error {
		if w.outage.Load() {
			return port.Unavailable
		}
		return w.strike.Load().before("store", 0.03, port.Unavailable, port.Throttled, port.Timeout)(op, what)
	}
	w.store.After = w.hook(func(s *strike) func(op, what string) error {
		return s.after("store", 0.01, port.Unavailable, port.Timeout)
	})
	w.meta.Fault = w.hook(func(s *strike) func(op, what string) error {
		return s.before("meta", 0.02, port.Unavailable)
	})
	w.meta.After = w.hook(func(s *strike) func(op, what string) error {
		return s.after("meta", 0.01, port.UnknownOutcome)
	})
	w.source.db.Fault = w.hook(func(s *strike) func(op, what string) error {
		return s.before("postgres", 0.01, port.Unavailable)
	})
	w.source.db.After = w.hook(func(s *strike) func(op, what string) error {
		return func(op, what string) error {
			if op == "receive" || op == "next" {
				// What these return is gone with their error, and no server does that.
				return s.after("postgres", 0)(op, what)
			}
			return s.after("postgres", 0.01, port.Unavailable)(op, what)
		}
	})
	return w
}

// hook looks the present life's strike up at each call.
func (w *world) hook(of func(s *strike) func(op, what string) error) func(op, what string) error {
	return func(op, what string) error { return of(w.strike.Load())(op, what) }
}

func (w *world) latency(most time.Duration) func(op, what string) time.Duration {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(w.seed, uint64(most)))
	return func(string, string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rng.Int64N(int64(most)))
	}
}

// Run is one seed: lives of the node until the workload is done, then the verdict.
func Run(t *testing.T, seed uint64, lives, transactions int) (tally Tally) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		defer func() {
			if t.Failed() {
				t.Logf("seed %d: the nodes' logs:\n%s", seed, w.tailOfLog())
			}
		}()
		w.source.preload(w.rng.IntN(600))
		worked := make(chan struct{})
		go func() {
			defer close(worked)
			w.source.run(transactions)
		}()
		go w.storeOutages(worked)
		for range lives {
			w.live(w.rng.IntN(1 << (3 + w.rng.IntN(9))))
		}
		<-worked
		w.lastLife()
		tally = w.tally
	})
	return tally
}

// storeOutages takes the object store away now and then while the workload runs.
func (w *world) storeOutages(worked <-chan struct{}) {
	rng := rand.New(rand.NewPCG(w.seed, 2))
	for {
		select {
		case <-worked:
			w.outage.Store(false)
			return
		case <-time.After(time.Duration(rng.IntN(20_000)) * time.Millisecond):
			w.outage.Store(rng.IntN(3) == 0)
		}
	}
}

// begin prepares the ports for the next life.
func (w *world) begin(left int, faults bool) *strike {
	var s *strike
	s = newStrike(w.rng.Uint64(), left, faults, func() { w.pullPlug(s) })
	w.strike.Store(s)
	w.look()
	before, after := s.before("disk", 0), s.after("disk", 0)
	w.disk.Fault = func(op, what string) error {
		err := before(op, what)
		if err == nil {
			w.removing(op, what)
		}
		return err
	}
	w.disk.After = func(op, what string) error {
		w.created(op, what)
		return after(op, what)
	}
	w.state.Fault, w.state.After = s.before("state", 0), s.after("state", 0)
	return s
}

// pullPlug is the moment of death: what the next life finds is decided here.
func (w *world) pullPlug(s *strike) {
	powerLoss := s.rng.IntN(2) == 0
	switch {
	case !powerLoss:
		w.disk = w.disk.KillClone()
	case s.rng.IntN(2) == 0:
		w.disk = w.disk.CrashClone(func(unsynced int) int { return s.rng.IntN(unsynced + 1) })
	default:
		w.disk = w.disk.PageClone(func(int) bool { return s.rng.IntN(2) == 0 })
	}
	w.state = w.state.Restart(powerLoss)
	if powerLoss {
		w.tally.PowerLosses++
	} else {
		w.tally.Kills++
	}
}

// live runs the node until it dies at the given effect, or has lived long enough and
// is killed where it stands.
func (w *world) live(left int) {
	s := w.begin(left, true)
	if w.rng.IntN(3) == 0 {
		s.aim()
	}
	n := w.start(s)
	stop := func() {}
	if n != nil {
		stop = w.follow(n, s)
		select {
		case <-s.died:
		case <-n.Done():
			w.t.Errorf("seed %d: the node gave up: %v", w.seed, n.Reason())
		case <-time.After(time.Duration(w.rng.Int64N(int64(lifetime)))):
		}
	}
	s.stop()
	stop()
	w.bury(n, s)
}

// start tries until the node stands or is dead: its ports fail now and then, and a
// node that can't read its own stores says so and is started again.
func (w *world) start(s *strike) *node.Node {
	for tries := 0; ; tries++ {
		n, err := node.Start(context.Background(), simSettings(w.rng), w.ports(), node.About{Version: "sim"}, zerolog.New(zerolog.SyncWriter(&w.log)))
		switch {
		case err == nil:
			return n
		case errors.Is(err, errDead) || isClosed(s.died):
			return nil
		case tries == 20:
			w.t.Errorf("seed %d: the node does not start: %v", w.seed, err)
			return nil
		}
		time.Sleep(time.Second)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// bury makes sure that nothing of the dead node runs when the next one starts.
func (w *world) bury(n *node.Node, s *strike) {
	if n != nil {
		at, cancel := context.WithCancel(context.Background())
		cancel()
		if err := n.Stop(at); err == nil {
			w.t.Logf("seed %d: the killed node stopped in order", w.seed)
		}
	}
	w.source.db.BreakConnections()
	time.Sleep(time.Minute)
	synctest.Wait()
	w.tally.Lives++
	for name, count := range s.effects {
		w.tally.Effects[name] += count
	}
}

func (w *world) ports() node.Ports {
	return node.Ports{
		Disk: w.disk, Store: w.store, Uploads: w.store, Metadata: w.meta, State: w.state, Metrics: noMetrics{},
		Postgres: func(settings.Capture) port.Postgres { return w.source.db },
		Serve:    func(admin.Node) admin.Server { return idleServer{} },
	}
}

// simSettings are small, so that a short run rolls, cuts, persists and trims a lot.
func simSettings(rng *rand.Rand) settings.Settings {
	s := settings.Default()
	s.Node.Name = "sim"
	s.Log.SegmentMaxBytes = int64(4+rng.IntN(28)) << 10
	s.Local.MinBytes = int64(rng.IntN(64)) << 10
	s.Tiering.FragmentBytes = int64(4+rng.IntN(28)) << 10
	s.Tiering.FragmentMaxAge = time.Duration(1+rng.IntN(5)) * time.Second
	s.Tiering.PersistInterval = 500 * time.Millisecond
	s.Tiering.ReconcileInterval = 5 * time.Second
	s.Captures = []settings.Capture{{
		Name: streamName, Stream: streamName, URL: "fake", Slot: publication, Publication: publication,
		OnSlotLost: settings.SlotLostReload, MaxValue: 64 << 20,
	}}
	return s
}

// follow reads while the node lives, from somewhere between the first record and the
// newest one seen, and holds what it sees against what was seen before.
func (w *world) follow(n *node.Node, s *strike) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	from := pos.Offset(w.rng.IntN(len(w.seen) + 1))
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			w.followOnce(ctx, n, s, &from)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (w *world) followOnce(ctx context.Context, n *node.Node, s *strike, from *pos.Offset) {
	r, err := n.Open(ctx, streamName, admin.ReadSpec{From: resolve.At(*from), Follow: true})
	if err != nil {
		return
	}
	defer r.Close()
	for {
		b, err := r.Pull(ctx)
		if err != nil || isClosed(s.died) {
			return
		}
		if b.Moved != nil {
			w.t.Errorf("seed %d: a follower was moved from %s to %s: %s", w.seed, b.Moved.From, b.Moved.To, b.Moved.Why)
		}
		for _, record := range b.Records {
			if record.Offset >= *from {
				w.see(record)
				*from = record.Offset + 1
			}
		}
	}
}

var hashSeed = maphash.MakeSeed()

// see holds a record against what was seen at its offset before.
func (w *world) see(r admin.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := maphash.Bytes(hashSeed, r.Body)
	if before, ok := w.seen[r.Offset]; ok && before != h {
		w.t.Errorf("seed %d: offset %s holds another record than a reader saw there before: %.300q", w.seed, r.Offset, r.Body)
	}
	w.seen[r.Offset] = h
	w.tally.Followed++
}

// lastLife lets the world calm down, waits until the stream has caught up, and
// verifies everything.
func (w *world) lastLife() {
	s := w.begin(-1, false)
	n := w.start(s)
	if n == nil {
		w.t.Fatalf("seed %d: the node does not start in a calm world", w.seed)
	}
	stop := w.follow(n, s)
	if w.caughtUp(n) {
		w.verify(n)
	}
	stop()
	at, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(at); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	w.bury(nil, s)
	w.verifyStore()
}

// caughtUp waits until the last commit's last event can be read and all of it is in
// the store.
func (w *world) caughtUp(n *node.Node) bool {
	for range 1200 {
		time.Sleep(500 * time.Millisecond)
		st, err := n.Stream(context.Background(), streamName)
		if err != nil || st.State != "running" {
			continue
		}
		confirmed, _, ok := w.source.db.Slot(publication)
		if ready, _ := n.Ready(); ready && ok && confirmed >= w.lastCommit() && st.Next > 0 && st.SeamNext == st.Next {
			return true
		}
	}
	st, err := n.Stream(context.Background(), streamName)
	ready, why := n.Ready()
	confirmed, active, ok := w.source.db.Slot(publication)
	w.t.Errorf("seed %d: after 10 minutes of calm the stream has not caught up: ready %v %q, slot %v (%v, %v), last commit %v\n%+v\n%v",
		w.seed, ready, why, confirmed, active, ok, w.lastCommit(), st, err)
	return false
}

func (w *world) lastCommit() pos.LSN {
	w.source.mu.Lock()
	defer w.source.mu.Unlock()
	var last pos.LSN
	for lsn := range w.source.commits {
		last = max(last, lsn)
	}
	return last
}

func (w *world) tailOfLog() string {
	b := w.log.Bytes()
	return string(b[max(0, len(b)-20_000):])
}

// readAll reads the whole stream through the node.
func (w *world) readAll(n *node.Node) ([]admin.Record, error) {
	r, err := n.Open(context.Background(), streamName, admin.ReadSpec{From: resolve.First()})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []admin.Record
	for {
		b, err := r.Pull(context.Background())
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if b.Moved != nil {
			return nil, fmt.Errorf("moved from %s to %s: %s", b.Moved.From, b.Moved.To, b.Moved.Why)
		}
		for _, record := range b.Records {
			record.Body = bytes.Clone(record.Body)
			all = append(all, record)
		}
	}
}

// noMetrics and idleServer stand for surfaces that the simulation does not look at.
type noMetrics struct{}

func (noMetrics) Count(string, int64, ...string)   {}
func (noMetrics) Gauge(string, float64, ...string) {}
func (noMetrics) Forget(...string)                 {}

type idleServer struct{}

func (idleServer) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
