package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/cmd/internal/httpadmin"
)

func newRegistryCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "registry [STREAM]",
		Short: "Show which process holds which name",
		Long:  "Show the names that processes hold on this node. With STREAM those of one stream's processes, held or not.",
		Args:  operands(0, "STREAM"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return ask(g, http.MethodGet, "/registry/"+url.PathEscape(args[0]), nil, showRegistry)
			}
			return ask(g, http.MethodGet, fmt.Sprintf("/registry?limit=%d", admin.MaxPage), nil, showRegistry)
		},
	}
}

func showRegistry(w io.Writer, p httpadmin.RegistryPage) {
	rows := [][]string{{"KIND", "OF", "STATE", "INCARNATION", "WAITING", "PATH"}}
	for _, e := range p.Names {
		of := e.ID
		if e.Label != "" {
			of = e.Label
		}
		rows = append(rows, []string{e.Kind, of, e.State, strconv.FormatUint(e.Incarnation, 10), strconv.Itoa(e.MailboxLen), e.Path})
	}
	table(w, rows)
	if left := p.Total - p.Offset - len(p.Names); left > 0 {
		fmt.Fprintf(w, "%d more: name a stream, or page with --json and curl, see docs/operations.md\n", left)
	}
}
