package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"millrace/cmd/internal/configfile"
	"millrace/core/settings"
)

// globals are the flags of every command, and where it writes.
type globals struct {
	config    string
	admin     string
	tokenFile string
	json      bool
	out       io.Writer // JSON and records, as they are
	err       io.Writer // words
	log       io.Writer // the node's own
}

// text is where words go.
func (g *globals) text() io.Writer { return plain{g.out} }

// settings reads the configuration without its secrets: what a command needs that talks
// to a node.
func (g *globals) settings() (settings.Settings, error) {
	s, err := configfile.Read(g.config)
	if err != nil {
		return s, &failure{err: err, hint: "the keys are listed in docs/configuration.md"}
	}
	return s, nil
}

// reaching is the flags that reach the same node again, each with a space before it.
func (g *globals) reaching() string {
	text := ""
	for _, f := range []struct{ name, value string }{{"config", g.config}, {"admin", g.admin}, {"token-file", g.tokenFile}} {
		if f.value != "" {
			text += " --" + f.name + " " + quoted(f.value)
		}
	}
	return text
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r) || r >= utf8.RuneSelf
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "millrace",
		Short: "PostgreSQL's commits as a stream, in files and an object store",
		Long: "Millrace takes what happens in PostgreSQL into append-only streams, keeps a window of each on\n" +
			"local disk and all of it in an object store, and reads any offset back.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(g.out)
	root.SetErr(g.err)
	flags := root.PersistentFlags()
	flags.StringVar(&g.config, "config", "", "configuration `FILE` (default: embedded defaults)")
	flags.StringVar(&g.admin, "admin", "", "`URL` of the node's admin surface (default: from the configuration)")
	flags.StringVar(&g.tokenFile, "token-file", "", "`FILE` of the admin token (default: from the configuration)")
	flags.BoolVar(&g.json, "json", false, "print JSON")
	root.AddCommand(
		newRunCommand(g),
		newStatusCommand(g),
		newStreamsCommand(g),
		newStreamCommand(g),
		newReadCommand(g),
		newTreeCommand(g),
		newRegistryCommand(g),
		newEventsCommand(g),
		newTieringCommand(g),
		newConfigCommand(g),
		newVersionCommand(g),
	)
	return root
}

// operands checks that a command got what names lists, of which the first few are required.
func operands(required int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return fmt.Errorf("%q is one operand too many", args[len(names)])
		case len(args) < required:
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		return nil
	}
}

// named is the command that args name, for the help to point at.
func named(root *cobra.Command, args []string) string {
	if c, _, err := root.Find(args); err == nil {
		return c.CommandPath()
	}
	return root.CommandPath()
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: operands(0), RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}
