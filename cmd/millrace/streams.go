package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/cmd/internal/httpadmin"
)

// streamList is the answer of /streams.
type streamList struct {
	Streams []admin.StreamStatus `json:"streams"`
}

func newStreamsCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "streams",
		Short: "List the streams",
		Args:  operands(0),
		RunE: func(*cobra.Command, []string) error {
			return ask(g, http.MethodGet, "/streams", nil, func(w io.Writer, l streamList) { showStreams(w, l.Streams) })
		},
	}
}

func showStreams(w io.Writer, streams []admin.StreamStatus) {
	if len(streams) == 0 {
		fmt.Fprintln(w, "no streams; create one with: millrace stream create NAME, or configure a capture")
		return
	}
	rows := [][]string{{"STREAM", "STATE", "FIRST", "NEXT", "LOCAL FROM", "LOCAL", "STORED TO", "STORED"}}
	for _, s := range streams {
		first, seam, stored := s.First.String(), s.SeamNext.String(), size(s.RemoteBytes)
		if s.RemoteState == admin.RemoteUnknown {
			seam, stored = "unknown", "unknown"
			if !s.First.Valid() {
				first = "unknown"
			}
		}
		rows = append(rows, []string{
			s.Name, s.State, first, s.Next.String(), s.LocalFirst.String(), size(s.LocalBytes), seam, stored,
		})
	}
	table(w, rows)
	for _, s := range streams {
		if s.RemoteState == admin.RemoteUnknown {
			fmt.Fprintf(w, "what the object store holds of %s is not known: %s\n", s.Name, s.RemoteWhy)
		}
	}
}

func newStreamCommand(g *globals) *cobra.Command {
	var args []string
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a stream",
		Args:  operands(1, "NAME"),
		RunE: func(_ *cobra.Command, names []string) error {
			arguments, err := pairs(args)
			if err != nil {
				return err
			}
			req := httpadmin.CreateRequest{Name: names[0], Arguments: arguments}
			return ask(g, http.MethodPost, "/streams", req, func(w io.Writer, s admin.StreamStatus) {
				fmt.Fprintf(w, "created %s (%s)\n", s.Name, s.ID)
			})
		},
	}
	create.Flags().StringArrayVar(&args, "arg", nil, "an argument of the stream, `KEY=VALUE`; may be repeated")
	return group("stream", "Create streams, change how much of them is kept, upload what is written, give up what is lost", create, newRetentionCommand(g), newCutCommand(g), newResetCommand(g))
}

func pairs(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--arg %q: want KEY=VALUE", a)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("--arg %s is given twice", key)
		}
		out[key] = value
	}
	return out, nil
}

// streamPath is the path of one stream; a name may hold any character.
func streamPath(name string) string { return "/streams/" + url.PathEscape(name) }
