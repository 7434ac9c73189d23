package httpadmin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/admin"
	"millrace/core/pos"
)

// What a claim is refused with keeps its class, its words and its hint.
func TestAClaimThatIsRefused(t *testing.T) {
	for class, status := range map[admin.Class]int{admin.NotFound: 404, admin.Exists: 409, admin.Forbidden: 403, admin.Unavailable: 503} {
		srv := serve(t, &fakeNode{claimErr: &admin.Error{Class: class, What: "it was not claimed", Hint: "do this"}})
		req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/tiering/claim", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status || string(body) != `{"error":"it was not claimed","hint":"do this"}`+"\n" {
			t.Errorf("%s: status %d, %s", class, resp.StatusCode, body)
		}
	}
}

func TestTheTokenGuardsEverythingButThree(t *testing.T) {
	srv := serve(t, &fakeNode{})
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/status", "/tree", "/registry", "/registry/x", "/events", "/events?follow=1", "/tiering", "/streams", "/streams/x", "/streams/x/records", "/streams/x/retention", "/streams/x/durable", "/nothing"} {
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + testToken, testToken, "Bearer " + testToken + "x"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if auth != "" {
				req.Header.Set("Authorization", auth)
			}
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			public := path == "/livez" || path == "/readyz" || path == "/metrics"
			if public != (resp.StatusCode == 200) || !public && resp.StatusCode != 401 {
				t.Errorf("%s with %q: status %d", path, auth, resp.StatusCode)
			}
			if !public && (!strings.Contains(string(body), `"hint":"send the header Authorization`) || resp.Header.Get("WWW-Authenticate") == "") {
				t.Errorf("%s with %q does not say how: %s", path, auth, body)
			}
			if strings.Contains(string(body), testToken) {
				t.Errorf("%s shows the token", path)
			}
		}
	}
}

// TestTheRouteTable: what is open to whoever connects is listed here, all else answers
// nobody without the token, and does nothing for them.
func TestTheRouteTable(t *testing.T) {
	n := &fakeNode{streams: map[string]admin.StreamStatus{"x": {}}}
	s := &surface{Server: New(config(n)), run: t.Context(), token: testToken}
	srv := httptest.NewServer(s.handler())
	defer srv.Close()
	public := []string{"GET /livez", "GET /readyz", "GET /metrics", "GET /{$}", "GET /console/{file}"}
	for _, r := range s.routes() {
		if (r.takes == open) != slices.Contains(public, r.pattern) {
			t.Errorf("%s takes %d", r.pattern, r.takes)
		}
		method, path, _ := strings.Cut(r.pattern, " ")
		path = strings.NewReplacer("{$}", "", "{name}", "x", "{stream}", "x", "{file}", "console.js").Replace(path)
		for _, auth := range []string{"", "Bearer wrong-but-long-enough"} {
			req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(`{"path":"node/tiering/governor","name":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", auth)
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := http.StatusUnauthorized
			if slices.Contains(public, r.pattern) {
				want = http.StatusOK
			}
			if resp.StatusCode != want {
				t.Errorf("%s with %q: status %d, want %d", r.pattern, auth, resp.StatusCode, want)
			}
		}
	}
	if len(n.told) > 0 || n.created != nil || n.wish != (admin.Tiering{}) || len(n.opened) > 0 {
		t.Errorf("somebody without the token did %q, %v, %+v, %v", n.told, n.created, n.wish, n.opened)
	}
}

func TestAnswers(t *testing.T) {
	n := &fakeNode{streams: map[string]admin.StreamStatus{
		"shop": {Name: "shop", First: 3, SeamNext: -1}, "a/b": {Name: "a/b"}, "ü %?#": {Name: "odd"},
	}}
	srv := serve(t, n)
	for _, c := range []struct {
		method, path, body string
		status             int
		contains           string
	}{
		{"GET", "/livez", "", 200, `{"live":true}`},
		{"HEAD", "/livez", "", 200, ""},
		{"GET", "/readyz", "", 200, `{"ready":true}`},
		{"GET", "/status", "", 200, `"node":"n1"`},
		{"GET", "/tree", "", 200, `"id":"{Path: Factory: Offset:0 Limit:0 Search:}"`},
		{"GET", "/tree?path=node/log&factory=node/log&offset=3&limit=7&search=x", "", 200, `"id":"{Path:node/log Factory:node/log Offset:3 Limit:7 Search:x}"`},
		{"GET", "/tree?path=node/none", "", 404, `no process none`},
		{"GET", "/tree?offset=-1", "", 400, `want a whole number from 0`},
		{"GET", "/tree?limit=-1", "", 400, `want a whole number from 1 to 1000`},
		{"GET", "/tree?limit=0", "", 400, `want a whole number from 1 to 1000`},
		{"GET", "/tree?limit=1001", "", 400, `want a whole number from 1 to 1000`},
		{"GET", "/tree?limit=9000000000000000000", "", 400, `want a whole number from 1 to 1000`},
		{"GET", "/registry?limit=1001", "", 400, `want a whole number from 1 to 1000`},
		{"GET", "/tree?deep=1", "", 400, `"hint":"parameters are path`},
		{"GET", "/tree?path=a&path=b", "", 400, `given 2 times`},
		{"POST", "/tree/terminate", `{"path":"node/tiering/governor"}`, 200, `{"terminated":"node/tiering/governor"}`},
		{"POST", "/tree/restart", `{"path":"node/tiering/governor"}`, 200, `{"restarted":"node/tiering/governor"}`},
		{"POST", "/tree/terminate", `{"path":"node/admin"}`, 403, `{"error":"not this one","hint":"another"}`},
		{"POST", "/tree/terminate", `{"paths":[]}`, 400, `unknown field`},
		{"POST", "/tree/terminate", `{"path":"node/log/a"}{"path":"node/log/b"}`, 400, `something follows the object`},
		{"POST", "/tree/terminate", `{"path":"node/log/a"}]`, 400, `something follows the object`},
		{"POST", "/tree/restart", "{\"path\":\"node/tiering/reaper\"} \n", 200, `"restarted":"node/tiering/reaper"`},
		{"POST", "/tree/terminate", `{"path":"node/log/a","Path":"node/log/b"}`, 400, `unknown field \"Path\"`},
		{"POST", "/tree/terminate", `{"path":"node/log/a","path":"node/log/b"}`, 400, `the key \"path\" is there twice`},
		{"POST", "/streams", `{"name":"y","arguments":{"k":"v","k":"w"}}`, 400, `the key \"k\" is there twice`},
		{"POST", "/tree/terminate?path=node/log/a", `{"path":"node/log/b"}`, 400, `there is no parameter \"path\"`},
		{"GET", "/tree/terminate", "", 405, `use POST`},
		{"GET", "/status?verbose=1", "", 400, `there is no parameter \"verbose\"`},
		{"GET", "/streams?limit=3", "", 400, `it takes no parameters`},
		{"GET", "/streams/shop?x", "", 400, `there is no parameter \"x\"`},
		{"GET", "/registry/shop?kind=writer", "", 400, `there is no parameter`},
		{"GET", "/streams/shop/retention?x=1", "", 400, `there is no parameter`},
		{"POST", "/tiering/disable?for=1h", "", 400, `there is no parameter`},
		{"POST", "/tiering/disable", `{"for":"1h"}`, 400, `the request has a body`},
		{"GET", "/events?since=1", "x", 400, `the request has a body`},
		{"GET", "/registry?kind=writer&offset=1&limit=1", "", 200, `{"names":[{"kind":"writer","id":"b","node":"","state":"","mailbox_len":0}],"total":3,"offset":1}`},
		{"GET", "/registry?limit=x", "", 400, `want a whole number`},
		{"GET", "/registry/a%2Fb", "", 200, `"id":"a/b"`},
		{"GET", "/events", "", 200, `{"boot":"b","events":[],"next":0}`},
		{"GET", "/events?follow=t", "", 400, `want 1 or 0`},
		{"GET", "/streams/shop/records?follow=true", "", 400, `want 1 or 0`},
		{"GET", "/events?since=x", "", 400, `want the number of an event`},
		{"POST", "/tiering/disable", "", 200, `{"enabled":false,"by":"operator"`},
		{"POST", "/tiering/enable", "", 200, `{"enabled":true,"by":"operator"`},
		{"GET", "/tiering", "", 200, `"enabled":true`},
		{"POST", "/tiering/claim", "", 200, `{"store":"s3://b/p","marker":"p/cluster","cluster":"00000000000000aa","restored":true}`},
		{"PUT", "/streams/shop/retention", `{"max_bytes":7,"max_age":"36h","local_max_bytes":null}`, 200, `"stream":"shop"`},
		{"GET", "/streams/shop/retention", "", 200, `"stream":"shop"`},
		{"PUT", "/streams/shop/retention", `{"max_bytes":-7}`, 400, `want a number of bytes from 0, or null`},
		{"PUT", "/streams/shop/retention", `{"max_age":"soon"}`, 400, `want a duration`},
		{"DELETE", "/streams/shop/retention", "", 405, `use GET or PUT`},
		{"POST", "/streams/shop/cut", "", 200, `{"stream":"shop","first":3,"next":7,"bytes":100,"chunks":1}`},
		{"POST", "/streams/full/cut", "", 503, `{"error":"not cut (no_room)","hint":"ask again"}`},
		{"GET", "/streams/shop/cut", "", 405, `use POST`},
		{"POST", "/streams/shop/reset", "", 200, `{"stream":"shop","given_up_from":3,"given_up_next":7}`},
		{"POST", "/streams/empty/reset", "", 409, `{"error":"not reset: it is there","hint":"nothing to do"}`},
		{"GET", "/streams/shop/reset", "", 405, `use POST`},
		{"GET", "/streams/shop/durable?offset=6", "", 200, `{"stream":"shop","durable":true,"held":true,"asked_next":7,"durable_next":7}`},
		{"GET", "/streams/shop/durable?offset=6&timeout=9m", "", 200, `"durable":true`},
		{"POST", "/streams/shop/durable", "", 405, `use GET`},
		{"GET", "/streams/shop/durable?offset=7&timeout=1s", "", 504, `{"error":"offset 7 is not durable in the object store yet, everything below 7 is: planned","hint":"ask again`},
		{"GET", "/streams/shop/durable?offset=7&timeout=0s", "", 504, `"why":"planned"}`},
		{"GET", "/streams/shop/durable", "", 504, `"next":7`},
		{"GET", "/streams/shop/durable?offset=-1", "", 400, `want a whole number from 0`},
		{"GET", "/streams/shop/durable?timeout=1h", "", 400, `want a duration of at most 10m`},
		{"GET", "/streams/shop/durable?when=now", "", 400, `there is no parameter`},
		{"GET", "/streams", "", 200, `"name":"shop"`},
		{"GET", "/streams/shop", "", 200, `"first":3`},
		{"GET", "/streams/a%2Fb", "", 200, `"name":"a/b"`},
		{"GET", "/streams/%C3%BC%20%25%3F%23", "", 200, `"name":"odd"`},
		{"GET", "/streams/none", "", 404, `"hint":"list them with: millrace streams"`},
		{"GET", "/nothing", "", 404, `there is nothing at this path`},
		{"GET", "/console/nothing", "", 404, `there is nothing at this path`},
		{"POST", "/status", "", 405, `use GET`},
		{"DELETE", "/streams", "", 405, `use GET or POST`},
		{"POST", "/livez", "", 405, `use GET`},
		{"POST", "/streams", `{"name":"x","arguments":{"k":"v"}}`, 201, `"name":"x"`},
		{"POST", "/streams", `{"nam":"x"}`, 400, `unknown field`},
		{"POST", "/streams", `nonsense`, 400, `"hint":`},
		{"POST", "/streams", `{"name":"` + strings.Repeat("x", maxBody) + `"}`, 413, `more than 65536 bytes`},
	} {
		resp, body, err := call(t, srv, c.method, c.path, c.body)
		if err != nil || resp.StatusCode != c.status || !strings.Contains(body, c.contains) {
			t.Errorf("%s %s: %d %s (%v), want %d %s", c.method, c.path, resp.StatusCode, body, err, c.status, c.contains)
		}
		if resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: content type %q", c.method, c.path, resp.Header.Get("Content-Type"))
		}
	}
	want := []string{
		"terminate node/tiering/governor", "restart node/tiering/governor", "restart node/tiering/reaper", "claim",
		`{"MaxBytes":7,"MaxAge":129600000000000,"LocalMaxBytes":-1,"LocalMinBytes":null}`,
		`{"MaxBytes":null,"MaxAge":null,"LocalMaxBytes":null,"LocalMinBytes":null}`,
	}
	if !slices.Equal(n.told, want) {
		t.Errorf("the node was told %q", n.told)
	}
	if n.created["x"]["k"] != "v" {
		t.Errorf("created %v", n.created)
	}
}

func TestNotReadyNamesTheReasons(t *testing.T) {
	srv := serve(t, &fakeNode{reasons: []string{"store: unreachable"}})
	resp, body, err := call(t, srv, "GET", "/readyz", "")
	if err != nil || resp.StatusCode != 503 || !strings.Contains(body, "store: unreachable") {
		t.Errorf("%d %s %v", resp.StatusCode, body, err)
	}
}

func TestAnEmptyListIsAList(t *testing.T) {
	if _, body, err := call(t, serve(t, &fakeNode{}), "GET", "/streams", ""); err != nil || strings.TrimSpace(body) != `{"streams":[]}` {
		t.Errorf("%s %v", body, err)
	}
}

func TestEachClassOfRefusalHasItsStatus(t *testing.T) {
	for class, status := range map[admin.Class]int{
		admin.Internal: 500, admin.NotFound: 404, admin.Exists: 409, admin.Invalid: 400, admin.Unavailable: 503,
	} {
		n := &fakeNode{onCreate: &admin.Error{Class: class, What: "it failed", Hint: "do this", Err: errors.New("because")}}
		resp, body, err := call(t, serve(t, n), "POST", "/streams", `{"name":"x"}`)
		if err != nil || resp.StatusCode != status || strings.TrimSpace(body) != `{"error":"it failed: because","hint":"do this"}` {
			t.Errorf("%s: %d %s %v", class, resp.StatusCode, body, err)
		}
	}
}

// endless takes all the time that it is given.
type endless struct{ *fakeNode }

func (endless) ClaimStore(ctx context.Context) (admin.StoreClaim, error) {
	<-ctx.Done()
	return admin.StoreClaim{}, &admin.Error{Class: admin.Unavailable, What: "no answer in time"}
}

func (endless) ResetStream(ctx context.Context, _ string) (admin.ResetStatus, error) {
	<-ctx.Done()
	return admin.ResetStatus{}, &admin.Error{Class: admin.Unavailable, What: "no answer in time"}
}

func (endless) Durable(ctx context.Context, _ string, _ pos.Offset, _ time.Duration) (admin.DurableStatus, error) {
	<-ctx.Done()
	return admin.DurableStatus{}, &admin.Error{Class: admin.Unavailable, What: "no answer in time"}
}

// That the time for an answer is over is an answer, for which the connection is still open.
func TestThatItsTimeIsOverIsTold(t *testing.T) {
	for _, c := range []struct{ method, path string }{
		{"POST", "/tiering/claim"}, {"POST", "/streams/s/reset"}, {"GET", "/streams/s/durable?timeout=1m"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &told{}
			cfg := config(&fakeNode{})
			cfg.Node = endless{&fakeNode{}}
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
			r.Header.Set("Authorization", "Bearer "+testToken)
			(&surface{Server: New(cfg), run: t.Context(), token: testToken}).handler().ServeHTTP(w, r)
			text, read, write := w.got()
			if !strings.Contains(text, "no answer in time") || time.Until(read) < time.Second || time.Until(write) < time.Second {
				t.Errorf("%s: told %q, %s before the end of the connection", c.path, text, time.Until(write))
			}
		})
	}
}
