package manifestreplica

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"millrace/actors"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/registry"
)

const testStream = pos.StreamID("__s_1")

type discard struct{}

func (discard) Count(string, int64, ...string)   {}
func (discard) Gauge(string, float64, ...string) {}
func (discard) Forget(...string)                 {}

// sender stands for the stream's replica reader: it notes what it is asked.
type sender struct {
	registry *registry.Registry
	resyncs  atomic.Int64
}

func (s *sender) Init(c *actors.Context) error {
	s.registry.Register(c, registry.Name{Kind: "replica_reader", ID: string(testStream), Node: "n1"})
	return nil
}

func (s *sender) Handle(_ *actors.Context, msg any) *actors.Reason {
	if m, ok := msg.(manifest.Resync); ok && m.Stream == testStream {
		s.resyncs.Add(1)
	}
	return nil
}

func (s *sender) Terminate(*actors.Context, actors.Reason) {}

type fixture struct {
	t      *testing.T
	sys    *actors.System
	reg    *registry.Registry
	table  *Table
	sender *sender
	h      *actors.Handle
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, sys: actors.NewSystem(7), reg: registry.New(), table: NewTable()}
	f.sender = &sender{registry: f.reg}
	f.start(func() actors.Process { return f.sender })
	f.h = f.start(f.process)
	return f
}

func (f *fixture) process() actors.Process {
	return New(Config{Node: "n1", Table: f.table, Registry: f.reg, Metrics: discard{}, Log: zerolog.Nop()})
}

func (f *fixture) start(n func() actors.Process) *actors.Handle {
	f.t.Helper()
	h, err := f.sys.Start(context.Background(), actors.Spec{Path: "p", New: n})
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

// send sends messages and waits until they are handled.
func (f *fixture) send(msgs ...any) {
	for _, m := range msgs {
		f.h.Send(m)
	}
	synctest.Wait()
}

// want holds the row to what it should be; m nil means pending.
func (f *fixture) want(epoch pos.Epoch, seq pos.Revision, m *manifest.Manifest) {
	f.t.Helper()
	row, ok := f.table.Manifest(testStream)
	want := manifest.Row{State: manifest.StatePending, Epoch: epoch, Seq: seq}
	if m != nil {
		want = manifest.Row{State: manifest.StateResolved, Epoch: epoch, Seq: seq, Manifest: m.Stamped(epoch, seq)}
	}
	if !ok || !reflect.DeepEqual(row, want) {
		f.t.Fatalf("row %+v %+v, %v\nwant %+v %+v", row, row.Manifest, ok, want, want.Manifest)
	}
}

func (f *fixture) status() Status { return f.h.Status().(Status) }

func bubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		test(t, f)
		f.sys.Close()
	})
}

func entry(first, next pos.Offset) manifest.Entry {
	return manifest.Entry{First: first, Next: next, Epoch: 1, Size: 10, UID: 5, Chunks: 1}
}

// appended returns m with an entry more, and the edit.
func appended(t *testing.T, m *manifest.Manifest, first, next pos.Offset) (*manifest.Manifest, manifest.Edit) {
	e := manifest.AppendEdit(m, entry(first, next))
	n, err := m.Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	return n, e
}

func TestSyncThenEdits(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		if _, ok := f.table.Manifest(testStream); ok {
			t.Error("a row is there before anything was sent")
		}
		a, _ := appended(t, manifest.New(0), 0, 10)
		f.send(manifest.Sync{Stream: testStream, Epoch: 2, Seq: 7, Manifest: a})
		f.want(2, 7, a)
		b, e1 := appended(t, a, 10, 20)
		c, e2 := appended(t, b, 25, 30)
		f.send(manifest.Edits{Stream: testStream, Epoch: 2, Seq: 8, Edits: []manifest.Edit{e1, e2}})
		f.want(2, 8, c)
		if s := f.status(); s.Streams != 1 || s.Syncs != 1 || s.Edits != 1 || s.Resyncs != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAGapKeepsTheRowAndAsks(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		a, _ := appended(t, manifest.New(0), 0, 10)
		_, e := appended(t, a, 10, 20)
		f.send(manifest.Sync{Stream: testStream, Epoch: 2, Seq: 7, Manifest: a})
		f.send(manifest.Edits{Stream: testStream, Epoch: 2, Seq: 9, Edits: []manifest.Edit{e}}) // 8 was lost
		f.want(2, 7, a)
		f.send(manifest.Edits{Stream: testStream, Epoch: 3, Seq: 8, Edits: []manifest.Edit{e}}) // another writer's
		f.want(2, 7, a)
		if f.sender.resyncs.Load() != 2 {
			t.Errorf("asked %d times, want 2", f.sender.resyncs.Load())
		}
		// It is asked again until a Sync comes.
		<-time.After(25 * time.Second)
		synctest.Wait()
		if f.sender.resyncs.Load() != 4 {
			t.Errorf("asked %d times after 25 s, want 4", f.sender.resyncs.Load())
		}
		f.send(manifest.Sync{Stream: testStream, Epoch: 3, Seq: 8, Manifest: a})
		f.want(3, 8, a)
		<-time.After(time.Hour)
		synctest.Wait()
		if f.sender.resyncs.Load() != 4 {
			t.Errorf("asked %d times though the Sync came", f.sender.resyncs.Load())
		}
	})
}

func TestEditsThatComeLateEndTheAsking(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		a, _ := appended(t, manifest.New(0), 0, 10)
		b, e1 := appended(t, a, 10, 20)
		_, e2 := appended(t, b, 20, 30)
		f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: 1, Manifest: a})
		f.send(manifest.Edits{Stream: testStream, Epoch: 1, Seq: 3, Edits: []manifest.Edit{e2}})
		f.send(manifest.Edits{Stream: testStream, Epoch: 1, Seq: 2, Edits: []manifest.Edit{e1}})
		f.want(1, 2, b)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := f.sender.resyncs.Load(); n != 1 {
			t.Errorf("asked %d times, want 1", n)
		}
	})
}

func TestEditsOfAnUnknownStreamAsk(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		_, e := appended(t, manifest.New(0), 0, 10)
		f.send(manifest.Edits{Stream: testStream, Epoch: 1, Seq: 1, Edits: []manifest.Edit{e}})
		f.want(0, 0, nil)
		if f.sender.resyncs.Load() != 1 {
			t.Errorf("asked %d times", f.sender.resyncs.Load())
		}
	})
}

func TestWhatIsOlderIsRejected(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		a, e := appended(t, manifest.New(0), 0, 10)
		b, _ := appended(t, a, 10, 20)
		f.send(manifest.Sync{Stream: testStream, Epoch: 5, Seq: 7, Manifest: b})
		f.send(
			manifest.Sync{Stream: testStream, Epoch: 4, Seq: 9, Manifest: a},
			manifest.Sync{Stream: testStream, Epoch: 5, Seq: 6, Manifest: a},
			manifest.Edits{Stream: testStream, Epoch: 5, Seq: 7, Edits: []manifest.Edit{e}},
			manifest.Edits{Stream: testStream, Epoch: 4, Seq: 8, Edits: []manifest.Edit{e}},
			manifest.Pending{Stream: testStream, Epoch: 4},
			manifest.Sync{Stream: testStream, Epoch: 9, Seq: 1, Manifest: nil},
			manifest.Sync{Stream: testStream, Epoch: 9, Seq: 1, Manifest: &manifest.Manifest{First: 5}},
		)
		f.want(5, 7, b)
		if s := f.status(); s.Rejected != 7 || s.Resyncs != 0 {
			t.Errorf("%+v", s)
		}
		f.send(manifest.Sync{Stream: testStream, Epoch: 5, Seq: 7, Manifest: a}) // the same again is taken
		f.want(5, 7, a)
	})
}

func TestAnEditThatDoesNotFitChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		a, _ := appended(t, manifest.New(0), 0, 10)
		b, good := appended(t, a, 10, 20)
		f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: 1, Manifest: a})
		f.send(manifest.Edits{Stream: testStream, Epoch: 1, Seq: 2, Edits: []manifest.Edit{good, good}})
		f.want(1, 1, a)
		if f.sender.resyncs.Load() != 1 || !f.h.Alive() {
			t.Errorf("asked %d times, alive %v", f.sender.resyncs.Load(), f.h.Alive())
		}
		f.send(manifest.Edits{Stream: testStream, Epoch: 1, Seq: 2, Edits: []manifest.Edit{good}})
		f.want(1, 2, b)
	})
}

func TestPendingFailsClosedUntilASync(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		a, _ := appended(t, manifest.New(0), 0, 10)
		f.send(manifest.Pending{Stream: testStream, Epoch: 1})
		f.want(1, 0, nil)
		f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: 4, Manifest: a})
		f.want(1, 4, a)
		f.send(manifest.Pending{Stream: testStream, Epoch: 1}) // the replica reader restarted
		f.want(1, 4, nil)
		f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: 3, Manifest: a}) // of the former one
		f.want(1, 4, nil)
		_, e := appended(t, a, 10, 20)
		f.send(manifest.Edits{Stream: testStream, Epoch: 1, Seq: 5, Edits: []manifest.Edit{e}})
		f.want(1, 4, nil)
		f.send(manifest.Pending{Stream: testStream, Epoch: 2})
		f.want(2, 0, nil)
		if s := f.status(); s.Pending != 1 || s.Streams != 1 {
			t.Errorf("%+v", s)
		}
		f.send(manifest.Forget{Stream: testStream})
		if _, ok := f.table.Manifest(testStream); ok || f.status().Pending != 0 || f.status().Streams != 0 {
			t.Errorf("after Forget: row %v, %+v", ok, f.status())
		}
	})
}

func TestTheTableIsEmptyWhenNobodyKeepsIt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		a, _ := appended(t, manifest.New(0), 0, 10)
		f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: 1, Manifest: a})
		f.h.Kill()
		<-f.h.Done()
		if _, ok := f.table.Manifest(testStream); ok {
			t.Error("the row outlived the process")
		}
		f.h = f.start(f.process)
		f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: 2, Manifest: a})
		f.want(1, 2, a)
		if _, err := f.sys.Start(context.Background(), actors.Spec{Path: "p", New: f.process}); err == nil {
			t.Error("a second one started")
		}
	})
}

func TestAnAbandonedOneWritesWhereNobodyLooks(t *testing.T) {
	table := NewTable()
	old := table.renew()
	now := table.renew()
	old.put(testStream, manifest.Row{Epoch: 1})
	if _, ok := table.Manifest(testStream); ok {
		t.Error("the former owner's row shows")
	}
	now.put(testStream, manifest.Row{Epoch: 2})
	table.leave(old)
	if row, ok := table.Manifest(testStream); !ok || row.Epoch != 2 {
		t.Errorf("the former owner's end took the row: %+v, %v", row, ok)
	}
	table.leave(now)
	if _, ok := table.Manifest(testStream); ok {
		t.Error("the row stayed")
	}
}

// TestARowNeverShowsWhatWasNeverPersisted loses, repeats and delays messages at
// random. The row is always one that was persisted, never goes back, and is the
// newest after a Sync.
func TestARowNeverShowsWhatWasNeverPersisted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 30).Draw(rt, "script")
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			persisted := map[pos.Revision]*manifest.Manifest{0: manifest.New(0)}
			seq, last := pos.Revision(0), pos.Revision(0)
			var late []any
			for _, action := range script {
				now := persisted[seq]
				switch action {
				case 0, 1, 2: // persist; the edits arrive, are lost, or come later
					m, e := appended(t, now, now.Next, now.Next+5)
					seq++
					persisted[seq] = m
					edits := manifest.Edits{Stream: testStream, Epoch: 1, Seq: seq, Edits: []manifest.Edit{e}}
					switch action {
					case 0:
						f.send(edits)
					case 1:
						late = append(late, edits)
					}
				case 3:
					f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: seq, Manifest: now})
				case 4:
					late = append(late, manifest.Sync{Stream: testStream, Epoch: 1, Seq: seq, Manifest: now})
				case 5:
					if len(late) > 0 {
						f.send(late[len(late)-1], late[0])
						late = late[1:]
					}
				}
				if row, ok := f.table.Manifest(testStream); ok && row.State == manifest.StateResolved {
					f.want(1, row.Seq, persisted[row.Seq])
					if row.Seq < last {
						t.Fatalf("the row went back from %d to %d", last, row.Seq)
					}
					last = row.Seq
				}
			}
			f.send(manifest.Sync{Stream: testStream, Epoch: 1, Seq: seq, Manifest: persisted[seq]})
			f.want(1, seq, persisted[seq])
			f.sys.Close()
		})
	})
}
