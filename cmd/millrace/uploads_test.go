package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/settings"
	"millrace/core/upload"
)

// uploads is what the replica reader of shop tells.
func uploads() *admin.UploadReport {
	const now = pos.Millis(1772366400000)
	return &admin.UploadReport{
		Node: "n1", Store: admin.StoreStatus{Where: "directory /mnt/store", Accessible: "yes"}, Now: now,
		Status: &upload.Status{
			Stream: upload.StreamStatus{ID: "__shop_1", Epoch: 4, State: "running"},
			Remote: upload.RemoteStatus{Known: true, Next: 1234300, PersistedNext: 1234000, Revision: 77, Bytes: 9 << 30, Fragments: 144},
			Pipeline: upload.PipelineStatus{
				Anchor: "done", Submitted: 1, Uploading: 2, Uploaded: 1, Bytes: 4 * 64 << 20, Edits: 3, EditsInPersist: 2, BytesInPersist: 64 << 20,
				Persisting: true, LastPersist: now - 1500, Waiters: 1, Stalled: 1234300, StalledWhy: "access denied",
			},
			Fragment: upload.FragmentStatus{First: 1234500, Next: 1234567, Target: 64 << 20, Bytes: 40 << 20, Payload: 39 << 20, Chunks: 41, Due: now + 120_000},
		},
	}
}

func (n fakeNode) CutStream(ctx context.Context, name string) (admin.CutStatus, error) {
	switch name {
	case "lost", "slow":
	case "idle":
		return admin.CutStatus{Stream: name, First: 1234567, Next: 1234567}, nil
	case "empty":
		return admin.CutStatus{Stream: name}, nil
	case "büro":
		return admin.CutStatus{}, &admin.Error{Class: admin.Unavailable, What: "stream \"büro\" was not cut (manifest_not_resolved)", Hint: "millrace status büro tells what it waits for; ask again in a moment"}
	default:
		if _, err := n.Stream(ctx, name); err != nil {
			return admin.CutStatus{}, err
		}
	}
	return admin.CutStatus{Stream: name, First: 1234500, Next: 1234567, Bytes: 41943040, Chunks: 41}, nil
}

func (n fakeNode) ResetStream(ctx context.Context, name string) (admin.ResetStatus, error) {
	if _, err := n.Stream(ctx, name); err != nil {
		return admin.ResetStatus{}, err
	}
	return admin.ResetStatus{Stream: name, From: 1200000, Next: 1234500, Hole: &admin.Gap{From: 1234510, To: 1234520}}, nil
}

// Durable takes no time; of slow nothing gets into the store.
func (fakeNode) Durable(_ context.Context, name string, next pos.Offset, _ time.Duration) (admin.DurableStatus, error) {
	if name == "slow" {
		return admin.DurableStatus{Stream: name, Asked: next, Next: 1200000, Why: "stalled at offset 1200000: access denied"}, nil
	}
	return admin.DurableStatus{Stream: name, Durable: true, Held: name != "lost", Asked: next, Next: 1234570}, nil
}

// Who waits is told what hinders it, each time that is another thing, and whatever ends it.
func TestWhoWaitsIsToldWhatHindersIt(t *testing.T) {
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	whys := []string{"", "no answer", "no answer", "", "denied"}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `{"stream":"shop","first":3,"next":7,"bytes":100,"chunks":1}`)
		case len(whys) > 0:
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprintf(w, `{"error":"not yet","why":%q}`, whys[0])
			whys = whys[1:]
		default:
			fmt.Fprint(w, `{"stream":"shop","durable":true,"held":true,"asked_next":7,"durable_next":7}`)
		}
	}))
	defer srv.Close()
	var out, words strings.Builder
	g := &globals{admin: srv.URL, tokenFile: tokenFile, out: &out, err: &words}
	if err := cutStream(g, "shop", true, time.Minute); err != nil {
		t.Fatal(err)
	}
	if want := "millrace: still waiting: no answer\nmillrace: still waiting: denied\n"; words.String() != want {
		t.Errorf("told %q, want %q", words.String(), want)
	}
	if !strings.HasSuffix(out.String(), "durable: everything below offset 7 is in the object store\n") {
		t.Errorf("printed %q", out.String())
	}
}

// What is small, missing or not known is printed as that.
func TestUploadRows(t *testing.T) {
	if got := fragmentRows(upload.FragmentStatus{First: -1, Next: -1, Target: 100}, 0); len(got) != 2 || got[0][1] != "100 bytes" || got[1][1] != "nothing is gathered" {
		t.Errorf("an empty fragment is %q", got)
	}
	if got := remoteRows(upload.RemoteStatus{First: -1}); got != nil {
		t.Errorf("what is not known is %q", got)
	}
	for now, want := range map[pos.Millis]string{5_200: "200ms ago", 4_000: "0s ago"} {
		if got := ago(5_000, now); got != want {
			t.Errorf("%d: %q, want %q", now, got, want)
		}
	}
	if got := ago(0, 9); got != "none since the start" {
		t.Errorf("%q", got)
	}
	for u, want := range map[*admin.UploadReport]string{
		{Why: "tiering is disabled"}:                                                               "tiering is disabled",
		{Error: "reader_down", Why: "it ended"}:                                                    "reader_down: it ended",
		{Status: &upload.Status{Stream: upload.StreamStatus{State: "running"}}}:                    "running",
		{Status: &upload.Status{Stream: upload.StreamStatus{State: "waiting", Why: "store down"}}}: "waiting: store down",
	} {
		if got := readerState(u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// answering is a transport that reaches no network.
type answering func(r *http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Who waits long is told what hinders it within 10 s, also of what is new since, until its time is
// up: the node is not asked for longer at once.
func TestWhoWaitsIsToldWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		node := answering(func(r *http.Request) (*http.Response, error) {
			wait, err := settings.ParseSpan(r.URL.Query().Get("timeout"))
			if err != nil {
				return nil, err
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			why := fmt.Sprintf(`{"error":"not yet","why":"stalled after %s"}`, time.Since(began))
			return &http.Response{StatusCode: http.StatusGatewayTimeout, Body: io.NopCloser(strings.NewReader(why))}, nil
		})
		c := &client{base: "http://node", http: &http.Client{Transport: node}}
		var told []string
		_, _, err := c.durable("shop", 6, 25*time.Second, func(why string) {
			told = append(told, fmt.Sprintf("%s: %s", time.Since(began), why))
		})
		if want := []string{"10s: stalled after 10s", "20s: stalled after 20s"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if f, ok := errors.AsType[*failure](err); !ok || f.why != "stalled after 25s" || time.Since(began) != 25*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
