package arch

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the folder table of ARCHITECTURE.md")

// The folder table of ARCHITECTURE.md stands between these two lines.
const (
	mapFile  = "ARCHITECTURE.md"
	mapBegin = "<!-- folders: written by go test ./test/arch -update -->\n"
	mapEnd   = "<!-- end of folders -->\n"
)

func TestTheMapIsThePackageComments(t *testing.T) {
	name := filepath.Join(root, mapFile)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), mapBegin)
	have, after, ok2 := strings.Cut(rest, mapEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", mapFile, mapBegin, mapEnd)
	}
	want := folderTable(Synopses(tree(t)))
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("the folder table of %s differs from the package comments; run: go test ./test/arch -update\n%s", mapFile, firstDifference(have, want))
	}
	if err := os.WriteFile(name, []byte(before+mapBegin+want+mapEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func folderTable(synopses map[string]string) string {
	var b strings.Builder
	b.WriteString("| folder | what it is or does |\n| --- | --- |\n")
	for _, folder := range slices.Sorted(maps.Keys(synopses)) {
		fmt.Fprintf(&b, "| [%s](%s) | %s |\n", folder, folder, strings.ReplaceAll(synopses[folder], "|", `\|`))
	}
	return b.String()
}

func firstDifference(have, want string) string {
	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range max(len(h), len(w)) {
		var a, b string
		if i < len(h) {
			a = h[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("has:   %s\nwants: %s", a, b)
		}
	}
	return ""
}
