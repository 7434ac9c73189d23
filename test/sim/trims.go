package sim

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"millrace/core/pos"
)

// trims holds every life to the rule that a segment leaves local disk only once the store
// has all of it by the pointer: no bound of the simulation trims anything else. It watches
// the disk, so that it sees what no reader may happen to miss.
type trims struct {
	mu    sync.Mutex
	first map[string][]pos.Offset // of each folder: its segments' first offsets, ascending
}

// look notes what a life finds on its disk, before its hooks are set.
func (w *world) look() {
	w.trims.mu.Lock()
	defer w.trims.mu.Unlock()
	w.trims.first = map[string][]pos.Offset{}
	folders, err := w.disk.Folders()
	for _, folder := range folders {
		files, listErr := w.disk.List(folder)
		if err == nil {
			err = listErr
		}
		for _, f := range files {
			w.trims.add(folder + "/" + f.Name)
		}
	}
	if err != nil {
		w.t.Errorf("seed %d: looking at the disk: %v", w.seed, err)
	}
}

// segmentOf takes a file's path apart; ok is false for another file.
func segmentOf(what string) (folder string, first pos.Offset, ok bool) {
	folder, name, _ := strings.Cut(what, "/")
	digits, isSegment := strings.CutSuffix(name, ".segment")
	n, err := strconv.ParseInt(digits, 10, 64)
	return folder, pos.Offset(n), isSegment && err == nil
}

func (t *trims) add(what string) {
	folder, first, ok := segmentOf(what)
	if i, known := slices.BinarySearch(t.first[folder], first); ok && !known {
		t.first[folder] = slices.Insert(t.first[folder], i, first)
	}
}

// created and removing are told of every file.
func (w *world) created(op, what string) {
	if op != "create" {
		return
	}
	w.trims.mu.Lock()
	defer w.trims.mu.Unlock()
	w.trims.add(what)
}

func (w *world) removing(op, what string) {
	folder, first, ok := segmentOf(what)
	if op != "remove" || !ok {
		return
	}
	w.trims.mu.Lock()
	defer w.trims.mu.Unlock()
	all := w.trims.first[folder]
	i, known := slices.BinarySearch(all, first)
	if !known {
		return
	}
	// What is taken off the other end is a tail that a recovery could not use.
	if i == 0 && len(all) > 1 {
		w.tally.Trims++
		if stored := w.meta.Stored(pos.StreamID(folder)); stored < all[1] {
			w.t.Errorf("seed %d: segment [%s, %s) of %s is trimmed, and the store has it up to %s", w.seed, first, all[1], folder, stored)
		}
	}
	w.trims.first[folder] = slices.Delete(all, i, i+1)
}
