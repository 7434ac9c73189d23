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
		&cobra.Command{
			Use: "claim", Short: "Say that the store's prefix is this cluster's, although its marker is gone or damaged",
			Long: "Put the marker that names this cluster as the owner of store.prefix where it is missing or damaged, so that uploads and\n" +
				"deletions go on. Say it only when the store that the node is on is the one that shall be used: after its objects were\n" +
				"brought back without the marker, or when they are given up. A prefix of another cluster is refused.",
			Args: operands(0),
			RunE: func(*cobra.Command, []string) error { return ask(g, http.MethodPost, "/tiering/claim", nil, showClaim) },
		},
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

func showClaim(w io.Writer, c admin.StoreClaim) {
	done := "was there already and names"
	if c.Restored {
		done = "was put and names"
	}
	fmt.Fprintf(w, "the prefix is this cluster's: the marker %s of %s %s cluster %s\n", c.Marker, c.Store, done, c.Cluster)
}
