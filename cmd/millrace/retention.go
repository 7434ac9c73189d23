package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/cmd/internal/httpadmin"
	"millrace/core/settings"
)

// theDefault is what takes a stream's own bound away.
const theDefault = "default"

func newRetentionCommand(g *globals) *cobra.Command {
	var maxBytes, maxAge, localMax, localMin string
	c := &cobra.Command{
		Use:   "retention NAME",
		Short: "Show or change how much of a stream is kept",
		Long: "Change a stream's own bounds, at once and for good; without a flag, show what bounds it. A bound that is looser than\n" +
			"the node's configuration has no effect. \"default\" takes the stream's own bound away.",
		Args: operands(1, "NAME"),
		RunE: func(_ *cobra.Command, names []string) error {
			var req httpadmin.RetentionRequest
			var err error
			for _, b := range []struct {
				flag, text string
				bound      *httpadmin.Bound[int64]
			}{{"max-bytes", maxBytes, &req.MaxBytes}, {"local-max-bytes", localMax, &req.LocalMaxBytes}, {"local-min-bytes", localMin, &req.LocalMinBytes}} {
				if *b.bound, err = bound(b.text, settings.ParseSize); err != nil {
					return fmt.Errorf("--%s %w", b.flag, err)
				}
			}
			if req.MaxAge, err = bound(maxAge, age); err != nil {
				return fmt.Errorf("--max-age %w", err)
			}
			return ask(g, http.MethodPut, streamPath(names[0])+"/retention", req, showRetention)
		},
	}
	flags := c.Flags()
	flags.StringVar(&maxBytes, "max-bytes", "", "most bytes of the stream over both tiers, a `SIZE` such as 64GiB")
	flags.StringVar(&maxAge, "max-age", "", "drop what is older, an `AGE` such as 36h or 7d")
	flags.StringVar(&localMax, "local-max-bytes", "", "most bytes on local disk, uploaded or not, a `SIZE`")
	flags.StringVar(&localMin, "local-min-bytes", "", "newest bytes that stay on local disk although they are uploaded, a `SIZE`")
	return c
}

// bound reads a flag: not given, "default", or a value.
func bound[T any](text string, parse func(string) (T, error)) (b httpadmin.Bound[T], err error) {
	if text == "" {
		return b, nil
	}
	b.Given = true
	if text == theDefault {
		return b, nil
	}
	v, err := parse(text)
	b.Value = &v
	return b, err
}

func age(text string) (httpadmin.Age, error) {
	d, err := settings.ParseSpan(text)
	return httpadmin.Age(d), err
}

func showRetention(w io.Writer, r admin.RetentionStatus) {
	size := func(n int64) string {
		if n == 0 {
			return "no bound"
		}
		return settings.FormatSize(n)
	}
	keep := "no bound"
	if r.Effective.MaxAge > 0 {
		keep = settings.FormatSpan(r.Effective.MaxAge)
	}
	rows := [][]string{
		{"stream", r.Stream},
		{"max-bytes", size(r.Effective.MaxBytes)},
		{"max-age", keep},
		{"local-max-bytes", size(r.Effective.LocalMaxBytes)},
		{"local-min-bytes", settings.FormatSize(r.Effective.LocalMinBytes)},
	}
	for _, name := range sortedKeys(r.Own) {
		rows = append(rows, []string{"its own", name + " = " + r.Own[name]})
	}
	if !r.Applied {
		rows = append(rows, []string{"stored", "its log does not run; the bounds hold once it does"})
	}
	for _, note := range r.Notes {
		rows = append(rows, []string{"note", note})
	}
	table(w, rows)
}
