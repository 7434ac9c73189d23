package httpadmin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"millrace/actors/admin"
)

// No more than so many follow at once, and who ends makes room.
func TestFollowersAreCapped(t *testing.T) {
	srv := serve(t, &fakeNode{more: make(chan struct{})})
	follow := func() (status int, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/events?follow=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, func() { cancel(); resp.Body.Close() }
	}
	var ends []func()
	for i := range maxFollowers {
		status, end := follow()
		if status != http.StatusOK {
			t.Errorf("follower %d: status %d", i, status)
		}
		ends = append(ends, end)
	}
	if status, end := follow(); status != http.StatusServiceUnavailable {
		t.Errorf("one more: status %d", status)
	} else {
		end()
	}
	ends[0]()
	for until := time.Now().Add(5 * time.Second); ; {
		status, end := follow()
		defer end()
		if status == http.StatusOK {
			break
		}
		if time.Now().After(until) {
			t.Fatal("who ended makes no room")
		}
	}
	for _, end := range ends[1:] {
		end()
	}
}

// A follower gets what it missed, then each event as it happens, and a new connection
// goes on where the last one ended. It is told which run of the node the numbers are of.
func TestEventsAreFollowed(t *testing.T) {
	n := &fakeNode{}
	n.happen()
	n.happen()
	srv := serve(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/events?since=1&follow=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("content type %q", resp.Header.Get("Content-Type"))
	}
	if got := resp.Header.Get(BootHeader); got != "b" {
		t.Errorf("boot %q", got)
	}
	lines := bufio.NewScanner(resp.Body)
	for seq := uint64(2); seq < 6; seq++ {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		var e admin.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Seq != seq {
			t.Fatalf("event %d: %s %v", seq, lines.Bytes(), err)
		}
		n.happen()
	}
}
