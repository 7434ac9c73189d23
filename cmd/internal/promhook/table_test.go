package promhook

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"millrace/actors/port"
	"millrace/core/fetch"
	"millrace/core/resolve"
)

var update = flag.Bool("update", false, "write the metrics of docs/operations.md anew from the table")

const (
	root  = "../../.."
	page  = root + "/docs/operations.md"
	begin = "<!-- metrics: from cmd/internal/promhook, checked by its test -->\n"
	end   = "<!-- end of metrics -->\n"
)

func TestEveryMetricIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for _, m := range Metrics() {
		if seen[m.FullName()] {
			t.Errorf("%s stands twice in the table", m.FullName())
		}
		seen[m.FullName()] = true
		for _, name := range append([]string{m.Name}, m.Labels...) {
			if !snake.MatchString(name) {
				t.Errorf("%s: %q is not snake_case", m.Name, name)
			}
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: help %q is not a sentence", m.Name, m.Help)
		}
		if m.Type == Gauge && strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a gauge and is called a total", m.Name)
		}
	}
}

// What the table says that a label can say is all of it: an enumeration that grew must be
// listed to its new end.
func TestEnumerationsAreWhole(t *testing.T) {
	for beyond, like := range map[string]string{(fetch.Superseded + 1).String(): "class ", (resolve.Gap + 1).String(): "reason ", (port.Full + 1).String(): "unknown class"} {
		if !strings.HasPrefix(beyond, like) {
			t.Errorf("the table does not list %q", beyond)
		}
	}
	for _, m := range Metrics() {
		for label, values := range m.Values {
			if !slices.Contains(m.Labels, label) || len(values) < 2 {
				t.Errorf("%s: label %s can say %q", m.Name, label, values)
			}
		}
	}
}

// The page for operators has the table.
func TestOperationsPageHasTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range Metrics() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.FullName(), m.Type, strings.Join(m.Labels, ", "), m.Help)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the metrics: %s ... %s", page, begin, end)
	}
	want := before + begin + b.String() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is not what the table says; run: go test ./cmd/internal/promhook -update", page)
	}
}

// use is one call that publishes a metric.
type use struct {
	at     string
	method string
	name   string
	labels []string
}

// publishes is which type of metric a method of the ports is for.
var publishes = map[string]Type{"Count": Counter, "Gauge": Gauge, "Observe": Histogram}

// What the sources publish is what the table declares, in both directions.
func TestTheSourcesUseTheTable(t *testing.T) {
	declared := map[string]Metric{}
	for _, m := range Metrics() {
		declared[m.Name] = m
	}
	used := map[string]bool{}
	for _, folder := range []string{"actors", "hooks", "registry", "supervision", "cmd"} {
		for _, u := range uses(t, filepath.Join(root, folder)) {
			used[u.name] = true
			m, ok := declared[u.name]
			switch {
			case u.name == "":
				t.Errorf("%s: the name of a metric and of its labels must be literals", u.at)
			case !ok:
				t.Errorf("%s: %s is not in the table of promhook", u.at, u.name)
			case publishes[u.method] != m.Type:
				t.Errorf("%s: %s is a %s", u.at, u.name, m.Type)
			case !slices.Equal(slices.Sorted(slices.Values(u.labels)), slices.Sorted(slices.Values(m.Labels))):
				t.Errorf("%s: %s has labels %v, the table says %v", u.at, u.name, u.labels, m.Labels)
			}
		}
	}
	for name := range maps.Keys(declared) {
		if !used[name] {
			t.Errorf("%s is in the table and nobody publishes it", name)
		}
	}
}

// uses finds calls of Count and Gauge as port.Metrics has them, outside of tests. A
// function that passes its own parameter on as the name is looked through: its callers
// in the same folder are what counts. A name that comes from a table is looked up there.
func uses(t *testing.T, folder string) (found []use) {
	t.Helper()
	files := map[string][]*ast.File{} // by folder
	fset := token.NewFileSet()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range files {
		through := map[string]wrapper{}
		for _, file := range in {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					found = append(found, direct(fset, f, lists(in), through)...)
				}
			}
		}
		for _, file := range in {
			found = append(found, indirect(fset, file, through)...)
		}
	}
	return found
}

// wrapper is a function that publishes under the name in one of its parameters.
type wrapper struct {
	use
	param int
}

// lists finds, by the name of the variable, what strings lead the rows of a folder's tables.
func lists(in []*ast.File) map[string][]string {
	out := map[string][]string{}
	for _, file := range in {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
				return true
			}
			rows, ok := spec.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			for _, e := range rows.Elts {
				if row, ok := e.(*ast.CompositeLit); ok && len(row.Elts) > 0 {
					if name, ok := literal(row.Elts[0]); ok {
						out[spec.Names[0].Name] = append(out[spec.Names[0].Name], name)
					}
				}
			}
			return true
		})
	}
	return out
}

// listed is what a name such as k.name takes in f, where k ranges over one of the tables.
func listed(f *ast.FuncDecl, name ast.Expr, tables map[string][]string) (names []string) {
	sel, ok := name.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	row, ok := sel.X.(*ast.Ident)
	if !ok {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if !ok {
			return true
		}
		value, isIdent := loop.Value.(*ast.Ident)
		over, isVar := loop.X.(*ast.Ident)
		if isIdent && isVar && value.Name == row.Name && loop.Pos() < name.Pos() && name.Pos() < loop.End() {
			names = append(names, tables[over.Name]...)
		}
		return true
	})
	return names
}

// direct finds the calls in f, and notes in through that f is a wrapper.
func direct(fset *token.FileSet, f *ast.FuncDecl, tables map[string][]string, through map[string]wrapper) (found []use) {
	ast.Inspect(f, func(n ast.Node) bool {
		u, name, ok := asUse(n)
		if !ok {
			return true
		}
		u.at = fset.Position(n.Pos()).String()
		if id, isIdent := name.(*ast.Ident); isIdent {
			if i := parameter(f, id.Name); i >= 0 {
				through[f.Name.Name] = wrapper{use: u, param: i}
				return true
			}
		}
		names := listed(f, name, tables)
		if len(names) == 0 {
			names = []string{u.name}
		}
		for u.name = range slices.Values(names) {
			found = append(found, u)
		}
		return true
	})
	return found
}

// indirect finds the calls of wrappers.
func indirect(fset *token.FileSet, file *ast.File, through map[string]wrapper) (found []use) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		w, ok := through[callee(call)]
		if ok && w.param < len(call.Args) {
			u := w.use
			u.at = fset.Position(n.Pos()).String()
			u.name, _ = literal(call.Args[w.param])
			found = append(found, u)
		}
		return true
	})
	return found
}

func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// parameter is the place of a parameter of f; -1 if it has none of that name.
func parameter(f *ast.FuncDecl, name string) int {
	i := 0
	for _, field := range f.Type.Params.List {
		for _, id := range field.Names {
			if id.Name == name {
				return i
			}
			i++
		}
	}
	return -1
}

// asUse reads a call that publishes, and returns the expression of its name; the use has
// a name only if that and all labels are literals.
func asUse(n ast.Node) (u use, name ast.Expr, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return use{}, nil, false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || isPackage(sel.X) {
		return use{}, nil, false
	}
	if _, ok := publishes[sel.Sel.Name]; !ok {
		return use{}, nil, false
	}
	u = use{method: sel.Sel.Name}
	if call.Ellipsis.IsValid() {
		return u, nil, true
	}
	for i := 2; i < len(call.Args); i += 2 {
		label, isLiteral := literal(call.Args[i])
		if !isLiteral {
			return u, nil, true
		}
		u.labels = append(u.labels, label)
	}
	u.name, _ = literal(call.Args[0])
	return u, call.Args[0], true
}

// isPackage reports whether x names one of the packages that have a Count of their own.
func isPackage(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && (id.Name == "strings" || id.Name == "bytes")
}

func literal(x ast.Expr) (string, bool) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
