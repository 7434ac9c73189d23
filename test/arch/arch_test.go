package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestThisRepositoryKeepsTheRules(t *testing.T) {
	files := tree(t)
	for _, v := range Check(files) {
		t.Error(v)
	}
	if len(files) < 50 {
		t.Errorf("only %d files were read: is %s the root of the repository?", len(files), root)
	}
}

func TestRequiredModulesAreThoseOfTheTable(t *testing.T) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Requirements(string(gomod)) {
		t.Error(v)
	}
}

func TestEachRowOfTheLawHasItsFolder(t *testing.T) {
	folders := Synopses(tree(t))
	for _, r := range law {
		found := false
		for folder := range folders {
			found = found || match(r.folder, folder)
		}
		if !found {
			t.Errorf("no folder fits the row %q of the law: take it out", r.folder)
		}
	}
}

// plants breaks each rule once; ok are near misses that must pass.
var plants = []struct {
	name, file, text string
	rule, says       string // "" when nothing is broken
}{
	{"core imports a role", "core/pos/a.go", `package pos; import "millrace/actors/writer"; var _ = writer.X`, "import law", "core/pos may not import actors/writer"},
	{"core imports a port", "core/chunk/a.go", `package chunk; import _ "millrace/actors/port"`, "import law", "may not import actors/port"},
	{"core imports a lock", "core/chunk/a.go", `package chunk; import "sync"; var mu sync.Mutex`, "purity", "may not import sync"},
	{"core imports the disk", "core/chunk/a.go", `package chunk; import _ "os"`, "purity", "may not import os"},
	{"core imports io", "core/chunk/a.go", `package chunk; import _ "io"`, "purity", "may not import io"},
	{"core imports a context", "core/chunk/a.go", `package chunk; import _ "context"`, "purity", "may not import context"},
	{"core starts a goroutine", "core/chunk/a.go", `package chunk; func f() { go f() }`, "purity", "holds a goroutine"},
	{"core makes a channel", "core/chunk/a.go", `package chunk; var c = make(chan int)`, "purity", "holds a channel"},
	{"core receives from a channel", "core/chunk/a.go", `package chunk; func f() { <-c }`, "purity", "holds a channel"},
	{"core selects", "core/chunk/a.go", `package chunk; func f() { select {} }`, "purity", "holds a channel"},
	{"core reads the clock", "core/chunk/a.go", `package chunk; import "time"; var t = time.Now()`, "purity", "holds time.Now"},
	{"core reads the clock under another name", "core/chunk/a.go", `package chunk; import c "time"; var now = c.Since`, "purity", "holds time.Since"},
	{"supervision's decisions read the clock", "supervision/decide/a.go", `package decide; import "time"; var t = time.Now()`, "purity", "holds time.Now"},
	{"supervision's decisions know the runtime", "supervision/decide/a.go", `package decide; import _ "millrace/actors"`, "import law", "may not import actors"},
	{"a role imports a role", "actors/reader/a.go", `package reader; import _ "millrace/actors/writer"`, "import law", "may not import actors/writer"},
	{"a role's test imports a role", "actors/reader/a_test.go", `package reader; import _ "millrace/actors/writer"`, "import law", "may not import actors/writer"},
	{"a role imports the tree", "actors/reader/a.go", `package reader; import _ "millrace/actors/node"`, "import law", "may not import actors/node"},
	{"a role imports an adapter", "actors/writer/a.go", `package writer; import _ "millrace/cmd/internal/osdisk"`, "import law", "may not import cmd/internal/osdisk"},
	{"a role imports a fake", "actors/writer/a.go", `package writer; import _ "millrace/test/fake/fakedisk"`, "import law", "may not import test/fake/fakedisk"},
	{"the runtime knows streams", "actors/a.go", `package actors; import _ "millrace/core/segment"`, "import law", "may not import core/segment"},
	{"the registry knows streams", "registry/a.go", `package registry; import _ "millrace/core/segment"`, "import law", "may not import core/segment"},
	{"supervision knows streams", "supervision/a.go", `package supervision; import _ "millrace/hooks"`, "import law", "may not import hooks"},
	{"an adapter imports a role", "cmd/internal/osdisk/a.go", `package osdisk; import _ "millrace/actors/writer"`, "import law", "may not import actors/writer"},
	{"an adapter imports an adapter", "cmd/internal/osdisk/a.go", `package osdisk; import _ "millrace/cmd/internal/dirstore"`, "import law", "may not import cmd/internal/dirstore"},
	{"a test imports an adapter", "test/sim/a.go", `package sim; import _ "millrace/cmd/internal/osdisk"`, "import law", "may not import cmd/internal/osdisk"},
	{"a folder without a row", "util/a.go", `package util; import _ "millrace/core/pos"`, "import law", "util may not import core/pos"},
	{"a module in the wrong folder", "actors/writer/a.go", `package writer; import _ "github.com/asynkron/protoactor-go/actor"`, "third party", "may not import github.com/asynkron"},
	{"a module that has no row", "cmd/millrace/a.go", `package main; import _ "github.com/stretchr/testify/assert"`, "third party", "may not import github.com/stretchr"},
	{"a property library in production", "core/chunk/a.go", `package chunk; import _ "pgregory.net/rapid"`, "third party", "may not import pgregory.net/rapid"},
	{"a rival in production", "supervision/a.go", `package supervision; import _ "github.com/thejerf/suture/v4"`, "third party", "may not import github.com/thejerf"},
	{"a rival in another's tests", "registry/a_test.go", `package registry; import _ "github.com/thejerf/suture/v4"`, "third party", "may not import github.com/thejerf"},
	{"testing in production", "hooks/a.go", `package hooks; import _ "testing"`, "testing", "testing is for test/"},
	{"synctest in production", "cmd/millrace/a.go", `package main; import _ "testing/synctest"`, "testing", "testing/synctest is for test/"},
	{"a bare goroutine in a role", "actors/writer/a.go", `package writer; func f() { go f() }`, "bare go", "actors/writer/a.go:1"},
	{"a bare goroutine in supervision", "supervision/a.go", `package supervision; func f() { go func() {}() }`, "bare go", "supervision/a.go:1"},
	{"a bare goroutine in hooks", "hooks/a.go", `package hooks; func f() { go f() }`, "bare go", "hooks/a.go:1"},
	{"a sleeping test", "core/chunk/a_test.go", `package chunk; import "time"; func f() { time.Sleep(1) }`, "sleep", "core/chunk/a_test.go:1"},
	{"a sleeping contract suite", "test/porttest/disktest/a.go", `package disktest; import "time"; func f() { time.Sleep(1) }`, "sleep", "test/porttest/disktest/a.go:1"},
	{"a skipping test", "core/chunk/a_test.go", `package chunk; func f() { t.Skip("no time") }`, "skip", "core/chunk/a_test.go:1"},
	{"a dot import", "core/chunk/a.go", `package chunk; import . "time"`, "dot import", "time is imported without a name"},

	{"core imports core", "core/chunk/a.go", `package chunk; import _ "millrace/core/pos"`, "", ""},
	{"core uses the types of time", "core/chunk/a.go", `package chunk; import "time"; var d = time.Second; var t time.Duration`, "", ""},
	{"a test of core reads files", "core/chunk/a_test.go", `package chunk; import _ "os"; func f() { go f() }`, "", ""},
	{"a test uses rapid and a fake", "actors/writer/a_test.go", `package writer_test; import (_ "millrace/actors/writer"; _ "pgregory.net/rapid"; _ "millrace/test/fake/fakedisk"; _ "testing")`, "", ""},
	{"the runtime starts goroutines", "actors/a.go", `package actors; import _ "github.com/asynkron/protoactor-go/actor"; func f() { go f() }`, "", ""},
	{"the tree imports roles", "actors/node/a.go", `package node; import (_ "millrace/actors/writer"; _ "millrace/supervision")`, "", ""},
	{"a rival in the tests of supervision", "supervision/a_test.go", `package supervision; import _ "github.com/thejerf/suture/v4"`, "", ""},
	{"a fake sleeps", "test/fake/fakedisk/a.go", `package fakedisk; import "time"; func f() { time.Sleep(1) }`, "", ""},
	{"a suite imports testing", "test/porttest/disktest/a.go", `package disktest; import _ "testing"`, "", ""},
	{"skip is another thing's method", "core/chunk/a_test.go", `package chunk; func f() { cursor.Skip() }`, "", ""},
}

func TestPlantedViolationsAreCaught(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			f, err := Parse(p.file, []byte(p.text))
			if err != nil {
				t.Fatal(err)
			}
			want := []Violation{}
			got := slices.DeleteFunc(Check([]File{f}), func(v Violation) bool { return v.Rule == "package comment" })
			switch {
			case p.rule == "" && len(got) > 0:
				t.Errorf("got %v, want none", got)
			case p.rule != "" && (len(got) != 1 || got[0].Rule != p.rule || !strings.Contains(got[0].Text, p.says)):
				t.Errorf("got %v, want one of %q that says %q", append(want, got...), p.rule, p.says)
			}
		})
	}
}

func TestViolationsOfSeveralFilesAreCaught(t *testing.T) {
	const doc = "// Package chunk is about chunks.\npackage chunk"
	for name, c := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"two packages of one name": {
			map[string]string{"core/chunk/doc.go": doc, "actors/chunk/doc.go": doc},
			[]string{"package name: core/chunk and actors/chunk are both package chunk"},
		},
		"no package comment": {
			map[string]string{"core/chunk/a.go": "package chunk"},
			[]string{"package comment: core/chunk has none"},
		},
		"two package comments": {
			map[string]string{"core/chunk/doc.go": doc, "core/chunk/z.go": doc},
			[]string{"package comment: core/chunk has one in core/chunk/doc.go and one in core/chunk/z.go"},
		},
		"a comment that names another": {
			map[string]string{"core/chunk/doc.go": "// Package block is about chunks.\npackage chunk"},
			[]string{`package comment: core/chunk/doc.go: it must begin with "Package chunk "`},
		},
		"a comment that no one finds": {
			map[string]string{"core/chunk/chunk.go": doc},
			[]string{"package comment: core/chunk/chunk.go: it belongs in doc.go"},
		},
		"a program's comment": {
			map[string]string{"cmd/millrace/main.go": "// Command millrace runs.\npackage main", "test/demo/main.go": "// Package main runs.\npackage main"},
			[]string{`package comment: test/demo/main.go: it must begin with "Command demo "`},
		},
		"nothing": {map[string]string{"core/chunk/doc.go": doc, "core/chunk/a.go": "package chunk", "core/chunk/a_test.go": "package chunk_test"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var files []File
			for _, file := range []string{"core/chunk/doc.go", "core/chunk/a.go", "core/chunk/a_test.go", "core/chunk/chunk.go", "core/chunk/z.go", "actors/chunk/doc.go", "cmd/millrace/main.go", "test/demo/main.go"} {
				if text, ok := c.files[file]; ok {
					f, err := Parse(file, []byte(text))
					if err != nil {
						t.Fatal(err)
					}
					files = append(files, f)
				}
			}
			var got []string
			for _, v := range Check(files) {
				got = append(got, v.String())
			}
			if !slices.Equal(got, c.says) {
				t.Errorf("got  %q\nwant %q", got, c.says)
			}
		})
	}
}

func TestRequirementsSeesBothDirections(t *testing.T) {
	got := Requirements("require example.com/new v1.0.0\nrequire (\n\tgithub.com/rs/zerolog v1.35.1\n\texample.com/far v1.0.0 // indirect\n)\n")
	var added, gone int
	for _, v := range got {
		switch {
		case strings.Contains(v.Text, "requires example.com/new,"):
			added++
		case strings.HasSuffix(v.Text, "which go.mod does not require"):
			gone++
		default:
			t.Errorf("unexpected: %s", v)
		}
	}
	if added != 1 || gone != len(thirdParty)-1 {
		t.Errorf("%d new and %d gone, want 1 and %d: %v", added, gone, len(thirdParty)-1, got)
	}
}

func tree(t *testing.T) []File {
	files, err := ReadTree(root)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
