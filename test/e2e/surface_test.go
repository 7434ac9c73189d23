package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
)

// answer is what a command said and how it ended.
type answer struct {
	code     int
	out, err string
}

// millrace runs a command of the program to its end, with the node's configuration.
func (n *node) millrace(args ...string) answer {
	n.t.Helper()
	return command(n.t, append(args, "--config", n.configFile())...)
}

// command runs the program to its end.
func command(t *testing.T, args ...string) answer {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	code := begin(t, cmd).wait(t, time.Minute)
	return answer{code, out.String(), err.String()}
}

// want fails the test unless the command ended with code, and said each part on
// standard error if code is not 0, on standard output else.
func (a answer) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	said := a.out
	if code != 0 {
		said = a.err
	}
	if a.code != code {
		t.Errorf("exit code %d, want %d: %.500s%.500s", a.code, code, a.out, a.err)
	}
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not said in: %.1000s", part, said)
		}
	}
}

// leaks reports a text that holds a secret.
func leaks(secret string, texts ...string) error {
	for _, text := range texts {
		if i := strings.Index(text, secret); i >= 0 {
			return fmt.Errorf("the secret %q stands in: ...%s", secret, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	return nil
}

// get asks for a path with a token ("" for none). While the node does not answer the
// status is 0.
func (n *node) get(path, token string) (status int, body string) {
	n.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+n.listen+path, nil)
	must(n.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Timeout: 40 * time.Second}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	// An answer may break off on purpose: what it holds then says so.
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// token is the node's; "" as long as it has none.
func (n *node) token() string {
	n.t.Helper()
	b, err := os.ReadFile(n.tokenFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// streamStatus is what tests look at of /streams/NAME.
type streamStatus struct {
	State      string
	Why        string
	First      pos.Offset
	Next       pos.Offset
	LocalFirst pos.Offset `json:"local_first"`
	LocalBytes int64      `json:"local_bytes"`
	SeamNext   pos.Offset `json:"seam_next"`
	Capture    captureStatus
	Tiering    struct {
		Stream   struct{ Why string } `json:"stream"`
		Pipeline struct {
			StalledWhy string `json:"stalled_why"`
		} `json:"upload_pipeline"`
		Remote struct {
			Fragments int
		} `json:"remote_tier"`
	}
}

type captureStatus struct {
	State    string
	Doing    string
	Slot     string
	Retained int64 `json:"retained_bytes"`
	Losses   int64
	Load     *struct{ Total int64 }
	Waiting  *struct{ Why, Hint string }
	Warnings []struct{ Why, Hint string }
}

// status asks for a stream; ok is false while the node does not tell.
func (n *node) status(stream string) (s streamStatus, ok bool) {
	n.t.Helper()
	code, body := n.get("/streams/"+stream, n.token())
	if code != http.StatusOK {
		return s, false
	}
	must(n.t, json.Unmarshal([]byte(body), &s))
	return s, true
}

// until polls the status of a stream.
func (n *node) until(limit time.Duration, stream, what string, done func(s streamStatus) bool) streamStatus {
	n.t.Helper()
	var last streamStatus
	saw, ok := poll(limit, func() (bool, string) {
		n.alive()
		s, ok := n.status(stream)
		if ok {
			last = s
		}
		b, err := json.Marshal(last)
		must(n.t, err)
		return ok && done(s), string(b)
	})
	if !ok {
		n.t.Fatalf("waited %s until %s, in vain: %s\nthe end of the node's log:\n%s", limit, what, saw, n.logTail())
	}
	return last
}

// streaming waits until the capture of a stream streams.
func (n *node) streaming(stream string, limit time.Duration) streamStatus {
	n.t.Helper()
	return n.until(limit, stream, "the capture streams", func(s streamStatus) bool { return s.Capture.State == "streaming" })
}

// reasons are those of /readyz, a line each, and whether it says ready.
func (n *node) reasons() (ready bool, reasons string) {
	n.t.Helper()
	code, body := n.get("/readyz", "")
	var said struct{ Reasons []string }
	if code == 0 || json.Unmarshal([]byte(body), &said) != nil {
		return false, body
	}
	return code == http.StatusOK, strings.Join(said.Reasons, "\n")
}

// metric sums the series of a metric that have all the labels, given as `name="value"`.
func (n *node) metric(name string, labels ...string) float64 {
	n.t.Helper()
	_, body := n.get("/metrics", "")
	sum := 0.0
	for line := range strings.Lines(body) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		family, _, _ := strings.Cut(series, "{")
		lacks := func(l string) bool { return !strings.Contains(series, l) }
		if !ok || family != name || slices.ContainsFunc(labels, lacks) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		must(n.t, err)
		sum += v
	}
	return sum
}
