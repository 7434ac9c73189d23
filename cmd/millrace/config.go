package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"millrace/cmd/internal/configfile"
)

func newConfigCommand(g *globals) *cobra.Command {
	return group("config", "Check a configuration", &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration, with the files and environment variables it refers to",
		Args:  operands(0, "FILE"),
		RunE: func(_ *cobra.Command, files []string) error {
			path := g.config
			if len(files) == 1 {
				path = files[0]
			}
			return checkConfig(g, path)
		},
	})
}

func checkConfig(g *globals, path string) error {
	s, err := configfile.Load(path)
	if err != nil {
		return &failure{err: err, hint: "the keys are listed in docs/configuration.md"}
	}
	name := path
	if name == "" {
		name = "embedded defaults"
	}
	if g.json {
		return printJSON(g, struct {
			File     string   `json:"file"`
			OK       bool     `json:"ok"`
			Captures int      `json:"captures"`
			Warnings []string `json:"warnings"`
		}{name, true, len(s.Captures), append([]string{}, s.Warnings...)})
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(g.err, "millrace: warning: %s\n", w)
	}
	fmt.Fprintf(g.text(), "%s: ok, %s\n", name, count(len(s.Captures), "capture"))
	return nil
}

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  operands(0),
		RunE: func(*cobra.Command, []string) error {
			if g.json {
				return printJSON(g, map[string]string{"version": version(), "go": runtime.Version()})
			}
			fmt.Fprintf(g.out, "millrace %s, %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// version is the module's version, and the commit it was built from if that is known.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			v += " " + s.Value[:12]
		}
	}
	return v
}

func printJSON(g *globals, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = g.out.Write(append(b, '\n'))
	}
	return printed(err)
}
