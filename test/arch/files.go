package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// File is one parsed Go file.
type File struct {
	Name   string // slash-separated, from the root of the repository
	Folder string // of Name; "." is the root
	AST    *ast.File
	fset   *token.FileSet
}

// Parse reads the text of one file.
func Parse(name string, text []byte) (File, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, fmt.Errorf("parse %s: %w", name, err)
	}
	return File{Name: name, Folder: path.Dir(name), AST: tree, fset: fset}, nil
}

// ReadTree parses every Go file below root but those in testdata, zz and hidden folders.
func ReadTree(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && (d.Name() == "testdata" || d.Name() == "zz" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		parsed, err := Parse(filepath.ToSlash(name), text)
		files = append(files, parsed)
		return err
	})
	return files, err
}

// IsTest reports whether the file is compiled for tests only.
func (f File) IsTest() bool { return strings.HasSuffix(f.Name, "_test.go") }

// Package is the name of the package that the file belongs to or, when it is an
// external test, of the package it tests.
func (f File) Package() string {
	if f.IsTest() {
		return strings.TrimSuffix(f.AST.Name.Name, "_test")
	}
	return f.AST.Name.Name
}

// at prints where n stands.
func (f File) at(n ast.Node) string {
	return f.Name + ":" + strconv.Itoa(f.fset.Position(n.Pos()).Line)
}

// imports are the paths the file imports, each with the node that says so.
func (f File) imports(yield func(string, *ast.ImportSpec) bool) {
	for _, spec := range f.AST.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(imp, spec) {
			return
		}
	}
}

// called is the name under which the file knows the package imp: "" if it does
// not import it.
func (f File) called(imp string) string {
	for p, spec := range f.imports {
		switch {
		case p != imp:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path.Base(imp)
		}
	}
	return ""
}

// uses reports whether n names one of the given names of the package imp.
func (f File) uses(n ast.Node, imp, names string) (string, bool) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Name == "_" || x.Name != f.called(imp) || !match(names, sel.Sel.Name) {
		return "", false
	}
	return path.Base(imp) + "." + sel.Sel.Name, true
}

// match reports whether name fits one of the space-separated patterns.
func match(patterns, name string) bool {
	for p := range strings.FieldsSeq(patterns) {
		if top, deep := strings.CutSuffix(p, "/..."); deep && under(top, name) {
			return true
		}
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

// under reports whether name is top or below it.
func under(top, name string) bool { return name == top || strings.HasPrefix(name, top+"/") }
