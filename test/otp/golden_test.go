package otp

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write Erlang's answers into the golden files")

// golden is one program of testdata with OTP's answers. In the files "# " begins a program
// with its name, "> " an answer; a line without one was answered with ok.
type golden struct {
	name           string
	lines, answers []string
}

func readGolden(t *testing.T, file string) (all []golden) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		n := len(all) - 1
		switch {
		case line == "":
		case strings.HasPrefix(line, "# "):
			all = append(all, golden{name: line[2:]})
		case n < 0:
			t.Fatalf("%s: %q stands before the first name", file, line)
		case strings.HasPrefix(line, "> "):
			all[n].answers[len(all[n].answers)-1] = line[2:]
		default:
			all[n].lines = append(all[n].lines, line)
			all[n].answers = append(all[n].answers, "ok")
		}
	}
	return all
}

func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	return files
}

// TestGolden compares our answers with those that OTP gave. It needs no Erlang.
func TestGolden(t *testing.T) {
	for _, file := range goldenFiles(t) {
		for _, g := range readGolden(t, file) {
			p, err := Parse(g.lines)
			if err != nil {
				t.Fatalf("%s, %s: %v", file, g.name, err)
			}
			if got := inBubble(t, p); !slices.Equal(got, g.answers) {
				t.Errorf("%s, %s\n%s", file, g.name, transcript(g.lines, g.answers, got))
			}
		}
	}
}

// TestErlangGivesTheGoldenAnswers keeps the files honest.
func TestErlangGivesTheGoldenAnswers(t *testing.T) {
	erl := &session{t: t}
	defer erl.close()
	for _, file := range goldenFiles(t) {
		var out []string
		for _, g := range readGolden(t, file) {
			p, err := Parse(g.lines)
			if err != nil {
				t.Fatalf("%s, %s: %v", file, g.name, err)
			}
			theirs, err := erl.run(p)
			if err != nil {
				t.Fatalf("%s, %s: %v", file, g.name, err)
			}
			out = append(out, "# "+g.name+"\n"+transcript(g.lines, theirs, nil))
			if !*update && !slices.Equal(theirs, g.answers) {
				t.Errorf("%s, %s: the file has other answers than Erlang\n%s", file, g.name, transcript(g.lines, theirs, g.answers))
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(out, "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestParseRefuses: a golden file with a slip must not pass for one that says nothing.
func TestParseRefuses(t *testing.T) {
	for _, lines := range [][]string{
		{"sup"}, {"sup strategy=any"}, {"sup strategy=one_for_one intensity=x"}, {"child a/b"}, {"child a colour=red"},
		{"child a restart=often"}, {"child a shutdown=soon"}, {"exti a crash"}, {""},
	} {
		if _, err := Parse(lines); err == nil {
			t.Errorf("%q was taken", lines)
		}
	}
}
