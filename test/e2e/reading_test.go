package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
	"millrace/test/fold"
)

// record is one line of a reading.
type record struct {
	Offset    pos.Offset
	Timestamp time.Time
	Record    json.RawMessage
}

func (r *record) event(t *testing.T) *fold.Event {
	t.Helper()
	e, err := fold.ParseEvent(r.Record)
	must(t, err)
	return &e
}

// reading is a command that reads while the test looks on.
type reading struct {
	*process
	out *bufio.Reader
	err bytes.Buffer
}

// read starts a reading of the command. Close its output, or read it to its end.
func (n *node) read(args ...string) *reading {
	n.t.Helper()
	cmd := exec.Command(binary, append([]string{"read", "--config", n.configFile()}, args...)...)
	// A pipe of our own: Wait must not close it under the reader.
	in, out := io.Pipe()
	r := &reading{out: bufio.NewReaderSize(in, 1<<20)}
	cmd.Stdout, cmd.Stderr = out, &r.err
	r.process = begin(n.t, cmd)
	go func() {
		<-r.ended
		// The reader sees the end of what there was; it never sees this fail.
		if err := out.Close(); err != nil {
			panic(err)
		}
	}()
	return r
}

// next gives the reading's next record; ok is false behind the last.
func (r *reading) next(t *testing.T) (rec record, ok bool) {
	t.Helper()
	line, err := r.out.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return rec, false
	}
	must(t, err)
	if !bytes.HasPrefix(line, []byte(`{"offset":`)) {
		t.Fatalf("not a record: %.300s", line)
	}
	must(t, json.Unmarshal(line, &rec))
	return rec, true
}

// readAll reads what there is from a place on, all of which must be printed.
func (n *node) readAll(stream, from string, visit func(record)) {
	n.t.Helper()
	r := n.read(stream, "--from", from)
	for {
		rec, ok := r.next(n.t)
		if !ok {
			break
		}
		visit(rec)
	}
	if code := r.wait(n.t, 10*time.Second); code != 0 || r.err.Len() > 0 {
		n.t.Fatalf("millrace read %s --from %s: exit code %d: %s", stream, from, code, &r.err)
	}
}

// records runs a reading of the command to its end and gives what it printed.
func (n *node) records(args ...string) []record {
	n.t.Helper()
	a := n.millrace(append([]string{"read"}, args...)...)
	if a.code != 0 || a.err != "" {
		n.t.Fatalf("millrace read %v: exit code %d: %s", args, a.code, a.err)
	}
	return parse(n.t, a.out)
}

func parse(t *testing.T, out string) []record {
	t.Helper()
	var all []record
	for line := range bytes.Lines([]byte(out)) {
		var r record
		must(t, json.Unmarshal(line, &r))
		all = append(all, r)
	}
	return all
}

// nothing reads from a place behind the last record: the command names that one, and it
// is no failure.
func (n *node) nothing(stream, from string, last pos.Offset) {
	n.t.Helper()
	if a := n.millrace("read", stream, "--from", from); a.code != 0 || a.out != "" || !strings.Contains(a.err, "ends at offset "+last.String()) {
		n.t.Errorf("read --from %s: exit code %d, %q, %s", from, a.code, a.out, a.err)
	}
}

// fetch reads over HTTP. The answer must be whole.
func (n *node) fetch(stream, from string, limit int) ([]record, error) {
	path := "http://" + n.listen + "/streams/" + stream + "/records?from=" + from
	if limit > 0 {
		path += "&limit=" + strconv.Itoa(limit)
	}
	req, err := http.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+n.token())
	resp, err := (&http.Client{Timeout: 40 * time.Second}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || resp.Trailer.Get("X-Millrace-Complete") != "true" {
		return nil, fmt.Errorf("%s, complete %q: %.300s", resp.Status, resp.Trailer.Get("X-Millrace-Complete"), body)
	}
	var all []record
	for line := range bytes.Lines(body) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%.200s: %w", line, err)
		}
		all = append(all, r)
	}
	return all, nil
}
