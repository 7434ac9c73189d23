package sim

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
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

// lostRecords keep the gauge of records that are lost and not declared yet.
type lostRecords struct {
	noMetrics
	shown atomic.Int64
}

func (m *lostRecords) Gauge(name string, value float64, _ ...string) {
	if name == "undeclared_gap_records" {
		m.shown.Store(int64(value))
	}
}

// TestItem48AnOutageLongerThanTheLocalWindow: publishing never notices it, what is lost is
// exactly what local retention took beyond the seam, and a reader is moved over that.
func TestItem48AnOutageLongerThanTheLocalWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		metrics := &lostRecords{}
		_, n := calmWorld(t, func(w *world, s *settings.Settings, p *node.Ports) {
			p.Metrics = metrics
			s.Log.SegmentMaxBytes, s.Local.MinBytes, s.Local.MaxBytes = 8<<10, 8<<10, 40_000
			s.Tiering.FragmentBytes, s.Tiering.FragmentMaxAge = 16<<10, time.Minute
			w.store.Fault = func(string, string) error {
				if down.Load() {
					time.Sleep(5 * time.Second)
					return port.Unavailable
				}
				return nil
			}
		})
		defer stopNode(t, n)
		st, err := n.CreateStream(context.Background(), "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		write := func(records int) (longest time.Duration) {
			for range records {
				longest = max(longest, publish(t, n, pos.StreamID(st.ID), strings.Repeat("x", 1000)))
				time.Sleep(100 * time.Millisecond)
			}
			return longest
		}
		shown := func() admin.StreamStatus {
			s, err := n.Stream(context.Background(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		usual := write(100)
		time.Sleep(2 * time.Minute)
		before := shown()
		if before.SeamNext != before.Next {
			t.Fatalf("stored up to %s of %s", before.SeamNext, before.Next)
		}
		down.Store(true)
		// Half a segment above a roll, so that the bound is kept and nothing more is trimmed.
		if longest := write(504); longest > usual {
			t.Errorf("publishing took %s during the outage, %s before", longest, usual)
		}
		during := shown()
		if during.SeamNext != before.SeamNext || during.LocalFirst <= during.SeamNext || during.LocalBytes > 60_000 {
			t.Errorf("during the outage: %+v", during)
		}
		// What is on its way may yet arrive: there comes a moment at which nothing is.
		want := []admin.Gap{{From: before.SeamNext, To: during.LocalFirst}}
		for range 120 {
			if during = shown(); slices.Equal(during.Undeclared, want) {
				break
			}
			time.Sleep(time.Second)
		}
		if before.Undeclared != nil || !slices.Equal(during.Undeclared, want) {
			t.Errorf("lost is shown as %v, before the outage as %v, want %v", during.Undeclared, before.Undeclared, want)
		}
		if lost := pos.Offset(metrics.shown.Load()); lost < 1 || lost > during.LocalFirst-before.SeamNext {
			t.Errorf("%d records are counted as lost, want about %d", lost, during.LocalFirst-before.SeamNext)
		}
		floor := during.LocalFirst
		down.Store(false)
		time.Sleep(10 * time.Minute)
		after := shown()
		gaps := n.Gaps(pos.StreamID(st.ID))
		if metrics.shown.Load() != 0 || after.Undeclared != nil || after.SeamNext != after.Next || after.RemoteFirst != 0 || len(gaps) != 1 || gaps[0] != (admin.Gap{From: before.SeamNext, To: floor}) {
			t.Errorf("afterwards %+v with gaps %v, want one from %s to %s", after, gaps, before.SeamNext, floor)
		}
		readOver(t, n, before.SeamNext, floor, after.Next)
	})
}

// readOver reads everything, and holds the reader to the one move from a to b.
func readOver(t *testing.T, n *node.Node, a, b, end pos.Offset) {
	t.Helper()
	r, err := n.Open(context.Background(), "shop", admin.ReadSpec{From: resolve.First()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	next, moves := pos.Offset(0), 0
	for {
		batch, err := r.Pull(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if m := batch.Moved; m != nil {
			if moves++; m.From != a || m.To != b {
				t.Errorf("moved from %s to %s, want from %s to %s", m.From, m.To, a, b)
			}
			next = m.To
		}
		for _, rec := range batch.Records {
			if rec.Offset != next {
				t.Fatalf("read offset %s, want %s", rec.Offset, next)
			}
			next++
		}
	}
	if next != end || moves != 1 {
		t.Errorf("read up to %s of %s with %d moves", next, end, moves)
	}
}

// TestAStoreThatAnswersNothing takes requests and answers none, which its adapter gives up after
// a minute, and one upload at a time may run: after two minutes each stream that has something
// to upload is shown to stall, also if its turn never came, and all is as before once there are
// answers again.
func TestAStoreThatAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		_, n := calmWorld(t, func(w *world, s *settings.Settings, _ *node.Ports) {
			s.Tiering.FragmentBytes, s.Store.S3.UploadConnections = 8<<10, 1
			w.store.Fault = func(string, string) error {
				if silent.Load() {
					time.Sleep(time.Minute)
					return port.Timeout
				}
				return nil
			}
		})
		defer stopNode(t, n)
		l := newLoad(t, n)
		l.run(t, time.Minute)
		silent.Store(true)
		l.run(t, 2*time.Minute+5*time.Second)
		submitted := 0
		for _, name := range []string{"a", "b", "c", "d"} {
			st, err := n.Stream(context.Background(), name)
			if err != nil {
				t.Fatal(err)
			}
			p := st.Upload.Status.Pipeline
			if submitted += p.Submitted; p.StalledWhy == "" {
				t.Errorf("%s does not stall: %+v", name, p)
			}
		}
		if submitted == 0 {
			t.Error("nothing waits for its turn: the test does not do what it is for")
		}
		silent.Store(false)
		l.stored(t, 2*time.Minute)
		time.Sleep(time.Minute) // what was asked before is answered by now
		if ready, why := n.Ready(); !ready {
			t.Errorf("not ready for %q", why)
		}
	})
}

// TestCutReachesTheStoreAtOnce: what was published just now is durable seconds after a cut,
// long before its age would have cut it, and who waits for that is answered.
func TestCutReachesTheStoreAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := calmWorld(t, func(_ *world, s *settings.Settings, _ *node.Ports) { s.Tiering.FragmentMaxAge = time.Hour })
		defer stopNode(t, n)
		ctx := context.Background()
		st, err := n.CreateStream(ctx, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		publish(t, n, pos.StreamID(st.ID), "a", "b", "c")
		if d, err := n.Durable(ctx, "shop", pos.NoOffset, time.Minute); err != nil || d.Durable || d.Asked != 3 || d.Next != 0 {
			t.Errorf("before the cut %+v, %v", d, err)
		}
		cut, err := n.CutStream(ctx, "shop")
		if err != nil || cut.First != 0 || cut.Next != 3 || cut.Chunks == 0 {
			t.Fatalf("cut %+v, %v", cut, err)
		}
		began := time.Now()
		d, err := n.Durable(ctx, "shop", cut.Next, time.Minute)
		if took := time.Since(began); err != nil || !d.Durable || !d.Held || d.Next != 3 || took > 5*time.Second {
			t.Errorf("after the cut %+v in %s, %v", d, took, err)
		}
		synctest.Wait() // the node's row follows the answer
		if s, err := n.Stream(ctx, "shop"); err != nil || s.SeamNext != 3 || s.Upload.Status.Remote.PersistedNext != 3 {
			t.Errorf("afterwards %+v, %v", s, err)
		}
	})
}
