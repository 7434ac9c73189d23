package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/cmd/internal/httpadmin"
	"millrace/core/resolve"
)

// reading is what `millrace read` was asked for.
type reading struct {
	stream string
	from   string
	follow bool
	limit  int64
}

func newReadCommand(g *globals) *cobra.Command {
	var r reading
	c := &cobra.Command{
		Use:   "read STREAM",
		Short: "Print records, one JSON line each",
		Long: "Print records, one JSON line each, oldest first.\n\n" +
			"Where records that were asked for are gone, a line on standard error says so (with --json a line\n" +
			"{\"moved\":...} on standard output). The exit code is 0 only if everything that was asked for was printed.",
		Example: "  millrace read shop --from first --limit 10\n  millrace read shop --from next --follow\n  millrace read shop --from 2026-03-01T12:00:00Z",
		Args:    operands(1, "STREAM"),
		RunE: func(c *cobra.Command, names []string) error {
			if _, err := resolve.ParseSpec(r.from); err != nil {
				return fmt.Errorf("--from %q: %w", r.from, err)
			}
			if c.Flags().Changed("limit") && r.limit < 1 {
				return fmt.Errorf("--limit %d: want a number from 1", r.limit)
			}
			r.stream = names[0]
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return read(ctx, g, r)
		},
	}
	c.Flags().StringVar(&r.from, "from", "first", "where to begin: first, last, next, an offset, or a time (RFC 3339)")
	c.Flags().BoolVarP(&r.follow, "follow", "f", false, "go on with what is committed from now on, until interrupted")
	c.Flags().Int64VarP(&r.limit, "limit", "n", 0, "end after this many records (default: no limit)")
	return c
}

// read prints until the end, the limit, or the end of ctx.
func read(ctx context.Context, g *globals, r reading) error {
	c, err := newClient(ctx, g)
	if err != nil {
		return err
	}
	params := url.Values{"from": {r.from}}
	if r.follow {
		params.Set("follow", "1")
	}
	if r.limit > 0 {
		params.Set("limit", strconv.FormatInt(r.limit, 10))
	}
	resp, err := c.send(ctx, http.MethodGet, streamPath(r.stream)+"/records?"+params.Encode(), nil)
	switch {
	case err == nil:
	case ctx.Err() != nil && r.follow:
		return nil // before anything came
	case ctx.Err() != nil:
		return &failure{what: "interrupted", hint: "nothing was read"}
	default:
		return err
	}
	defer resp.Body.Close()
	p := printer{g: g, c: c, out: bufio.NewWriter(g.out)}
	err = errors.Join(p.copy(bufio.NewReaderSize(resp.Body, 64<<10)), printed(p.out.Flush()))
	switch {
	case ctx.Err() != nil && r.follow:
		return nil // interrupted, which is how following ends
	case ctx.Err() != nil:
		return &failure{what: "interrupted", hint: p.goOn(r)}
	case err != nil:
		return p.broken(err, r)
	case resp.Trailer.Get(httpadmin.CompleteTrailer) != "true":
		return p.broken(io.ErrUnexpectedEOF, r)
	}
	return p.nothing(r)
}

// printer copies lines: records to standard output, notices where they belong.
type printer struct {
	g       *globals
	c       *client
	out     *bufio.Writer
	last    []byte             // the last record line
	refusal *httpadmin.Refusal // the error line, if one came
}

// copy prints whole lines until the end of in, which it reports as nil. It never prints
// part of a line.
func (p *printer) copy(in *bufio.Reader) error {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil:
			return err
		}
		if err := p.line(line); err != nil {
			return err
		}
		line = line[:0]
		if in.Buffered() == 0 {
			if err := printed(p.out.Flush()); err != nil {
				return err
			}
		}
	}
}

func (p *printer) line(line []byte) error {
	switch {
	case bytes.HasPrefix(line, []byte(`{"error":`)):
		p.refusal = &httpadmin.Refusal{}
		return json.Unmarshal(line, p.refusal)
	case bytes.HasPrefix(line, []byte(`{"moved":`)) && !p.g.json:
		return p.moved(line)
	case bytes.HasPrefix(line, []byte(`{"offset":`)):
		p.last = append(p.last[:0], line[:min(len(line), 64)]...)
	}
	_, err := p.out.Write(line)
	return printed(err)
}

// moved tells people what a program would find in the line.
func (p *printer) moved(line []byte) error {
	var notice struct {
		Moved admin.Moved `json:"moved"`
	}
	if err := json.Unmarshal(line, &notice); err != nil {
		return err
	}
	if err := printed(p.out.Flush()); err != nil {
		return err
	}
	m := notice.Moved
	fmt.Fprintf(p.g.err, "millrace: offsets %s to %s are gone (%s); reading on from %s\n", m.From, m.To-1, m.Why, m.To)
	return nil
}

// nothing says where the stream ends, if nothing of it was printed that was asked for. It
// is not said of a reading from the end on, where nothing is what is to be expected.
func (p *printer) nothing(r reading) error {
	if p.last != nil || r.follow || r.from == "next" {
		return nil
	}
	var s admin.StreamStatus
	if _, err := p.c.call(http.MethodGet, streamPath(r.stream), nil, &s); err != nil {
		return err
	}
	if !s.First.Valid() || s.Next <= s.First {
		fmt.Fprintf(p.g.err, "millrace: nothing to print: stream %s holds no records yet\n", r.stream)
		return nil
	}
	fmt.Fprintf(p.g.err, "millrace: nothing to print: stream %s ends at offset %s\n", r.stream, s.Next-1)
	return nil
}

// broken explains an answer that is not whole.
func (p *printer) broken(err error, r reading) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if p.refusal != nil {
		hint := p.goOn(r)
		switch {
		case p.last == nil && p.refusal.Hint != "":
			hint = p.refusal.Hint
		case p.refusal.Hint != "":
			hint = p.refusal.Hint + "\n" + hint
		}
		return &failure{what: "reading broke off: " + p.refusal.Error, hint: hint}
	}
	return &failure{what: "reading broke off: the connection ended before the answer did", err: err, hint: p.goOn(r)}
}

// goOn says how to read the rest.
func (p *printer) goOn(r reading) string {
	rest, ok := bytes.CutPrefix(p.last, []byte(`{"offset":`))
	digits, _, found := bytes.Cut(rest, []byte(","))
	offset, err := strconv.ParseInt(string(digits), 10, 64)
	if !ok || !found || err != nil {
		return "nothing was printed; try again"
	}
	text := fmt.Sprintf("go on with: millrace read %s --from %d", quoted(r.stream), offset+1)
	if r.follow {
		text += " --follow"
	}
	return text + p.g.reaching()
}
