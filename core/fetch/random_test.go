package fetch

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"millrace/core/chunk"
	"millrace/core/manifest"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// TestAReaderGetsEverythingOnceInOrder lets a reader, both tiers and every fault
// take turns at random. The world holds each answer to the truth; afterwards the
// reader must reach the end.
func TestAReaderGetsEverythingOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(anySpec(t), t.Fatalf)
		for range rapid.IntRange(0, 6).Draw(t, "before") {
			grow(t, w)
		}
		w.committed = len(w.chunks)
		for range rapid.IntRange(1, 80).Draw(t, "actions") {
			act(t, w)
		}
		w.drain()
	})
}

func grow(t *rapid.T, w *world) {
	typ := rapid.SampledFrom([]chunk.Type{chunk.User, chunk.User, chunk.User, chunk.TrackingDelta}).Draw(t, "type")
	at := pos.Millis(10*len(w.chunks) + rapid.SampledFrom([]int{0, 0, 0, -25, 7}).Draw(t, "skew"))
	w.append(typ, rapid.IntRange(1, 3).Draw(t, "records"), rapid.SampledFrom([]int{1, 20, 120}).Draw(t, "size"), at)
}

func act(t *rapid.T, w *world) {
	actions := map[string]func(){
		"append":  func() { grow(t, w) },
		"commit":  func() { w.committed = rapid.IntRange(w.committed, len(w.chunks)).Draw(t, "committed") },
		"trim":    func() { w.floor = rapid.IntRange(w.floor, w.committed).Draw(t, "floor") },
		"upload":  func() { w.upload(rapid.IntRange(1, 4).Draw(t, "chunks")) },
		"publish": w.publish,
		"pending": func() { w.row = manifest.Row{} },
		"expire":  w.expire,
		"rot": func() {
			if len(w.chunks) > 0 {
				w.damaged[rapid.IntRange(0, len(w.chunks)-1).Draw(t, "rotten")] = true
			}
		},
		"tiering": func() {
			w.tiering = !w.tiering
			w.pointer = resolve.PointerAbsent
			if w.live.Next > 0 {
				w.pointer = rapid.SampledFrom([]resolve.Pointer{resolve.PointerPresent, resolve.PointerFailed}).Draw(t, "pointer")
			}
		},
		"stop":  func() { w.running = false },
		"start": func() { w.running = true },
		"pull": func() {
			if w.pull == 0 {
				w.send(rapid.SampledFrom([]int{1, 200, rapidMax}).Draw(t, "max"))
			}
		},
		"respond": func() {
			if w.fetch != nil {
				w.respond(rapid.SampledFrom([]int64{0, 30, 1 << 30, 1 << 30}).Draw(t, "bytes"))
			}
		},
		"refuse": func() {
			if f := w.fetch; f != nil && f.Need == 0 {
				w.fetch = nil
				w.step(FetchRefused{ID: f.ID})
			}
		},
		"fail": func() {
			if f := w.fetch; f != nil {
				w.fetch = nil
				w.step(FetchFailed{ID: f.ID, Class: rapid.SampledFrom([]Class{Fault, Throttled, Denied, Damaged}).Draw(t, "class")})
			}
		},
		"point": func() {
			if w.asked {
				w.asked = false
				w.step(PointerSeen{Pointer: w.pointer})
			}
		},
		"wake": w.wake,
		"fire": func() {
			if w.pull != 0 || len(w.timers) > 0 {
				w.fireAny(t)
			}
		},
		"stale": func() {
			w.step(rapid.SampledFrom([]Input{Fired{ID: 0}, Fired{ID: 1 << 40}, Fetched{ID: 1 << 40, Data: []byte{1}}, FetchFailed{ID: 1 << 40, Class: Gone}, FetchRefused{ID: 1 << 40}}).Draw(t, "input"))
		},
	}
	names := []string{"append", "commit", "trim", "upload", "publish", "pending", "expire", "rot", "tiering", "stop", "start", "pull", "pull", "pull",
		"respond", "respond", "respond", "refuse", "fail", "point", "wake", "fire", "stale"}
	actions[rapid.SampledFrom(names).Draw(t, "action")]()
}

func (w *world) fireAny(t *rapid.T) {
	ids := make([]uint64, 0, len(w.timers))
	for id := uint64(1); id <= w.m.s.ids; id++ {
		if w.timers[id] {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "timer")
	delete(w.timers, id)
	w.step(Fired{ID: id})
}

// TestNothingIsWrittenTwiceFromTheSameStory: the same inputs give the same effects.
func TestTheSameInputsGiveTheSameEffects(t *testing.T) {
	story := func() (lines []string) {
		w := newWorld(resolve.First(), t.Fatalf)
		w.trace = func(s string) { lines = append(lines, s) }
		for i := range 8 {
			w.append(chunk.User, 2, 40, pos.Millis(i))
		}
		w.committed = 8
		w.upload(3)
		w.upload(3)
		w.floor = 6
		w.publish()
		w.drain()
		return lines
	}
	if a, b := story(), story(); !reflect.DeepEqual(a, b) {
		t.Errorf("two runs differ:\n%v\n%v", a, b)
	}
}
