package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/settings"
	"millrace/core/upload"
)

// absent stands for what a replica reader would tell.
const absent = "(not initialized)"

// showUpload prints a stream's way into the object store in five sections.
func showUpload(w io.Writer, s admin.StreamStatus) {
	u := s.Upload
	part := func(title string, rows [][]string) {
		fmt.Fprintf(w, "\n%s\n", title)
		if rows == nil {
			fmt.Fprintf(w, "  %s\n", absent)
		}
		for _, row := range rows {
			row[0] = "  " + row[0]
		}
		table(w, rows)
	}
	part("Remote tier bucket", [][]string{{"where", u.Store.Where}, {"accessible", u.Store.Accessible}})
	part("Stream", [][]string{{"id", s.ID}, {"node", u.Node}, {"log next offset", s.Next.String()}, {"replica reader", readerState(u)}})
	if u.Status == nil {
		for _, title := range []string{"Remote tier", "Upload pipeline", "Current fragment"} {
			part(title, nil)
		}
		return
	}
	part("Remote tier", remoteRows(u.Status.Remote))
	part("Upload pipeline", pipelineRows(u.Status.Pipeline, u.Now))
	part("Current fragment", fragmentRows(u.Status.Fragment, u.Now))
}

func readerState(u *admin.UploadReport) string {
	switch {
	case u.Error != "":
		return fmt.Sprintf("%s: %s", u.Error, u.Why)
	case u.Status == nil:
		return u.Why
	case u.Status.Stream.Why != "":
		return u.Status.Stream.State + ": " + u.Status.Stream.Why
	}
	return u.Status.Stream.State
}

func remoteRows(r upload.RemoteStatus) [][]string {
	if !r.Known {
		return nil
	}
	return [][]string{
		{"first offset", r.First.String()},
		{"next offset", r.Next.String()},
		{"persisted next offset", r.PersistedNext.String()},
		{"total size", sizeInBytes(r.Bytes)},
		{"fragments", strconv.Itoa(r.Fragments)},
		{"revision", r.Revision.String()},
	}
}

func pipelineRows(p upload.PipelineStatus, now pos.Millis) [][]string {
	rows := [][]string{
		{"anchor", p.Anchor},
		{"cut, not submitted", strconv.Itoa(p.Cut)},
		{"waiting for the governor", strconv.Itoa(p.Submitted)},
		{"transfers in flight", strconv.Itoa(p.Uploading)},
		{"deadlines armed", strconv.Itoa(p.Uploading)},
		{"completed, awaiting order", strconv.Itoa(p.Uploaded)},
		{"bytes in transfer", sizeInBytes(p.Bytes)},
		{"edits since last persist", strconv.Itoa(p.Edits)},
		{"edits in current persist", strconv.Itoa(p.EditsInPersist)},
		{"bytes to be persisted", sizeInBytes(p.BytesInPersist)},
		{"last persist", ago(p.LastPersist, now)},
		{"persist in flight", yesNo(p.Persisting)},
		{"retention in flight", yesNo(p.Retaining)},
		{"awaiting an offset", strconv.Itoa(p.Waiters)},
	}
	if p.StalledWhy != "" {
		rows = append(rows, []string{"STALLED", fmt.Sprintf("at offset %s: %s", p.Stalled, p.StalledWhy)})
	}
	if p.PersistWhy != "" {
		rows = append(rows, []string{"PERSIST FAILS", p.PersistWhy})
	}
	return rows
}

func fragmentRows(f upload.FragmentStatus, now pos.Millis) [][]string {
	due := "by size"
	if f.Due > 0 {
		due = fmt.Sprintf("by size, or by age in %s", max(f.Due.Sub(now), 0).Round(time.Second))
	}
	rows := [][]string{{"target size", sizeInBytes(f.Target)}}
	if f.Chunks == 0 {
		return append(rows, []string{"first offset", "nothing is gathered"})
	}
	return append(rows,
		[]string{"first offset", f.First.String()},
		[]string{"next offset", f.Next.String()},
		[]string{"payload size", sizeInBytes(f.Payload)},
		[]string{"size on disk", sizeInBytes(f.Bytes)},
		[]string{"chunks", strconv.Itoa(f.Chunks)},
		[]string{"cut", due},
	)
}

// sizeInBytes prints a size for people and for programs.
func sizeInBytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%s (%d bytes)", size(n), n)
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func ago(at, now pos.Millis) string {
	if at <= 0 {
		return "none since the start"
	}
	return max(now.Sub(at), 0).Round(100*time.Millisecond).String() + " ago"
}

func newCutCommand(g *globals) *cobra.Command {
	var wait bool
	var timeout string
	c := &cobra.Command{
		Use:   "cut NAME",
		Short: "Upload what a stream has committed, without waiting for its size or age",
		Long: "End the object that is being gathered of what was committed until now, however small it is, so that it is\n" +
			"uploaded at once. With --wait, wait until everything up to it is durable in the object store.",
		Args: operands(1, "NAME"),
		RunE: func(_ *cobra.Command, names []string) error {
			limit, err := settings.ParseSpan(timeout)
			if err != nil || limit <= 0 {
				return fmt.Errorf("--timeout %q: want a duration such as 30s or 5m", timeout)
			}
			return cutStream(g, names[0], wait, limit)
		},
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until it is durable in the object store")
	c.Flags().StringVar(&timeout, "timeout", "5m", "how long to wait, a `DURATION`")
	return c
}

// cutStream cuts, and waits for what was cut.
func cutStream(g *globals, name string, wait bool, limit time.Duration) error {
	c, err := newClient(context.Background(), g)
	if err != nil {
		return err
	}
	var cut admin.CutStatus
	raw, err := c.call(http.MethodPost, streamPath(name)+"/cut", nil, &cut)
	if err != nil {
		return err
	}
	if err := g.say(raw, cutText(cut)); err != nil || !wait || cut.Next == 0 {
		return err
	}
	d, raw, err := c.durable(name, cut.Next-1, limit, func(why string) { fmt.Fprintf(g.err, "millrace: still waiting: %s\n", why) })
	if f, ok := errors.AsType[*failure](err); ok && f.status == http.StatusGatewayTimeout {
		f.hint = "it is uploaded once nothing hinders that; millrace status " + name + " tells how far it is"
	}
	if err != nil {
		return err
	}
	if !d.Held {
		return errors.Join(g.say(raw, ""), &failure{
			what: fmt.Sprintf("what was cut is not in the object store: local disk was trimmed before offset %s was uploaded, or retention has removed it since", cut.Next-1),
			hint: "millrace status " + name + " shows gaps and what is stored",
		})
	}
	return g.say(raw, fmt.Sprintf("durable: everything below offset %s is in the object store\n", d.Next))
}

func cutText(cut admin.CutStatus) string {
	switch {
	case cut.Next == 0:
		return fmt.Sprintf("nothing is committed to %s\n", cut.Stream)
	case cut.Chunks == 0:
		return fmt.Sprintf("nothing to cut of %s: everything below offset %s is cut already\n", cut.Stream, cut.Next)
	}
	return fmt.Sprintf("cut %s of %s: %s, %s\n", span(cut.First, cut.Next), cut.Stream, count(cut.Chunks, "chunk"), sizeInBytes(cut.Bytes))
}

func newResetCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "reset NAME",
		Short: "Give up what the store has lost of a stream",
		Long: "Go on with a stream whose list of objects is not in the store any more, or is damaged, or whose first objects are not there:\n" +
			"to be said once they can't be restored. All is looked for again first, and what is there is kept. What is in no tier can't\n" +
			"be read any more, and counts as a gap; what local disk holds is uploaded again.",
		Args: operands(1, "NAME"),
		RunE: func(_ *cobra.Command, names []string) error {
			return ask(g, http.MethodPost, streamPath(names[0])+"/reset", nil, showReset)
		},
	}
}

func showReset(w io.Writer, r admin.ResetStatus) {
	fmt.Fprintf(w, "given up: %s of %s; the stream begins at offset %s\n", span(r.From, r.Next), r.Stream, r.Next)
	if r.Hole != nil {
		fmt.Fprintf(w, "given up as well: %s, which become a gap\n", span(r.Hole.From, r.Hole.To))
	}
}

// say prints an answer as it came with --json, else as text.
func (g *globals) say(raw []byte, text string) error {
	to := g.text()
	if g.json {
		to, text = g.out, string(raw)
	}
	_, err := io.WriteString(to, text)
	return printed(err)
}

// askAgain is how long one question for durability waits at the node: shorter than a
// client waits for an answer, and than who is not told what hinders it takes for a hang.
const askAgain = 10 * time.Second

// durable waits until a record is durable in the object store, and tells what hinders that
// whenever it is something new.
func (c *client) durable(name string, at pos.Offset, limit time.Duration, tell func(why string)) (d admin.DurableStatus, raw []byte, err error) {
	said := ""
	for until := time.Now().Add(limit); ; {
		wait := max(min(time.Until(until), askAgain), time.Second).Round(time.Second)
		path := fmt.Sprintf("%s/durable?offset=%s&timeout=%s", streamPath(name), at, settings.FormatSpan(wait))
		raw, err = c.call(http.MethodGet, path, nil, &d)
		var f *failure
		if !errors.As(err, &f) || f.status != http.StatusGatewayTimeout || time.Until(until) < time.Second {
			return d, raw, err
		}
		if f.why != "" && f.why != said {
			said = f.why
			tell(f.why)
		}
	}
}
