package httpadmin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// told is whom events are sent to: it notes what it gets, and the deadlines that are set.
type told struct {
	mu            sync.Mutex
	body          bytes.Buffer
	reads, writes []time.Time
}

func (w *told) Header() http.Header { return http.Header{} }
func (w *told) WriteHeader(int)     {}
func (w *told) Flush()              {}

func (w *told) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}

func (w *told) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads = append(w.reads, t)
	return nil
}

func (w *told) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, t)
	return nil
}

// got is what it was sent, and the deadlines that were set last.
func (w *told) got() (text string, read, write time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String(), w.reads[len(w.reads)-1], w.writes[len(w.writes)-1]
}

// follower follows a node's events in a bubble, until the test ends.
func follower(t *testing.T, n *fakeNode, since uint64) *told {
	t.Helper()
	w := &told{}
	s := &surface{Server: New(config(n))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.follow(ctx, newLines(w), n.Events(since)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return w
}

// A follower of a node on which nothing happens hears of it now and then, and is not cut off
// by the deadlines of a request.
func TestAFollowerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := follower(t, &fakeNode{more: make(chan struct{})}, 0)
		for beats := range 3 {
			got, read, write := w.got()
			if got != strings.Repeat("\n", beats) {
				t.Errorf("after %d beats it got %q", beats, got)
			}
			if !read.IsZero() || !write.Equal(time.Now().Add(stallTime)) {
				t.Errorf("after %d beats reading ends at %v, writing at %v", beats, read, write)
			}
			<-time.After(heartbeat)
			synctest.Wait()
		}
	})
}

// Who was too slow is told how many events there are no more, where they are missing.
func TestAFollowerIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{}
		for range 9 {
			n.happen()
		}
		n.forgotten = 7
		w := follower(t, n, 2)
		kinds := func() (seen []string) {
			text, _, _ := w.got()
			for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
				var e struct{ Seq, Missing uint64 }
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				seen = append(seen, fmt.Sprint(e))
			}
			return seen
		}
		if got := kinds(); !slices.Equal(got, []string{"{0 5}", "{8 0}", "{9 0}"}) {
			t.Fatalf("it got %v", got)
		}
		n.mu.Lock()
		n.happened, n.forgotten = 19, 18
		n.mu.Unlock()
		n.happen()
		synctest.Wait()
		if got := kinds(); !slices.Equal(got[3:], []string{"{0 9}", "{19 0}", "{20 0}"}) {
			t.Fatalf("then it got %v", got[3:])
		}
	})
}
