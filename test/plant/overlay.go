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
	Rule string // what is broken, in the words of the design
	File string // relative to the repository's root
	Old  string // stands in File exactly once
	New  string
}

// overlay writes the broken copy of the plant's file and the overlay that puts it in
// the file's place, both into dir, and returns the overlay's path.
func (p Plant) overlay(root, dir string) (string, error) {
	file := filepath.Join(root, p.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), p.Old); n != 1 {
		return "", fmt.Errorf("%s holds the line to break %d times, want once: bring the plant up to date\n%s", p.File, n, p.Old)
	}
	broken := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(broken, []byte(strings.Replace(string(source), p.Old, p.New, 1)), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}
