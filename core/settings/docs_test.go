package settings

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew from the table")

const page = "../../docs/configuration.md"

// docs/configuration.md is the table, printed.
func TestConfigurationPageIsTheTable(t *testing.T) {
	want := render()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table says; run: go test ./core/settings -update", page)
	}
}

const intro = `# Configuration

Millrace reads one TOML file, named with ` + "`--config FILE`" + `. Without it the defaults below hold. A key that is not on this
page is refused, with its line and the nearest key that exists; so is a value outside its bounds.

` + "```sh" + `
millrace config check millrace.toml
` + "```" + `

A size is a whole number of bytes, or a string with a unit: ` + "`\"64MiB\"`, `\"500MB\"`" + `. A duration is a string: ` + "`\"250ms\"`, `\"5m\"`,\n`\"36h\"`, `\"30d\"`" + `.
A relative path is taken from the working directory of the node.

This page is generated from the table in ` + "`core/settings`" + `; a test compares them.

## All keys with their defaults

`

func render() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("```toml\n" + sample() + "```\n")
	for _, s := range Sections() {
		title := "[" + s.Name + "]"
		if s.Name == SectionCapture {
			title = "[" + title + "]"
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | type | allowed | default | meaning |\n| --- | --- | --- | --- | --- |\n", title, s.Doc)
		for _, f := range Fields() {
			if f.Section == s.Name {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, strings.ReplaceAll(f.Bound(), "|", `\|`), defaultOf(f), meaning(f))
			}
		}
	}
	return b.String()
}

func meaning(f Field) string {
	if f.Of == "" {
		return f.Doc
	}
	return fmt.Sprintf("With `kind = \"%s\"` only. %s", f.Of, f.Doc)
}

func defaultOf(f Field) string {
	if f.Default == "" {
		return "none"
	}
	return "`" + f.Default + "`"
}

// sample is a file that sets every key of the node to its default, those of the S3 store apart.
func sample() string {
	var b strings.Builder
	for _, s := range Sections() {
		if s.Name == SectionCapture {
			b.WriteString("\n# One block for each captured database:\n# [[capture]]\n# name = \"shop\"\n# url_file = \"/etc/millrace/shop.url\"\n")
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[%s]\n", s.Name)
		for _, f := range Fields() {
			if f.Section == s.Name && f.Of != StoreS3 {
				fmt.Fprintf(&b, "%s = %s\n", f.Name, literal(f))
			}
		}
		if s.Name == "store" {
			b.WriteString("\n# Or a bucket instead of a directory:\n# [store]\n# kind = \"s3\"\n# bucket = \"acme-millrace\"\n# region = \"eu-central-1\"\n")
		}
	}
	return b.String()
}

func literal(f Field) string {
	text := strings.ReplaceAll(f.Default, "<data_dir>", Default().Node.DataDir)
	if f.Kind == Flag || f.Kind == Count || text == "0" {
		return text
	}
	return `"` + text + `"`
}
