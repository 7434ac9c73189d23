package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/actors/admin"
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
		for _, e := range got.Events {
			if err := g.event(e); err != nil {
				return err
			}
		}
		return nil
	}
	resp, err := c.send(ctx, http.MethodGet, fmt.Sprintf("/events?follow=1&since=%d", since), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e admin.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return &failure{what: "the answer of " + c.base + " cannot be read", err: err}
		}
		if err := g.event(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return &failure{what: "the node at " + c.base + " sends no more events", err: lines.Err(), hint: "it has stopped, or the connection broke; ask again"}
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
