package metatest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/actors/port"
	"millrace/core/pos"
)

// Store is what is checked: both ports of one store.
type Store interface {
	port.Metadata
	port.Sessions
}

// Run checks the store that open returns, a fresh one for each part.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, part := range []struct {
		name string
		f    func(t *testing.T, m Store)
	}{
		{"a store has an identity", cluster},
		{"a stream comes back", createStream},
		{"a name is unique", nameTaken},
		{"an id is never used again", idReused},
		{"malformed streams are refused", malformed},
		{"a swap raises the revision", swap},
		{"a swap is guarded by the revision", swapGuard},
		{"an epoch does not fall", swapEpoch},
		{"a batch swaps all or none", swapBatch},
		{"changes are told in order", changedSince},
		{"a deletion is told", changedDeleted},
		{"one of many swaps wins", swapRace},
		{"a pointer is swapped", pointerSwap},
		{"a pointer is guarded", pointerGuard},
		{"a pointer's revision is never used again", pointerRevision},
		{"a pointer needs its stream", pointerStream},
		{"an anchor stays for life", anchor},
		{"deleting a stream enqueues it", deleteStream},
		{"deleting is guarded by the revision", deleteGuard},
		{"a deletion stays until it is finished", deletions},
		{"a capture is guarded by its revision", captures},
		{"settings come back", settings},
		{"what comes back is the caller's", copies},
		{"a context that ended stops everything", ended},
		{"a session ends", sessions},
		{"a lease has one holder", lease},
	} {
		t.Run(part.name, func(t *testing.T) { part.f(t, open(t)) })
	}
}

// class fails the test unless err is a *port.MetadataError of the class.
func class(t *testing.T, what string, err error, want port.Class) {
	t.Helper()
	if _, ok := errors.AsType[*port.MetadataError](err); !ok || !errors.Is(err, want) || port.ClassOf(err) != want {
		t.Fatalf("%s: got error %v (%T), want a *MetadataError of class %q", what, err, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal fails the test unless got is want.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// row is a full row, so that a field that is lost is seen.
func row(id pos.StreamID, name string) port.Stream {
	return port.Stream{
		ID: id, Name: name, Arguments: map[string]string{"max-length-bytes": "5", "ä": "\"\n"}, Created: 1772452804118,
		Epoch: 1 << 63, Ballot: 0xffffffffffffffff, Phase: port.PhaseReady, Writer: "n1",
		Members: []port.Member{{Node: "n1", LogIncarnation: 0xfedcba9876543210}, {Node: "n2", LogIncarnation: 2}}, Settled: true,
	}
}

func create(t *testing.T, m Store, id pos.StreamID, name string) port.Stream {
	t.Helper()
	s, err := m.CreateStream(t.Context(), row(id, name))
	must(t, err)
	return s
}

func read(t *testing.T, m Store, id pos.StreamID) port.Stream {
	t.Helper()
	s, err := m.Stream(t.Context(), id)
	must(t, err)
	return s
}

func cluster(t *testing.T, m Store) {
	c, err := m.Cluster(t.Context())
	must(t, err)
	if c.ID.IsZero() || c.Format < 1 || c.Generation == "" {
		t.Errorf("cluster %+v", c)
	}
	again, err := m.Cluster(t.Context())
	must(t, err)
	equal(t, "Cluster asked again", again, c)
}

func createStream(t *testing.T, m Store) {
	_, err := m.Stream(t.Context(), "s1")
	class(t, "Stream before it is created", err, port.NotFound)
	_, err = m.StreamByName(t.Context(), "one")
	class(t, "StreamByName before it is created", err, port.NotFound)
	all, err := m.Streams(t.Context())
	must(t, err)
	if len(all) != 0 {
		t.Errorf("Streams of an empty store: %v", all)
	}
	s := create(t, m, "s2", "two/with a name, of ä kind")
	want := row("s2", s.Name)
	want.Revision, want.Seq = 1, s.Seq
	equal(t, "CreateStream", s, want)
	equal(t, "Stream", read(t, m, "s2"), want)
	byName, err := m.StreamByName(t.Context(), s.Name)
	must(t, err)
	equal(t, "StreamByName", byName, want)
	first := create(t, m, "s1", "one")
	if first.Seq <= s.Seq {
		t.Errorf("the later change has seq %d, the earlier one %d", first.Seq, s.Seq)
	}
	all, err = m.Streams(t.Context())
	must(t, err)
	equal(t, "Streams", all, []port.Stream{first, want})
}

func nameTaken(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	_, err := m.CreateStream(t.Context(), row("s2", "one"))
	class(t, "CreateStream with a taken name", err, port.Conflict)
	_, err = m.Stream(t.Context(), "s2")
	class(t, "Stream after a refused creation", err, port.NotFound)
	must(t, m.DeleteStream(t.Context(), "s1", s.Revision))
	create(t, m, "s2", "one")
}

func idReused(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	_, err := m.CreateStream(t.Context(), row("s1", "two"))
	class(t, "CreateStream with an id in use", err, port.Conflict)
	must(t, m.DeleteStream(t.Context(), "s1", s.Revision))
	_, err = m.CreateStream(t.Context(), row("s1", "one"))
	class(t, "CreateStream with a deleted id", err, port.Conflict)
	must(t, m.FinishDeletion(t.Context(), "s1"))
	_, err = m.CreateStream(t.Context(), row("s1", "one"))
	class(t, "CreateStream with an id whose deletion is done", err, port.Conflict)
}

func malformed(t *testing.T, m Store) {
	for _, s := range []port.Stream{row("", "a"), row("a/b", "a"), row("..", "a"), row("s1", ""), row("s1", "a\nb"), row("s1", "\xff"), row("s1", "a\u202eb"), row("s1", "a//b")} {
		_, err := m.CreateStream(t.Context(), s)
		class(t, "CreateStream "+string(s.ID)+" "+s.Name, err, port.Denied)
	}
}

func swap(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	next := s
	next.Epoch++
	next.Phase, next.Writer, next.Settled, next.Ballot = port.PhaseElecting, "", false, 7
	next.Members = []port.Member{{Node: "n3", LogIncarnation: 3}}
	next.Arguments = map[string]string{"x": "y"}
	next.Name, next.Created, next.Seq = "another", 5, 0 // what does not change
	must(t, m.SwapStreams(t.Context(), []port.Stream{next}))
	got := read(t, m, "s1")
	if got.Seq <= s.Seq {
		t.Errorf("seq %d after %d", got.Seq, s.Seq)
	}
	next.Name, next.Created, next.Seq, next.Revision = s.Name, s.Created, got.Seq, s.Revision+1
	equal(t, "Stream", got, next)
	byName, err := m.StreamByName(t.Context(), "one")
	must(t, err)
	equal(t, "StreamByName", byName, next)
	must(t, m.SwapStreams(t.Context(), nil))
}

func swapGuard(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	must(t, m.SwapStreams(t.Context(), []port.Stream{s}))
	want := read(t, m, "s1")
	for _, revision := range []pos.Revision{0, s.Revision, want.Revision + 1} {
		stale := s
		stale.Revision, stale.Writer = revision, "thief"
		class(t, "SwapStreams with revision "+revision.String(), m.SwapStreams(t.Context(), []port.Stream{stale}), port.Conflict)
	}
	equal(t, "Stream after refused swaps", read(t, m, "s1"), want)
	class(t, "SwapStreams of a missing stream", m.SwapStreams(t.Context(), []port.Stream{row("none", "x")}), port.NotFound)
}

func swapEpoch(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	lower := s
	lower.Epoch--
	class(t, "SwapStreams to a lower epoch", m.SwapStreams(t.Context(), []port.Stream{lower}), port.Conflict)
	equal(t, "Stream", read(t, m, "s1"), s)
	must(t, m.SwapStreams(t.Context(), []port.Stream{s}))
}

func swapBatch(t *testing.T, m Store) {
	a, b := create(t, m, "s1", "one"), create(t, m, "s2", "two")
	a2, b2 := a, b
	a2.Writer, b2.Writer = "n9", "n9"
	stale := b2
	stale.Revision++
	ctx := t.Context()
	class(t, "a batch with a stale row", m.SwapStreams(ctx, []port.Stream{a2, stale}), port.Conflict)
	class(t, "a batch with a missing row", m.SwapStreams(ctx, []port.Stream{a2, row("none", "x")}), port.NotFound)
	class(t, "a batch with a row twice", m.SwapStreams(ctx, []port.Stream{a2, b2, a2}), port.Conflict)
	equal(t, "the first row", read(t, m, "s1"), a)
	equal(t, "the second row", read(t, m, "s2"), b)
	_, seq, err := m.ChangedSince(ctx, 0)
	must(t, err)
	if seq != b.Seq {
		t.Errorf("refused batches moved the sequence from %d to %d", b.Seq, seq)
	}
	must(t, m.SwapStreams(ctx, []port.Stream{a2, b2}))
	if read(t, m, "s1").Writer != "n9" || read(t, m, "s2").Writer != "n9" {
		t.Error("the batch was not stored")
	}
}

func changedSince(t *testing.T, m Store) {
	rows, seq, err := m.ChangedSince(t.Context(), 0)
	must(t, err)
	if len(rows) != 0 || seq != 0 {
		t.Errorf("an empty store has changed: %v, %d", rows, seq)
	}
	a, b := create(t, m, "s1", "one"), create(t, m, "s2", "two")
	rows, seq, err = m.ChangedSince(t.Context(), 0)
	must(t, err)
	equal(t, "ChangedSince(0)", rows, []port.Stream{a, b})
	rows, same, err := m.ChangedSince(t.Context(), seq)
	must(t, err)
	if len(rows) != 0 || same != seq {
		t.Errorf("nothing changed, but got %v, %d", rows, same)
	}
	must(t, m.SwapStreams(t.Context(), []port.Stream{a}))
	a = read(t, m, "s1")
	rows, next, err := m.ChangedSince(t.Context(), seq)
	must(t, err)
	equal(t, "ChangedSince after a swap", rows, []port.Stream{a})
	if next != a.Seq {
		t.Errorf("asks to go on at %d, the change was %d", next, a.Seq)
	}
	rows, _, err = m.ChangedSince(t.Context(), 0)
	must(t, err)
	equal(t, "ChangedSince(0) after a swap", rows, []port.Stream{b, a})
	rows, far, err := m.ChangedSince(t.Context(), next+100)
	must(t, err)
	if len(rows) != 0 || far != next+100 {
		t.Errorf("asked beyond the end: %v, %d", rows, far)
	}
}

func changedDeleted(t *testing.T, m Store) {
	a, b := create(t, m, "s1", "one"), create(t, m, "s2", "two")
	must(t, m.DeleteStream(t.Context(), "s1", a.Revision))
	must(t, m.FinishDeletion(t.Context(), "s1"))
	rows, seq, err := m.ChangedSince(t.Context(), b.Seq)
	must(t, err)
	equal(t, "ChangedSince", rows, []port.Stream{{ID: "s1", Name: "one", Phase: port.PhaseDeleted, Seq: seq}})
	if seq <= b.Seq {
		t.Errorf("the deletion has seq %d, the change before it %d", seq, b.Seq)
	}
	all, err := m.Streams(t.Context())
	must(t, err)
	equal(t, "Streams", all, []port.Stream{b})
}

func swapRace(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			mine := s
			mine.Ballot = pos.UID(i + 1)
			switch err := m.SwapStreams(t.Context(), []port.Stream{mine}); {
			case err == nil:
				won.Add(1)
			case !port.IsConflict(err):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || read(t, m, "s1").Revision != 2 {
		t.Errorf("%d swaps of one revision won", won.Load())
	}
}

// ended checks that nothing is done for a caller that is gone.
func ended(t *testing.T, m Store) {
	s := create(t, m, "s1", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Cluster(ctx)
	class(t, "Cluster", err, port.Unavailable)
	_, err = m.Stream(ctx, "s1")
	class(t, "Stream", err, port.Unavailable)
	class(t, "SwapStreams", m.SwapStreams(ctx, []port.Stream{s}), port.Unavailable)
	class(t, "SwapPointer", m.SwapPointer(ctx, "s1", 0, port.Pointer{Revision: 1}), port.Unavailable)
	class(t, "DeleteStream", m.DeleteStream(ctx, "s1", s.Revision), port.Unavailable)
	class(t, "PutSetting", m.PutSetting(ctx, "k", "v"), port.Unavailable)
	_, err = m.Register(ctx, port.Session{Node: "n1"}, time.Minute)
	class(t, "Register", err, port.Unavailable)
	equal(t, "Stream after all", read(t, m, "s1"), s)
}
