package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
	"millrace/cmd/internal/httpadmin"
)

func newEventsCommand(g *globals) *cobra.Command {
	var since uint64
	var follow bool
	c := &cobra.Command{
		Use:   "events",
		Short: "Show what the supervisors did: starts, crashes, restarts",
		Long: "Show the latest events of the node's supervisors, oldest first. The node remembers 256 of trouble and as many others.\n" +
			"With --json each line is one event as the node sent it, its stack included.",
		Args: operands(0),
		RunE: func(*cobra.Command, []string) error { return showEvents(g, since, follow) },
	}
	c.Flags().Uint64Var(&since, "since", 0, "only what came after event number `N`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens, until interrupted")
	return c
}

func showEvents(g *globals, since uint64, follow bool) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	c, err := newClient(ctx, g)
	if err != nil {
		return err
	}
	if !follow {
		var got admin.Events
		if _, err := c.call(http.MethodGet, fmt.Sprintf("/events?since=%d", since), nil, &got); err != nil {
			return err
		}
		if err := g.missing(got.Missing); err != nil {
			return err
		}
		for _, e := range got.Events {
			if err := g.event(e); err != nil {
				return err
			}
		}
		return nil
	}
	return (&follower{g: g, c: c, last: since}).run(ctx)
}

// followPause is between two attempts to reach a node that went away.
const followPause = time.Second

// follower prints events as they happen, over restarts of the node.
type follower struct {
	g    *globals
	c    *client
	boot string // the run of the node that last is of; empty before the first answer
	last uint64 // the number of the last event it has
	lost bool   // the node was told to be away
}

// run follows until ctx ends. It goes on where it was once the node answers again; only a
// node that was never reached, or that refuses, ends it.
func (f *follower) run(ctx context.Context) error {
	for {
		err := f.once(ctx)
		var refused *failure
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, which is how following ends
		case f.boot == "", errors.As(err, &refused) && refused.final():
			return err
		case !f.lost:
			f.lost = true
			fmt.Fprintf(f.g.err, "millrace: the node at %s sends no more events; going on when it answers again\n", f.c.base)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPause):
		}
	}
}

// final tells a refusal, or an output that can't be written, from a node that is away.
func (f *failure) final() bool {
	return f.status != 0 && f.status != http.StatusServiceUnavailable || f.local
}

// once makes one connection and prints what comes over it.
func (f *follower) once(ctx context.Context) error {
	resp, err := f.c.send(ctx, http.MethodGet, fmt.Sprintf("/events?follow=1&since=%d", f.last), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	boot := resp.Header.Get(httpadmin.BootHeader)
	anew := f.boot != "" && boot != f.boot
	f.boot = boot
	if anew && f.last > 0 {
		resp.Body.Close()
		f.last = 0
		fmt.Fprintln(f.g.err, "millrace: the node was started anew, and numbers its events from 1")
		return f.once(ctx)
	}
	if f.lost {
		f.lost = false
		fmt.Fprintln(f.g.err, "millrace: the node answers again")
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var line struct {
			admin.Event
			httpadmin.MissingEvents
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return &failure{what: "the answer of " + f.c.base + " cannot be read", err: err}
		}
		if line.Missing > 0 {
			err = f.g.missing(line.Missing)
		} else if err = f.g.event(line.Event); err == nil {
			f.last = line.Seq
		}
		if err != nil {
			return err
		}
	}
	return &failure{what: "the node at " + f.c.base + " sends no more events", err: lines.Err(), hint: "it has stopped, or the connection broke; ask again"}
}

// missing tells of events that the node had forgotten before they were asked for.
func (g *globals) missing(n uint64) error {
	switch {
	case n == 0:
		return nil
	case g.json:
		return printed(json.NewEncoder(g.out).Encode(httpadmin.MissingEvents{Missing: n}))
	}
	fmt.Fprintf(g.err, "millrace: missing here, since the node no longer remembered: %s\n", count(int(n), "event"))
	return nil
}

// event prints one event.
func (g *globals) event(e admin.Event) error {
	if g.json {
		return printed(json.NewEncoder(g.out).Encode(e))
	}
	at := e.Path
	if e.Label != "" {
		at += " (" + e.Label + ")"
	}
	line := fmt.Sprintf("%6d  %s  %-16s  %s", e.Seq, e.Time.UTC().Format(time.RFC3339), e.Kind, at)
	if e.Reason != "" {
		line += "  " + strings.ReplaceAll(e.Reason, "\n", " ")
	}
	if e.Trouble && e.Intensity > 0 {
		line += fmt.Sprintf("  [%d of %d restarts]", e.Restarts, e.Intensity)
	}
	_, err := fmt.Fprintln(g.text(), line)
	return printed(err)
}
