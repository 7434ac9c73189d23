package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAdminSurface asks the surface as it should not be asked, and looks at what it shows
// to everybody.
func TestAdminSurface(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.start()
	info, err := os.Stat(n.tokenFile())
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the token file has mode %s", info.Mode())
	}
	token := n.token()
	eventually(t, 10*time.Second, "the node is ready", func() (bool, string) { return n.reasons() })
	n.millrace("stream", "create", "events").want(t, 0)

	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if status, body := n.get(path, ""); status != http.StatusOK || body == "" {
			t.Errorf("%s without a token: %d: %.200s", path, status, body)
		}
	}
	for _, path := range []string{"/status", "/tree", "/streams", "/streams/events", "/streams/events/records", "/streams/nothing", "/nothing"} {
		for _, wrong := range []string{"", "wrong", token + "x", token[1:], strings.ToUpper(token)} {
			status, body := n.get(path, wrong)
			if status != http.StatusUnauthorized || leaks(token, body) != nil || !strings.Contains(body, "admin.token_file") {
				t.Errorf("%s with the token %q: %d: %.200s", path, wrong, status, body)
			}
		}
	}
	for path, want := range map[string]int{"/status": 200, "/tree": 200, "/streams": 200, "/streams/events": 200, "/streams/events/records": 200,
		"/streams/nothing": 404, "/nothing": 404, "/streams/events/records?from=never": 400, "/streams/events/records?limit=0": 400, "/streams/events/records?nonsense=1": 400} {
		if status, body := n.get(path, token); status != want || leaks(token, body) != nil || want != 200 && !strings.Contains(body, `"error":`) {
			t.Errorf("%s: %d: %.300s", path, status, body)
		}
	}
	for method, want := range map[string]int{http.MethodPut: 405, http.MethodDelete: 405, http.MethodPost: 400} {
		if status, body := n.send(method, "/streams", token, "no JSON"); status != want {
			t.Errorf("%s /streams: %d: %.300s", method, status, body)
		}
		if status, _ := n.send(method, "/streams", "wrong", "no JSON"); status != http.StatusUnauthorized {
			t.Errorf("%s /streams with a wrong token: %d", method, status)
		}
	}
	checkMetrics(t, n)
	checkTree(t, n)
	must(t, leaks(token, n.log()))

	// A new token takes a new start.
	n.stop()
	must(t, os.Remove(n.tokenFile()))
	n.start()
	if status, _ := n.get("/status", token); status != http.StatusUnauthorized {
		t.Errorf("the token of before is answered with %d", status)
	}
	if status, _ := n.get("/status", n.token()); status != http.StatusOK {
		t.Errorf("the new token is answered with %d", status)
	}
	// Somebody else's eyes.
	must(t, os.Chmod(n.tokenFile(), 0o644))
	n.millrace("status").want(t, 1, "chmod 600")
	must(t, os.Chmod(n.tokenFile(), 0o600))
}

// TestThePortIsTaken starts a node whose port is in use: it waits until it is free.
func TestThePortIsTaken(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	holder, err := net.Listen("tcp", n.listen)
	must(t, err)
	n.launch()
	eventually(t, 10*time.Second, "the node finds its port taken", func() (bool, string) {
		n.alive()
		return strings.Contains(n.log(), "address already in use"), n.logTail()
	})
	must(t, holder.Close())
	eventually(t, 10*time.Second, "the node answers", func() (bool, string) {
		status, said := n.get("/livez", "")
		return status == http.StatusOK, said
	})
}

// TestReadingsAreBounded opens as many readings as there may be, and one more.
func TestReadingsAreBounded(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.start()
	n.millrace("stream", "create", "events").want(t, 0)
	open := func() *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "http://"+n.listen+"/streams/events/records?follow=1", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+n.token())
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		return resp
	}
	var all []*http.Response
	for range 64 {
		resp := open()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("reading %d is answered with %s", len(all), resp.Status)
		}
		all = append(all, resp)
	}
	n.millrace("read", "events").want(t, 1, "64 readings are open already")
	for _, resp := range all {
		must(t, resp.Body.Close())
	}
	eventually(t, 10*time.Second, "there is room for readings again", func() (bool, string) {
		a := n.millrace("read", "events")
		return a.code == 0, a.err
	})
}

// send asks with a body.
func (n *node) send(method, path, token, body string) (status int, said string) {
	n.t.Helper()
	req, err := http.NewRequest(method, "http://"+n.listen+path, strings.NewReader(body))
	must(n.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	must(n.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(n.t, err)
	return resp.StatusCode, string(b)
}

// checkMetrics holds the names of all metrics against the rule, and the documented ones
// against what is there.
func checkMetrics(t *testing.T, n *node) {
	t.Helper()
	_, body := n.get("/metrics", "")
	families := map[string]bool{}
	for line := range strings.Lines(body) {
		name, ok := strings.CutPrefix(line, "# TYPE ")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		families[name] = true
		if !strings.HasPrefix(name, "millrace_") && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("the metric %s has no prefix of ours", name)
		}
	}
	for _, want := range []string{"millrace_build_info", "millrace_supervisor_events_total", "millrace_governor_in_flight", "millrace_manifest_next_offset",
		"millrace_manifests_resolved_total", "go_goroutines", "process_resident_memory_bytes"} {
		if !families[want] {
			t.Errorf("there is no metric %s in %d families", want, len(families))
		}
	}
}

// checkTree looks for the children of the documented tree.
func checkTree(t *testing.T, n *node) {
	t.Helper()
	type child struct {
		ID, State string
		Children  []child
	}
	var root child
	_, body := n.get("/tree", n.token())
	must(t, json.Unmarshal([]byte(body), &root))
	// What a directory store has no use for is ignored, and shown as OTP shows that.
	ignored := map[string]bool{"node/tiering/credentials": true, "node/tiering/upload_pool": true, "node/tiering/general_pool": true}
	var paths []string
	var walk func(at string, c child)
	walk = func(at string, c child) {
		paths = append(paths, at)
		if want := map[bool]string{false: "running", true: "undefined"}[ignored[at]]; c.State != want {
			t.Errorf("%s is %s, want %s", at, c.State, want)
		}
		for _, next := range c.Children {
			walk(at+"/"+next.ID, next)
		}
	}
	walk("node", root)
	all := strings.Join(paths, "\n") + "\n"
	for _, want := range []string{"node/admin\n", "node/log\n", "/writer\n", "node/tiering/manifest_replica\n", "node/tiering/reaper\n", "node/tiering/upload_pool\n",
		"node/tiering/store_monitor\n", "node/tiering/governor\n",
		"node/tiering/stream_factory\n", "/replica_reader\n", "node/tiering/reconciler\n", "node/captures\n", "node/keeper\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in the tree:\n%s", strings.TrimSpace(want), all)
		}
	}
}

// TestStreamCreate makes streams, and tries to make some that may not be.
func TestStreamCreate(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.start()
	n.millrace("streams").want(t, 0, "no streams")
	names := []string{"events", "with space", "日本", "a/b?c", strings.Repeat("x", 255)}
	for _, name := range names {
		a := n.millrace("stream", "create", name)
		a.want(t, 0, "created "+name+" (__")
		n.millrace("status", name).want(t, 0, "stream", name, "state", "running")
		n.millrace("read", name).want(t, 0)
	}
	n.millrace("stream", "create", "events").want(t, 1, `there is a stream "events" already`)
	n.millrace("stream", "create", "short", "--arg", "max-age=7D", "--arg", "max-length-bytes=1000000").want(t, 0, "created short")

	for name, says := range map[string]string{"": "empty", "amq.events": "reserved", "a\nb": "U+000A at byte 1", "a\u202eb": "U+202E at byte 1", "a//b": "at byte 2", " a": "begins with a space", strings.Repeat("x", 256): "at most 255"} {
		n.millrace("stream", "create", name).want(t, 1, "can't be created", says)
	}
	for arg, says := range map[string]string{"max-age=seven": "want digits and one of Y M D h m s", "max-length-bytes=-1": "want a whole number", "stream-max-segment-size-bytes=9999999999": "want a whole number"} {
		n.millrace("stream", "create", "refused", "--arg", arg).want(t, 1, "max-", says)
	}
	n.millrace("stream", "create", "refused", "--arg", "max-age").want(t, 2, "want KEY=VALUE")
	n.millrace("stream", "create", "refused", "--arg", "max-age=1D", "--arg", "max-age=2D").want(t, 2, "given twice")
	n.millrace("stream", "create").want(t, 2, "NAME is missing")
	n.millrace("stream", "create", "a", "b").want(t, 2, "one operand too many")
	n.millrace("status", "refused").want(t, 1, `there is no stream "refused"`)

	n.stop()
	n.millrace("streams").want(t, 1, "cannot reach the node", "millrace run")
	n.start()
	// Until all is known of a stream, a line of its own says what is not.
	eventually(t, 15*time.Second, "each stream has its line", func() (bool, string) {
		list := n.millrace("streams")
		list.want(t, 0, append(names, "short")...)
		return strings.Count(list.out, "\n") == 1+len(names)+1, list.out
	})
	n.millrace("stream", "create", "events").want(t, 1, "already")
}
