package plant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Plant is one broken rule.
type Plant struct {
	Rule  string // what is broken, in the words of the design
	Seed  uint64 // where the simulation begins to look: it was found there before
	Edits []Edit
}

// Edit replaces a text that stands in a file exactly once.
type Edit struct {
	File     string // relative to the repository's root
	Old, New string
}

// overlay writes the broken copies of the plant's files and the overlay that puts them
// in their place, all into dir, and returns the overlay's path.
func (p Plant) overlay(root, dir string) (string, error) {
	replace := map[string]string{}
	for _, e := range p.Edits {
		file := filepath.Join(root, e.File)
		from := file
		if broken, again := replace[file]; again {
			from = broken
		}
		source, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(source), e.Old); n != 1 {
			return "", fmt.Errorf("%s holds the text to break %d times, want once: bring the plant up to date\n%s", e.File, n, e.Old)
		}
		broken := filepath.Join(dir, fmt.Sprintf("broken%d.go", len(replace)))
		if from != file {
			broken = from
		}
		if err := os.WriteFile(broken, []byte(strings.Replace(string(source), e.Old, e.New, 1)), 0o600); err != nil {
			return "", err
		}
		replace[file] = broken
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}
