package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
)

func newTieringCommand(g *globals) *cobra.Command {
	command := func(use, short, long, method, path string) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Long: long, Args: operands(0),
			RunE: func(*cobra.Command, []string) error { return ask(g, method, path, nil, showTiering) },
		}
	}
	return group("tiering", "Stop and start uploading to the object store",
		command("disable", "Stop uploading, and keep it stopped",
			"Stop the tiering tree. Nothing is deleted; streams go on being written and read from local disk. Reads below what is\n"+
				"on local disk say that tiering is disabled. The wish outlives a restart of the node and wins over its configuration.",
			http.MethodPost, "/tiering/disable"),
		command("enable", "Start uploading again",
			"Start the tiering tree, which finds the running streams and goes on where each one's manifest ends.",
			http.MethodPost, "/tiering/enable"),
		command("status", "Show whether tiering is wanted, and whether it runs", "", http.MethodGet, "/tiering"),
	)
}

func showTiering(w io.Writer, t admin.Tiering) {
	wish := "disabled"
	if t.Enabled {
		wish = "enabled"
	}
	fmt.Fprintf(w, "tiering is %s by the %s\n", wish, t.By)
	if t.Enabled && t.State != wish {
		fmt.Fprintf(w, "it is %s\n", t.State)
	}
}
