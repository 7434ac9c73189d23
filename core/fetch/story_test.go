package fetch

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
)

var update = flag.Bool("update", false, "write the traces anew")

// stocked returns a world of n committed chunks of two records at times 0, 10, 20,
// of which uploaded are in fragments of two, and the local log begins at floor.
func stocked(t *testing.T, spec resolve.Spec, n, uploaded, floor int) *world {
	w := newWorld(spec, t.Fatalf)
	for i := range n {
		w.append(chunk.User, 2, 40, pos.Millis(10*i))
	}
	w.committed = n
	for i := 0; i < uploaded; i += 2 {
		w.upload(min(2, uploaded-i))
	}
	w.floor = floor
	w.publish()
	return w
}

func (w *world) pullOnce(maxBytes int) {
	w.send(maxBytes)
	w.settle()
}

// lastError returns the class of the last answer that was an error, 0 if none.
func (w *world) lastError() Class {
	if len(w.errs) == 0 {
		return 0
	}
	return w.errs[len(w.errs)-1].Class
}

// TestStories holds the stories worth reading to the traces in testdata.
func TestStories(t *testing.T) {
	stories := map[string]func(t *testing.T, w func(resolve.Spec, int, int, int) *world){
		"across_the_seam": func(t *testing.T, at func(resolve.Spec, int, int, int) *world) {
			at(resolve.At(1), 5, 4, 3).drain()
		},
		"removed_while_reading": func(t *testing.T, at func(resolve.Spec, int, int, int) *world) {
			w := at(resolve.First(), 6, 6, 5)
			w.pullOnce(1)
			w.expire()
			w.expire()
			w.drain()
		},
		"store_down": func(t *testing.T, at func(resolve.Spec, int, int, int) *world) {
			w := at(resolve.First(), 4, 4, 4)
			w.send(1)
			for range 3 {
				f := *w.fetch
				w.fetch = nil
				w.step(FetchFailed{ID: f.ID, Class: Fault, Why: "no answer"})
				w.fire()
			}
			w.drain()
		},
		"declared_gap": func(t *testing.T, at func(resolve.Spec, int, int, int) *world) {
			w := at(resolve.First(), 6, 2, 4)
			w.upload(1)
			w.floor = 5
			w.publish()
			w.drain()
		},
		"tiering_disabled": func(t *testing.T, at func(resolve.Spec, int, int, int) *world) {
			w := at(resolve.First(), 4, 4, 3)
			w.tiering, w.pointer = false, resolve.PointerPresent
			w.pullOnce(1)
			w.drain()
		},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			var lines strings.Builder
			story(t, func(s resolve.Spec, n, uploaded, floor int) *world {
				w := stocked(t, s, n, uploaded, floor)
				w.trace = func(line string) { lines.WriteString(line + "\n") }
				return w
			})
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(lines.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != lines.String() {
				t.Errorf("the story changed; got\n%s\nwant\n%s", &lines, want)
			}
		})
	}
}

// A deposed timeline may have uploaded what this one has not committed.
func TestNothingUncommittedIsServedFromTheStoreEither(t *testing.T) {
	w := stocked(t, resolve.First(), 4, 4, 1)
	w.committed, w.floor = 3, 3
	w.drainTo(w.offset(3))
	w.send(rapidMax)
	w.respondAll()
	if w.notify == nil {
		t.Fatal("it does not wait for the commit")
	}
	w.committed = 4
	w.wake()
	w.settle()
	if w.at != w.offset(4) {
		t.Errorf("the consumer stands at %d", w.at)
	}
}

// The same within a fragment, where the local log cannot take over.
func TestTheCommittedOffsetBoundsAFragment(t *testing.T) {
	w := stocked(t, resolve.First(), 4, 4, 1)
	w.floor, w.committed = 1, 1 // an empty local log at chunk 1, in the middle of the first fragment
	w.pullOnce(rapidMax)
	if len(w.got) != 1 || w.at != w.offset(1) {
		t.Fatalf("got %v", w.got)
	}
	w.send(rapidMax)
	w.respondAll()
	if w.notify == nil || w.notify.From != w.offset(1) {
		t.Fatalf("it waits for %+v", w.notify)
	}
	w.committed = 4
	w.wake()
	w.settle()
	if w.at != w.offset(2) {
		t.Errorf("the consumer stands at %d", w.at)
	}
}

func (w *world) respondAll() {
	for w.fetch != nil {
		w.respond(1 << 30)
	}
}

// expirePull lets the pull's own time run out.
func (w *world) expirePull() {
	id := w.timer
	delete(w.timers, id)
	w.step(Fired{ID: id})
}

func (w *world) drainTo(o pos.Offset) {
	for i := 0; w.at != o; i++ {
		if i > 100 {
			w.fail("the reader does not reach %d: %+v", o, w.m.Status())
		}
		w.pullOnce(rapidMax)
	}
}

func TestATimestampFindsTheFirstChunkAsLate(t *testing.T) {
	for _, c := range []struct {
		at   pos.Millis
		want pos.Offset
	}{{-5, 0}, {0, 0}, {1, 2}, {10, 2}, {11, 4}, {20, 4}, {35, 8}, {50, 10}} {
		w := stocked(t, resolve.Since(c.at), 6, 4, 3)
		w.pullOnce(1)
		if len(w.got) != 1 || w.got[0] != c.want {
			t.Errorf("since %d: chunks %v, want %d", c.at, w.got, c.want)
		}
	}
}

func TestA404RefreshesAtOnceAndTwiceInVainWaits(t *testing.T) {
	w := stocked(t, resolve.First(), 4, 4, 4)
	key := w.objectAt(0)
	delete(w.objects, key)
	w.send(1)
	w.respond(1 << 30)
	if w.fetch == nil {
		t.Fatal("the first 404 was not followed by a fresh look at once")
	}
	w.respond(1 << 30)
	if w.fetch != nil || w.m.s.retry.timer == 0 {
		t.Fatal("the second 404 did not wait")
	}
	w.expirePull()
	if w.lastError() != Gone {
		t.Errorf("the pull ended with %v", w.errs)
	}
}

// A fetch is told how often it has failed in a row: it may take longer than others.
func TestAFetchIsToldHowOftenItFailed(t *testing.T) {
	w := stocked(t, resolve.First(), 4, 2, 4)
	w.send(rapidMax)
	var tries []int
	for _, class := range []Class{Fault, Throttled, Fault, 0, Fault, 0} {
		f := w.fetch
		tries = append(tries, f.Tries)
		if class == 0 {
			w.respond(30)
			continue
		}
		w.fetch = nil
		w.step(FetchFailed{ID: f.ID, Class: class})
		w.fire()
	}
	if !slices.Equal(tries, []int{0, 1, 2, 3, 0, 1}) {
		t.Errorf("tries %v", tries)
	}
}

func (w *world) objectAt(i int) string {
	e := w.live.Entries[i]
	return fragment.Key(prefix, stream, e.First, e.UID)
}

func TestWithTieringDisabledThePullIsAnsweredAtOnce(t *testing.T) {
	w := stocked(t, resolve.At(1), 4, 4, 3)
	w.tiering, w.pointer = false, resolve.PointerPresent
	w.send(1)
	w.asked = false
	w.step(PointerSeen{Pointer: resolve.PointerPresent})
	if w.pull != 0 || w.lastError() != Disabled || !w.errs[0].Lasting() {
		t.Fatalf("pull %d, errors %v", w.pull, w.errs)
	}
	w.send(1) // while it waits: the same, at once
	if w.pull != 0 || len(w.errs) != 2 {
		t.Errorf("pull %d, errors %v", w.pull, w.errs)
	}
}

// The writer trims by a manifest that has not reached this node's row yet: what
// looks like a gap is none.
func TestARowThatLagsCostsNothing(t *testing.T) {
	w := stocked(t, resolve.First(), 6, 2, 0)
	w.pullOnce(1)
	w.pullOnce(1)
	w.upload(4)
	w.floor = 6 // by the seam of a manifest that is on its way
	w.send(rapidMax)
	if w.m.s.retry.timer == 0 {
		t.Fatal("it does not wait for the manifest")
	}
	w.publish()
	w.settle()
	w.drain()
	if len(w.moves) != 0 || len(w.got) != 6 {
		t.Errorf("moves %v, chunks %v", w.moves, w.got)
	}
}

func TestAGapThatStaysIsCrossedAfterAWhile(t *testing.T) {
	w := stocked(t, resolve.First(), 6, 2, 4)
	w.drainTo(w.offset(2))
	var waited time.Duration
	w.send(rapidMax)
	for w.m.s.retry.timer != 0 {
		waited += w.m.s.retry.clocks[Unavailable].delay
		delete(w.timers, w.m.s.retry.timer)
		w.step(Fired{ID: w.m.s.retry.timer})
	}
	w.settle()
	want := resolve.Moved{From: 4, To: 8, Why: resolve.Gap}
	if len(w.moves) != 1 || w.moves[0] != want || waited < 3*time.Second {
		t.Errorf("moves %+v after %s, want %+v", w.moves, waited, want)
	}
}

// A manifest that changed meanwhile is doubted anew.
func TestDoubtBeginsAnewWithEveryManifest(t *testing.T) {
	w := stocked(t, resolve.First(), 6, 2, 4)
	w.drainTo(w.offset(2))
	w.send(rapidMax)
	for range maxDoubts - 1 {
		w.fire()
	}
	w.publish()
	w.fire()
	if len(w.moves) != 0 || w.m.s.doubts != 1 {
		t.Errorf("moves %v, %d doubts", w.moves, w.m.s.doubts)
	}
}

// Where the committed offset lies within a chunk of the store, of another timeline,
// more than that must be committed before it is worth looking again.
func TestACommittedOffsetWithinARemoteChunk(t *testing.T) {
	w := stocked(t, resolve.First(), 2, 2, 2)
	look := Seen{Running: true, Known: resolve.Known{First: 1, Committed: 1, Tiering: true, Row: w.row}}
	m := New(Config{Stream: stream, Prefix: prefix, Spec: resolve.First()})
	m.Step(Pulled{ID: 1}, nil)
	out := m.Step(look, nil)
	f, ok := out[0].(Fetch)
	if !ok {
		t.Fatalf("%+v", out)
	}
	m.Step(Fetched{ID: f.ID, Data: w.objects[f.Key][f.Off : f.Off+f.N]}, nil)
	out = m.Step(look, nil)
	if n, ok := out[0].(Notify); !ok || n.From != 1 {
		t.Errorf("%+v, want to be told of more than 1", out)
	}
}

func TestASeekThatNeverEndsWaits(t *testing.T) {
	m := New(Config{Stream: stream, Spec: resolve.First()})
	out := m.Step(Pulled{ID: 1}, nil)
	for range 20 {
		out = m.Step(Seen{Running: true, Known: resolve.Known{Committed: 9}}, nil)
		if m.s.retry.timer != 0 {
			return
		}
		out = m.Step(LocalRead{End: EndTrimmed}, out[:0])
	}
	t.Errorf("it goes on and on: %+v", out)
}

func TestJunkBehindTheLastChunkIsDamage(t *testing.T) {
	w := stocked(t, resolve.First(), 2, 2, 2)
	key := w.objectAt(0)
	m := *w.live
	m.Entries = []manifest.Entry{w.live.Entries[0]}
	m.Entries[0].Size += 20 // into the index
	w.row.Manifest = &m
	w.objects[key] = append(w.objects[key], 0)
	for range 3 {
		w.pullOnce(rapidMax)
	}
	if len(w.waits) == 0 || w.waits[0] != Damaged {
		t.Errorf("it waited for %v", w.waits)
	}
}

func TestAStoreThatSendsTooMuchIsCutShort(t *testing.T) {
	w := stocked(t, resolve.First(), 4, 4, 4)
	w.send(rapidMax)
	f := *w.fetch
	w.fetch = nil
	w.step(Fetched{ID: f.ID, Data: bytes.Clone(w.objects[f.Key][f.Off:])})
	w.settle()
	w.drain()
}

func TestReadAheadThatWasRefusedIsNotTriedBeforeTheNextPull(t *testing.T) {
	w := stocked(t, resolve.First(), 6, 0, 0)
	w.upload(6)
	w.floor = 6
	w.publish()
	w.send(1)
	w.respond(150)
	if w.fetch == nil || w.fetch.Need != 0 {
		t.Fatalf("no read-ahead: %+v", w.fetch)
	}
	refused := *w.fetch
	w.fetch = nil
	w.step(FetchRefused{ID: refused.ID})
	if w.fetch != nil {
		t.Fatal("it was tried again at once")
	}
	w.send(1)
	if w.fetch == nil || w.fetch.Need == 0 {
		t.Fatalf("the next pull does not fetch: %+v", w.fetch)
	}
	w.respond(150)
	if w.fetch == nil {
		t.Error("there is no read-ahead any more")
	}
	w.drain()
}

func TestALaterPullTakesTheFormersPlace(t *testing.T) {
	m := New(Config{Stream: stream, Spec: resolve.Next()})
	m.Step(Pulled{ID: 1}, nil)
	for _, e := range m.Step(Pulled{ID: 2}, nil) {
		if a, ok := e.(Answer); ok && a.ID == 1 && a.Err != nil && a.Err.Class == Superseded {
			return
		}
	}
	t.Error("the first pull was not answered")
}

func TestAChunkLargerThanARangeIsReadInPieces(t *testing.T) {
	w := newWorld(resolve.First(), t.Fatalf)
	w.append(chunk.User, 1, 10_000, 0)
	w.append(chunk.User, 1, 10, 0)
	w.committed = 2
	w.upload(2)
	w.floor = 2
	w.publish()
	w.send(1)
	w.respond(150) // now its size is known
	if w.fetch.N < 9_000 {
		t.Errorf("the rest is fetched in pieces of %d bytes", w.fetch.N)
	}
	for w.pull != 0 {
		w.respond(97)
	}
	w.drain()
	if len(w.got) != 2 {
		t.Errorf("got %v", w.got)
	}
}

func TestEveryClassSaysWhatItIs(t *testing.T) {
	for c := Unavailable; c <= Superseded; c++ {
		e := &Error{Class: c, Stream: stream, At: 3, Why: "because"}
		if strings.Contains(e.Error(), "class ") || !strings.Contains(e.Error(), "offset 3") {
			t.Errorf("%s", e)
		}
	}
	if got := (&Error{Class: Gone, At: pos.NoOffset}).Error(); !strings.Contains(got, "first record") {
		t.Error(got)
	}
}
