package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"millrace/cmd/internal/httpadmin"
)

// Following goes on over a restart of the node: from the last event it has if it is the
// same run of the node, from the first of the new one otherwise, also where that has given
// more numbers than were seen. Standard error says so.
func TestFollowingOutlivesTheNode(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var mu sync.Mutex
	var asked []string
	event := func(w http.ResponseWriter, boot string, seqs ...int) {
		w.Header().Set(httpadmin.BootHeader, boot)
		w.WriteHeader(http.StatusOK)
		for _, seq := range seqs {
			fmt.Fprintf(w, `{"seq":%d,"kind":"started","path":"node/%s"}`+"\n", seq, boot)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Query().Get("since"))
		switch len(asked) {
		case 1:
			event(w, "first", 4, 5)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":"starting"}`)
		case 3:
			event(w, "first", 6)
			fmt.Fprint(w, `{"seq":7,"ki`) // cut off
		case 4:
			event(w, "second", 7, 8)
		case 5:
			event(w, "second", 1, 2)
		case 6:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"the token is missing or wrong"}`)
		}
	}))
	defer srv.Close()
	var out, said strings.Builder
	g := &globals{out: &out, err: &said}
	c := &client{base: srv.URL, http: srv.Client()}
	err := (&follower{g: g, c: c, last: 3}).run(ctx)
	if err == nil || !strings.Contains(err.Error(), "does not take the token") {
		t.Errorf("it ended with %v", err)
	}
	if got := strings.Join(asked, " "); got != "3 5 5 6 0 2" {
		t.Errorf("it asked for what came after %s", got)
	}
	var seen []string
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line)
		seen = append(seen, words[0]+" "+words[3])
	}
	if got := strings.Join(seen, ", "); got != "4 node/first, 5 node/first, 6 node/first, 1 node/second, 2 node/second" {
		t.Errorf("it printed %s", got)
	}
	want := []string{"sends no more events", "answers again", "sends no more events", "started anew", "answers again", "sends no more events"}
	for line := range strings.Lines(said.String()) {
		if len(want) == 0 || !strings.Contains(line, want[0]) {
			t.Fatalf("it said %q, want %q next", line, want)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("it did not say %q", want)
	}
}

// An interruption ends it well, also while the node is away; a node that never answered is
// named.
func TestFollowingEnds(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	g := &globals{out: &strings.Builder{}, err: &strings.Builder{}}
	c := &client{base: srv.URL, http: srv.Client()}
	if err := (&follower{g: g, c: c}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot reach the node") {
		t.Errorf("it ended with %v", err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	g.err = writerFunc(func(string) { interrupt() })
	if err := (&follower{g: g, c: c, boot: "b"}).run(ctx); err != nil {
		t.Errorf("interrupted it ended with %v", err)
	}
}

// Who follows is told where events are missing, in words or in the output of a program, and
// goes on from the last event it has.
func TestFollowingTellsWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		json      bool
		out, said string
	}{
		{false, "     4  2026-03-01T12:00:00Z  started           node\n", "millrace: missing here, since the node no longer remembered: 2 events\n"},
		{true, "{\"missing\":2}\n", ""},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(httpadmin.BootHeader, "b")
			fmt.Fprintln(w, `{"missing":2}`)
			fmt.Fprintln(w, `{"seq":4,"time":"2026-03-01T12:00:00Z","kind":"started","path":"node"}`)
		}))
		var out, said strings.Builder
		f := &follower{g: &globals{json: c.json, out: &out, err: &said}, c: &client{base: srv.URL, http: srv.Client()}, last: 1}
		if err := f.once(t.Context()); err == nil || !strings.Contains(err.Error(), "sends no more events") {
			t.Errorf("it ended with %v", err)
		}
		srv.Close()
		if !strings.HasPrefix(out.String(), c.out) || said.String() != c.said || f.last != 4 {
			t.Errorf("it printed %q, said %q and has event %d", out.String(), said.String(), f.last)
		}
	}
}

type writerFunc func(string)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}
