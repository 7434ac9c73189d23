package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// failureModes is the table of what can go wrong, and how many rows it has.
const (
	failureModes = "../../docs/failure-modes.md"
	failureRows  = 52
)

var quoted = regexp.MustCompile("`([^`]+)`")

// Every failure has its row, and every test that a row names is there.
func TestFailureModesNameTheirTests(t *testing.T) {
	text, err := os.ReadFile(failureModes)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := failureProblems(string(text), failureRows, func(folder string) map[string][]string { return functions(t, "../../"+folder) }); len(wrong) > 0 {
		t.Errorf("%s:\n%s", failureModes, strings.Join(wrong, "\n"))
	}
}

// failureProblems tells what is wrong with a table. declared lists, by function, the strings
// of a folder's tests.
func failureProblems(text string, rows int, declared func(folder string) map[string][]string) (wrong []string) {
	known, next := map[string]map[string][]string{}, 1
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		number, err := strconv.Atoi(strings.TrimPrefix(cells[0], "| "))
		if err != nil {
			continue
		}
		if number != next {
			wrong = append(wrong, "row "+strconv.Itoa(number)+" stands where "+strconv.Itoa(next)+" is expected")
		}
		next = number + 1
		if len(cells) != 4 {
			wrong = append(wrong, "row "+strconv.Itoa(number)+" has "+strconv.Itoa(len(cells))+" cells")
			continue
		}
		tests := quoted.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			wrong = append(wrong, "row "+strconv.Itoa(number)+" names no test")
		}
		for _, m := range tests {
			folder, name, ok := strings.Cut(m[1], ".")
			function, subtest, isSub := strings.Cut(name, "/")
			if known[folder] == nil {
				known[folder] = declared(folder)
			}
			texts, there := known[folder][function]
			switch {
			case !ok || !there:
				wrong = append(wrong, "row "+strconv.Itoa(number)+": there is no test "+m[1])
			case isSub && !contains(texts, subtest):
				wrong = append(wrong, "row "+strconv.Itoa(number)+": "+folder+"."+function+" has no part "+subtest)
			}
		}
	}
	if next != rows+1 {
		wrong = append(wrong, "the last row is "+strconv.Itoa(next-1)+", want "+strconv.Itoa(rows))
	}
	return wrong
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// functions lists the tests of a folder, and in a folder of test/porttest the parts of its
// suite, with the strings that stand in each.
func functions(t *testing.T, folder string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	suite := strings.Contains(filepath.ToSlash(folder), "test/porttest/")
	for _, path := range files {
		if !suite && !strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !suite && !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			texts := []string{}
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						texts = append(texts, s)
					}
				}
				return true
			})
			found[f.Name.Name] = texts
		}
	}
	return found
}

func TestProblemsOfFailureModesAreSeen(t *testing.T) {
	declared := func(folder string) map[string][]string {
		if folder != "core/x" {
			return nil
		}
		return map[string][]string{"TestA": {"a part"}}
	}
	for table, want := range map[string]string{
		"| 1 | a | b | `core/x.TestA` |\n| 2 | a | b | `core/x.TestA/a part` |\n": "",
		"| 1 | a | b | `core/x.TestA` |\n":                                        "the last row is 1, want 2",
		"| 1 | a | b | `core/x.TestA` |\n| 3 | a | b | `core/x.TestA` |\n":        "row 3 stands where 2 is expected",
		"| 1 | a | b | `core/x.TestB` |\n| 2 | a | b | `core/x.TestA` |\n":        "row 1: there is no test core/x.TestB",
		"| 1 | a | b | `core/y.TestA` |\n| 2 | a | b | `core/x.TestA` |\n":        "row 1: there is no test core/y.TestA",
		"| 1 | a | b | `core/x.TestA/b` |\n| 2 | a | b | `core/x.TestA` |\n":      "row 1: core/x.TestA has no part b",
		"| 1 | a | b | nothing |\n| 2 | a | b | `core/x.TestA` |\n":               "row 1 names no test",
		"| 1 | a | `core/x.TestA` |\n| 2 | a | b | `core/x.TestA` |\n":            "row 1 has 3 cells",
	} {
		wrong := strings.Join(failureProblems(table, 2, declared), "\n")
		if want == "" && wrong != "" || !strings.Contains(wrong, want) {
			t.Errorf("of\n%sit says %q, want %q", table, wrong, want)
		}
	}
}
