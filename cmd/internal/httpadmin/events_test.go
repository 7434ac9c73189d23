package httpadmin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"millrace/actors/admin"
)

// A follower gets what it missed, then each event as it happens, and a new connection
// goes on where the last one ended.
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
