package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a shell block of the documentation.
type block struct {
	file string
	line int
	text string
}

// key names a block by its file and first command.
func (b block) key() string {
	first, _, _ := strings.Cut(b.text, "\n")
	first, _, _ = strings.Cut(first, "#")
	return b.file + ": " + strings.TrimSpace(first)
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// blocks finds the shell blocks of the documentation. What is not meant to be run as it
// stands, on this machine, is fenced as console.
func blocks(t *testing.T) []block {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	must(t, err)
	var all []block
	for _, file := range append(files, filepath.Join(repository, "README.md")) {
		text, err := os.ReadFile(file)
		must(t, err)
		name, err := filepath.Rel(repository, file)
		must(t, err)
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			line := 1 + bytes.Count(text[:m[0]], []byte("\n"))
			switch language := string(text[m[2]:m[3]]); language {
			case "sh":
				all = append(all, block{name, line, string(text[m[4]:m[5]])})
			case "bash", "shell", "zsh":
				t.Errorf("%s:%d: fenced as %s: use sh for what a test runs, console for the rest", name, line, language)
			}
		}
	}
	return all
}

// documented is where the documentation's commands run: an empty folder, with the
// program, and stand-ins for make and for the address that everybody's node has.
type documented struct {
	t       *testing.T
	dir     string
	listen  string
	env     []string
	replace *strings.Replacer
}

// millraceSh is the program on the address of the test: the documented one is everybody's.
const millraceSh = `#!/bin/sh
case "$1 $2" in
"config check") exec %[1]s "$@" ;;
"run --config") { cat "$3"; printf '[admin]\nlisten = "%[2]s"\n'; } > here.toml; exec %[1]s run --config here.toml ;;
"run ") printf '[admin]\nlisten = "%[2]s"\n' > here.toml; exec %[1]s run --config here.toml ;;
*) exec %[1]s "$@" --admin http://%[2]s ;;
esac
`

// makeSh knows the targets of the Makefile. The program is built already; the others
// are not for a test to run.
const makeSh = `#!/bin/sh
for target; do
  grep -q "^$target:" %[1]s/Makefile || { echo "make: no target $target" >&2; exit 2; }
done
if [ "$1" = build ]; then mkdir -p bin && ln -sf %[2]s bin/millrace; fi
`

func newDocumented(t *testing.T, database string) *documented {
	t.Helper()
	d := &documented{t: t, dir: t.TempDir(), listen: freeAddress(t)}
	tools := t.TempDir()
	root, err := filepath.Abs(repository)
	must(t, err)
	program := filepath.Join(tools, "millrace")
	must(t, os.WriteFile(program, fmt.Appendf(nil, millraceSh, binary, d.listen), 0o755))
	must(t, os.WriteFile(filepath.Join(tools, "make"), fmt.Appendf(nil, makeSh, root, program), 0o755))
	d.env = []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "DATABASE=" + database}
	d.replace = strings.NewReplacer("127.0.0.1:7077", d.listen, "postgres://user@host:5432/database", database)
	return d
}

// start runs a block, in a process group of its own.
func (d *documented) start(b block, out *os.File) *process {
	d.t.Helper()
	cmd := exec.Command("sh", "-e", "-c", d.replace.Replace(b.text))
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, out, out
	cmd.Env = append(os.Environ(), d.env...)
	return begin(d.t, cmd)
}

// ends runs a block that ends by itself: each command succeeds, and something is said.
func ends(d *documented, b block) {
	d.t.Helper()
	out := d.output()
	code := d.start(b, out).wait(d.t, 30*time.Second)
	if said := d.said(out); code != 0 || said == "" && !strings.HasPrefix(b.text, "make") {
		d.t.Errorf("%s:%d: exit code %d: %s", b.file, b.line, code, said)
	}
}

// runs starts a block that ends with a node, and waits until that is ready. The node
// stops with the test.
func runs(d *documented, b block) {
	d.t.Helper()
	out := d.output()
	p := d.start(b, out)
	n := &node{t: d.t, listen: d.listen}
	d.t.Cleanup(func() { d.stop(p, n) })
	eventually(d.t, 30*time.Second, "the documented node is ready", func() (bool, string) {
		ready, reasons := n.reasons()
		return ready, reasons + d.said(out)
	})
}

// stop ends a block and what it started.
func (d *documented) stop(p *process, n *node) {
	d.t.Helper()
	must(d.t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM))
	p.wait(d.t, 11*time.Second)
	eventually(d.t, 11*time.Second, "the documented node is down", func() (bool, string) {
		status, said := n.get("/livez", "")
		return status == 0, said
	})
}

// follows runs a block that prints records until it is interrupted.
func follows(d *documented, b block) {
	d.t.Helper()
	out := d.output()
	p := d.start(b, out)
	eventually(d.t, 15*time.Second, "records are printed", func() (bool, string) {
		said := d.said(out)
		return strings.Count(said, "\n{\"offset\":") >= 3, said
	})
	must(d.t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT))
	p.wait(d.t, 5*time.Second)
	if said := d.said(out); strings.Contains(said, "millrace: ") {
		d.t.Errorf("%s:%d: %s", b.file, b.line, said)
	}
}

func (d *documented) output() *os.File {
	d.t.Helper()
	f, err := os.CreateTemp(d.t.TempDir(), "out")
	must(d.t, err)
	d.t.Cleanup(func() { f.Close() })
	return f
}

func (d *documented) said(f *os.File) string {
	d.t.Helper()
	b, err := os.ReadFile(f.Name())
	must(d.t, err)
	return string(b)
}

// TestDocumentedCommands runs every shell block of the documentation as it is written.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	slots <- struct{}{}
	defer func() { <-slots }()
	source := newDocumentedDatabase(t)
	main, alone := newDocumented(t, source.url), newDocumented(t, "")
	// In the order in which a user meets them: the node of the first serves the rest.
	steps := []struct {
		key string
		at  *documented
		run func(*documented, block)
	}{
		{"README.md: make demo", main, ends},
		{`README.md: export DATABASE="postgres://user@host:5432/database"`, main, runs},
		{"README.md: bin/millrace status shop", main, follows},
		{"docs/configuration.md: millrace config check millrace.toml", main, ends},
		{"docs/capture.md: millrace status shop", main, ends},
		{"docs/operations.md: millrace status", main, ends},
		{"docs/operations.md: millrace tree", main, ends},
		{"docs/operations.md: millrace tree restart node/tiering/governor", main, ends},
		{"docs/operations.md: millrace stream retention shop", main, ends},
		{"docs/operations.md: millrace tiering disable", main, ends},
		{"docs/reading.md: millrace read shop --from first --limit 10", main, ends},
		{`docs/reading.md: curl -sS -H "Authorization: Bearer $(cat millrace-data/admin.token)" \`, main, ends},
		{"docs/operations.md: millrace config check", alone, runs},
	}
	found := map[string]block{}
	for _, b := range blocks(t) {
		found[b.key()] = b
	}
	for _, step := range steps {
		b, ok := found[step.key]
		if !ok {
			t.Errorf("the documentation has no block %q any more", step.key)
			continue
		}
		delete(found, step.key)
		step.run(step.at, b)
	}
	for key, b := range found {
		t.Errorf("%s:%d: no test runs the block %q: add it to the steps, or fence it as console", b.file, b.line, key)
	}
}

// newDocumentedDatabase has tables and no publication: the documentation makes it.
func newDocumentedDatabase(t *testing.T) *database {
	t.Helper()
	server, err := clusters.get()
	must(t, err)
	return databaseOn(t, server, "CREATE TABLE orders (id int PRIMARY KEY, status text); INSERT INTO orders SELECT i, 'new' FROM generate_series(1, 20) i")
}
