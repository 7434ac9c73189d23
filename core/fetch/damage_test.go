package fetch

import (
	"bytes"
	"testing"

	"millrace/core/chunk"
	"millrace/core/fragment"
	"millrace/core/manifest"
	"millrace/core/resolve"
)

func TestDamageIsReadAgainThenReported(t *testing.T) {
	damage := map[string]func(w *world, b []byte) []byte{
		"data":     func(w *world, b []byte) []byte { b[fragment.DataStart+chunk.HeaderSize+9] ^= 1; return b },
		"header":   func(w *world, b []byte) []byte { b[fragment.DataStart] ^= 1; return b },
		"size":     func(w *world, b []byte) []byte { b[fragment.DataStart+36] ^= 1; return b },
		"order":    func(w *world, b []byte) []byte { b[fragment.DataStart+31] ^= 1; return b },
		"the last": func(w *world, b []byte) []byte { b[int(w.live.Entries[0].Size)] ^= 1; return b },
	}
	for name, do := range damage {
		w := stocked(t, resolve.First(), 4, 4, 4)
		key := w.objectAt(0)
		good := bytes.Clone(w.objects[key])
		w.objects[key] = do(w, bytes.Clone(good))
		for range 3 * doubtful {
			w.pullOnce(rapidMax)
			for len(w.timers) > 0 {
				w.fire()
			}
		}
		if w.lastError() != Damaged || !w.errs[len(w.errs)-1].Lasting() {
			t.Errorf("%s: the pulls ended with %v", name, w.errs)
		}
		w.objects[key] = good
		w.drain()
	}
	w := stocked(t, resolve.At(3), 4, 4, 4)
	key := w.objectAt(0)
	w.objects[key][len(w.objects[key])-10] ^= 1
	for range doubtful {
		w.pullOnce(1)
		for len(w.timers) > 0 {
			w.fire()
		}
	}
	if w.lastError() != Damaged {
		t.Errorf("index: the pulls ended with %v", w.errs)
	}
}

func TestAnEntryThatDoesNotFitItsObjectIsDamage(t *testing.T) {
	w := stocked(t, resolve.First(), 2, 2, 2)
	m := *w.live
	m.Entries = []manifest.Entry{w.live.Entries[0]}
	m.Entries[0].Next++
	w.row.Manifest = &m
	for range 3 {
		w.pullOnce(rapidMax)
	}
	if len(w.waits) != 1 || w.waits[0] != Damaged {
		t.Errorf("it waited for %v", w.waits)
	}
}

func TestALocalChunkOutOfPlaceIsDamage(t *testing.T) {
	for _, next := range []int{0, 2} {
		w := stocked(t, resolve.First(), 4, 0, 0)
		w.pullOnce(1)
		w.cursor = next
		if next == 0 {
			w.chunks[0] = sealed(chunk.User, 0, 3, 0, 40) // reaches into the next
		}
		w.pullOnce(1)
		if len(w.waits) == 0 || w.waits[0] != Damaged {
			t.Errorf("chunk %d after chunk 0: it waited for %v", next, w.waits)
		}
	}
}

// Local damage is passed by way of the store where that has the records; elsewhere it
// lasts, and the error says so.
func TestLocalDamageIsReadFromTheStore(t *testing.T) {
	w := stocked(t, resolve.First(), 8, 2, 0)
	w.upload(2)
	w.publish()
	w.damaged[1], w.damaged[3], w.damaged[6] = true, true, true
	for range 20 {
		w.pullOnce(1)
	}
	if !w.begun || w.at != w.chunks[6].ID || len(w.detours) != 2 {
		t.Fatalf("it stands at %s with detours at %v, waited for %v", w.at, w.detours, w.waits)
	}
	for range doubtful {
		w.pullOnce(1)
		for len(w.timers) > 0 {
			w.fire()
		}
	}
	if w.lastError() != Damaged || !w.errs[len(w.errs)-1].Lasting() {
		t.Fatalf("the pulls ended with %v", w.errs)
	}
	delete(w.damaged, 6)
	w.drain()
}

// Damage in both tiers is neither handed out nor run after in circles.
func TestDamageInBothTiersIsReported(t *testing.T) {
	w := stocked(t, resolve.First(), 4, 4, 0)
	w.damaged[0] = true
	key := w.objectAt(0)
	good := bytes.Clone(w.objects[key])
	w.objects[key][fragment.DataStart+chunk.HeaderSize+9] ^= 1
	for range 3 * doubtful {
		w.pullOnce(rapidMax)
		for len(w.timers) > 0 {
			w.fire()
		}
	}
	if w.lastError() != Damaged {
		t.Errorf("the pulls ended with %v", w.errs)
	}
	w.objects[key] = good
	w.drain()
}
