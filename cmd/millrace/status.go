package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
)

func newStatusCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status [STREAM]",
		Short: "Show the node and its streams, or one stream in detail",
		Args:  operands(0, "STREAM"),
		RunE: func(_ *cobra.Command, names []string) error {
			if len(names) == 1 {
				return streamStatus(g, names[0])
			}
			if err := ask(g, http.MethodGet, "/status", nil, showNode); err != nil || g.json {
				return err
			}
			return ask(g, http.MethodGet, "/streams", nil, func(w io.Writer, l streamList) {
				fmt.Fprintln(w)
				showStreams(w, l.Streams)
			})
		},
	}
}

func showNode(w io.Writer, n admin.NodeStatus) {
	ready := "ready"
	if !n.Ready {
		ready = "NOT READY"
	}
	rows := [][]string{
		{"node", fmt.Sprintf("%s, %s", n.Node, ready)},
		{"version", n.Version},
		{"running", "since " + n.Started.UTC().Format(time.RFC3339)},
		{"cluster", n.Cluster},
		{"data", fmt.Sprintf("%s, %s free", n.DataDir, size(n.DiskFree))},
		{"store", n.Store},
		{"accessible", n.Access},
	}
	if n.Credentials != nil {
		rows = append(rows, []string{"credentials", n.Credentials.String()})
	}
	for _, p := range n.Pools {
		rows = append(rows, []string{p.Name + " pool", p.String()})
	}
	rows = append(rows, []string{"tiering", n.Tiering}, []string{"holds", count(n.Streams, "stream") + ", " + count(n.Captures, "capture")})
	if n.Zombies > 0 {
		rows = append(rows, []string{"zombies", count(n.Zombies, "process") + " abandoned and still running"})
	}
	for _, why := range n.Reasons {
		rows = append(rows, []string{"waits for", why})
	}
	table(w, rows)
	for _, part := range sortedKeys(n.Parts) {
		section(w, part, n.Parts[part])
	}
}

// streamStatus shows one stream. It fails if the stream's replica reader does not answer,
// after all that is known without it.
func streamStatus(g *globals, name string) error {
	c, err := newClient(context.Background(), g)
	if err != nil {
		return err
	}
	var s admin.StreamStatus
	raw, err := c.call(http.MethodGet, streamPath(name), nil, &s)
	if err != nil {
		return err
	}
	var b strings.Builder
	showStream(&b, s)
	if err := g.say(raw, b.String()); err != nil || s.Upload == nil || s.Upload.Error == "" {
		return err
	}
	return &failure{what: s.Upload.Why, hint: "millrace registry " + name + " shows the process, millrace events what became of it"}
}

func showStream(w io.Writer, s admin.StreamStatus) {
	state := fmt.Sprintf("%s, epoch %s", s.State, s.Epoch)
	if s.Why != "" {
		state += ": " + s.Why
	}
	readable, stored, missing := span(s.First, s.Next), fmt.Sprintf("%s, %s", span(s.RemoteFirst, s.SeamNext), size(s.RemoteBytes)), count(int(notStored(s)), "record")
	switch s.RemoteState {
	case admin.RemoteUnknown:
		stored, missing = "NOT KNOWN: "+s.RemoteWhy, "not known"
		if !s.First.Valid() && s.Next > 0 {
			readable = fmt.Sprintf("not known from where, to offset %s", s.Next-1)
		}
	case admin.RemoteDisabled:
		stored, missing = "not known: "+s.RemoteWhy, "not known"
	case admin.RemoteKnown:
	}
	rows := [][]string{
		{"stream", fmt.Sprintf("%s (%s)", s.Name, s.ID)},
		{"state", state},
		{"readable", readable},
		{"on disk", fmt.Sprintf("%s, %s", span(s.LocalFirst, s.Next), size(s.LocalBytes))},
		{"in store", stored},
		{"gaps", strconv.Itoa(s.Gaps)},
	}
	for _, g := range s.Undeclared {
		rows = append(rows, []string{"LOST", fmt.Sprintf("%s, %s: in no tier, a gap that is declared with the next upload", span(g.From, g.To), count(int(g.To-g.From), "record"))})
	}
	table(w, append(rows, []string{"not stored", missing}))
	if s.Upload != nil {
		showUpload(w, s)
	}
	section(w, "local log", s.Local)
	section(w, "capture", s.Capture)
}

// notStored counts the records that only the local disk has.
func notStored(s admin.StreamStatus) int64 {
	from := max(s.SeamNext, s.LocalFirst, 0)
	return max(0, int64(s.Next-from))
}
