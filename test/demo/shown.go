package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// shown counts what there was to see, from the files of node and store.
type shown struct {
	mu       sync.Mutex
	segments map[string]bool // every segment seen on the node's disk
}

// look notes the segments below dir. One that comes and goes between two looks is not seen.
func (s *shown) look(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.segments == nil {
		s.segments = map[string]bool{}
	}
	each(dir, ".segment", func(path string, _ int64) { s.segments[path] = true })
}

// line tells it in one line. The node was killed before each run but the first.
func (s *shown) line(data, store string, runs int) string {
	s.look(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	local, objects := 0, 0
	each(data, ".segment", func(path string, _ int64) {
		if s.segments[path] {
			local++
		}
	})
	each(store, ".fragment", func(string, int64) { objects++ })
	return fmt.Sprintf("shown: at least %d segments rolled and %d of them trimmed from local disk, %d objects in the store, the node killed %d times, PostgreSQL once",
		max(0, len(s.segments)-1), len(s.segments)-local, objects, runs-1)
}

// each visits the files below dir with a suffix, and their sizes. Files that go meanwhile
// are left out.
func each(dir, suffix string, visit func(path string, size int64)) {
	walk := func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != suffix {
			return nil
		}
		if info, err := d.Info(); err == nil {
			visit(path, info.Size())
		}
		return nil
	}
	if err := filepath.WalkDir(dir, walk); err != nil {
		return // walk never fails
	}
}
