package arch

import (
	"fmt"
	"go/ast"
	"go/doc"
	"slices"
	"strings"
)

// Violation is one broken rule: which one, and where and how it is broken.
type Violation struct{ Rule, Text string }

func (v Violation) String() string { return v.Rule + ": " + v.Text }

// Check applies every rule on source files to files, and gives what breaks one,
// sorted.
func Check(files []File) []Violation {
	var out []Violation
	for _, f := range files {
		for _, rule := range []func(File) []Violation{imports, purity, goStatements, sleeps, skips} {
			out = append(out, rule(f)...)
		}
	}
	out = append(out, packageNames(files)...)
	out = append(out, packageComments(files)...)
	slices.SortFunc(out, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	return out
}

func broken(rule, format string, args ...any) []Violation {
	return []Violation{{Rule: rule, Text: fmt.Sprintf(format, args...)}}
}

// imports checks the import law, ours and third parties', and who may import testing.
func imports(f File) (out []Violation) {
	for imp, spec := range f.imports {
		if spec.Name != nil && spec.Name.Name == "." {
			out = append(out, broken("dot import", "%s: %s is imported without a name, which hides what is whose", f.at(spec), imp)...)
		}
		switch first, _, _ := strings.Cut(imp, "/"); {
		case first == Module:
			if local := strings.TrimPrefix(imp, Module+"/"); !lawful(f, local) {
				out = append(out, broken("import law", "%s: %s may not import %s", f.at(spec), f.Folder, local)...)
			}
		case strings.Contains(first, "."):
			if !allied(f, imp) {
				out = append(out, broken("third party", "%s: %s may not import %s", f.at(spec), f.Folder, imp)...)
			}
		case match(testOnly, imp):
			if !f.IsTest() && !under("test", f.Folder) {
				out = append(out, broken("testing", "%s: %s is for test/ and _test.go files", f.at(spec), imp)...)
			}
		case !f.IsTest() && match(pure, f.Folder) && !match(pureStd, imp):
			out = append(out, broken("purity", "%s: a pure folder may not import %s", f.at(spec), imp)...)
		}
	}
	return out
}

// lawful reports whether f may import our folder imp.
func lawful(f File, imp string) bool {
	if f.IsTest() {
		for _, r := range append(inTests, row{f.Folder, f.Folder}) {
			if match(r.folder, f.Folder) && match(r.may, imp) {
				return true
			}
		}
	}
	for _, r := range law {
		if match(r.folder, f.Folder) {
			return match(r.may, imp)
		}
	}
	return false
}

// allied reports whether f may import imp, which is not ours.
func allied(f File, imp string) bool {
	for _, r := range thirdParty {
		if under(r.folder, imp) {
			return match(r.may, f.Folder) || f.IsTest() && (match(anywhereInTests, r.folder) || isTheirs(f, r.folder))
		}
	}
	return false
}

// isTheirs reports whether the tests of f's folder may import a module.
func isTheirs(f File, module string) bool {
	for _, r := range inTheirTests {
		if r.folder == module && match(r.may, f.Folder) {
			return true
		}
	}
	return false
}

// purity checks that a pure folder holds no goroutine, channel or clock.
func purity(f File) (out []Violation) {
	if f.IsTest() || !match(pure, f.Folder) {
		return nil
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		what, impure := f.uses(n, "time", clock)
		switch n := n.(type) {
		case *ast.GoStmt:
			what, impure = "a goroutine", true
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			what, impure = "a channel", true
		case *ast.UnaryExpr:
			if n.Op.String() == "<-" {
				what, impure = "a channel", true
			}
		}
		if impure {
			out = append(out, broken("purity", "%s: a pure folder holds %s", f.at(n), what)...)
		}
		return true
	})
	return out
}

// goStatements checks that supervised folders start no goroutine of their own.
func goStatements(f File) (out []Violation) {
	if f.IsTest() || !match(supervised, f.Folder) {
		return nil
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			out = append(out, broken("bare go", "%s: start it with Context.Task, which recovers and accounts for it", f.at(n))...)
		}
		return true
	})
	return out
}

// sleeps checks that no test waits for a real clock.
func sleeps(f File) (out []Violation) {
	if !f.IsTest() && !under("test", f.Folder) || match(maySleep, f.Folder) {
		return nil
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if _, ok := f.uses(n, "time", "Sleep"); ok {
			out = append(out, broken("sleep", "%s: wait for what you expect, or use a testing/synctest bubble", f.at(n))...)
		}
		return true
	})
	return out
}

// skips checks that no test leaves itself out: what a test needs is installed.
func skips(f File) (out []Violation) {
	if !f.IsTest() {
		return nil
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if ok && match("Skip Skipf SkipNow", sel.Sel.Name) && match("t b f tb", receiver(sel)) {
			out = append(out, broken("skip", "%s: a test that skips proves nothing", f.at(n))...)
		}
		return true
	})
	return out
}

func receiver(sel *ast.SelectorExpr) string {
	if x, ok := sel.X.(*ast.Ident); ok {
		return x.Name
	}
	return ""
}

// packageNames checks that no two folders hold packages of one name, so that an
// importer never has to rename and a search finds one thing.
func packageNames(files []File) (out []Violation) {
	owner := map[string]string{}
	for _, f := range files {
		name := f.Package()
		other, taken := owner[name]
		switch {
		case name == "main":
		case !taken:
			owner[name] = f.Folder
		case other != f.Folder:
			owner[name] = f.Folder
			out = append(out, broken("package name", "%s and %s are both package %s", other, f.Folder, name)...)
		}
	}
	return out
}

// packageComments checks that each package has one comment, in doc.go unless it
// is a program, that begins with its name.
func packageComments(files []File) (out []Violation) {
	comments := map[string][]File{}
	for _, f := range files {
		if f.IsTest() {
			continue
		}
		if f.AST.Doc != nil {
			comments[f.Folder] = append(comments[f.Folder], f)
		} else if comments[f.Folder] == nil {
			comments[f.Folder] = []File{}
		}
	}
	for folder, with := range comments {
		switch {
		case len(with) == 0:
			out = append(out, broken("package comment", "%s has none", folder)...)
		case len(with) > 1:
			out = append(out, broken("package comment", "%s has one in %s and one in %s", folder, with[0].Name, with[1].Name)...)
		default:
			out = append(out, commentForm(with[0])...)
		}
	}
	return out
}

func commentForm(f File) []Violation {
	begins, in := "Package "+f.Package()+" ", "doc.go"
	if f.Package() == "main" {
		begins, in = "Command "+f.Folder[strings.LastIndex(f.Folder, "/")+1:]+" ", ""
	}
	if !strings.HasPrefix(f.AST.Doc.Text(), begins) {
		return broken("package comment", "%s: it must begin with %q", f.Name, begins)
	}
	if in != "" && !strings.HasSuffix(f.Name, "/"+in) {
		return broken("package comment", "%s: it belongs in %s", f.Name, in)
	}
	return nil
}

// Synopses gives for each folder of files the first sentence of its package
// comment, without the words "Package x" or "Command x".
func Synopses(files []File) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		if f.IsTest() || f.AST.Doc == nil {
			continue
		}
		words := strings.SplitN(new(doc.Package).Synopsis(f.AST.Doc.Text()), " ", 3)
		out[f.Folder] = strings.TrimSuffix(words[len(words)-1], ".")
	}
	return out
}

// Requirements checks that the modules which gomod requires directly and those of
// the table of third parties are the same.
func Requirements(gomod string) (out []Violation) {
	listed := map[string]bool{}
	for _, r := range thirdParty {
		listed[r.folder] = true
	}
	for line := range strings.Lines(gomod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "v") || strings.Contains(line, "// indirect") {
			continue
		}
		if !listed[fields[0]] {
			out = append(out, broken("third party", "go.mod requires %s, which the table of test/arch lacks", fields[0])...)
		}
		delete(listed, fields[0])
	}
	for module := range listed {
		out = append(out, broken("third party", "the table of test/arch has %s, which go.mod does not require", module)...)
	}
	return out
}
