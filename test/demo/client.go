package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"millrace/core/pos"
	"millrace/test/fold"
)

// client speaks to the node's admin surface.
type client struct {
	node *node
	http http.Client
}

// streamStatus is what the demo reads of a stream's status.
type streamStatus struct {
	Next        pos.Offset `json:"next"`
	LocalFirst  pos.Offset `json:"local_first"`
	SeamNext    pos.Offset `json:"seam_next"`
	RemoteBytes int64      `json:"remote_bytes"`
}

// line is one line of a reading.
type line struct {
	Offset *pos.Offset     `json:"offset"`
	Record *fold.Event     `json:"record"`
	Moved  json.RawMessage `json:"moved"`
	Error  string          `json:"error"`
}

const stream = "shop"

// readTime bounds a reading, which takes some seconds: a demo that hangs proves nothing.
const readTime = 5 * time.Minute

// get asks for a path. The caller closes the body.
func (c *client) get(ctx context.Context, path string) (*http.Response, error) {
	token, err := os.ReadFile(c.node.tokenFile())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.node.listen+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return nil, errors.Join(fmt.Errorf("GET %s: %s: %s", path, resp.Status, body), err, resp.Body.Close())
	}
	return resp, nil
}

// status asks for the stream's status.
func (c *client) status(ctx context.Context) (streamStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var s streamStatus
	resp, err := c.get(ctx, "/streams/"+stream)
	if err != nil {
		return s, err
	}
	return s, errors.Join(json.NewDecoder(resp.Body).Decode(&s), resp.Body.Close())
}

// read visits the stream's records from the given place on, and makes sure that
// the answer was whole. Lines are read and parsed ahead of the visitor.
func (c *client) read(ctx context.Context, from string, visit func(pos.Offset, *fold.Event) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	resp, err := c.get(ctx, "/streams/"+stream+"/records?from="+from)
	if err != nil {
		return err
	}
	ahead := make(chan []parsed, 8)
	stop := make(chan struct{})
	var failed error // of the reading; to be looked at when ahead is closed
	go func() {
		defer close(ahead)
		failed = parse(bufio.NewReaderSize(resp.Body, 1<<20), ahead, stop)
	}()
	defer func() {
		close(stop)
		err = errors.Join(err, resp.Body.Close())
		for range ahead { // until the other goroutine has ended
		}
	}()
	for batch := range ahead {
		for _, p := range batch {
			if err := visit(p.at, p.event); err != nil {
				return err
			}
		}
	}
	if failed != nil {
		return failed
	}
	if got := resp.Trailer.Get("X-Millrace-Complete"); got != "true" {
		return fmt.Errorf("read the stream: the answer ended without its mark of being whole (%q)", got)
	}
	return nil
}

// parsed is a record of the stream.
type parsed struct {
	at    pos.Offset
	event *fold.Event
}

// parse sends the records in lines in batches, until the end, an error or a stop.
func parse(lines *bufio.Reader, out chan<- []parsed, stop <-chan struct{}) error {
	const size = 256
	for {
		var err error
		batch := make([]parsed, 0, size)
		for err == nil && len(batch) < size {
			var text []byte
			var p parsed
			if text, err = readLine(lines); err == nil {
				p.at, p.event, err = parseLine(text)
			} else if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("read the stream: %w", err)
			}
			if err == nil {
				batch = append(batch, p)
			}
		}
		select {
		case out <- batch:
		case <-stop:
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line, however long, and io.EOF behind the last; what it returns
// is valid until the next.
func readLine(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := append([]byte(nil), text...)
		text, err = r.ReadBytes('\n')
		text = append(long, text...)
	}
	if errors.Is(err, io.EOF) && len(text) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

func parseLine(text []byte) (pos.Offset, *fold.Event, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return 0, nil, fmt.Errorf("read the stream: line %.200q: %w", text, err)
	}
	switch {
	case l.Error != "":
		return 0, nil, fmt.Errorf("read the stream: the node says: %s", text)
	case l.Moved != nil:
		return 0, nil, fmt.Errorf("read the stream: records are gone that nothing may have trimmed: %s", text)
	case l.Offset == nil || l.Record == nil:
		return 0, nil, fmt.Errorf("read the stream: line %.200q is no record of a capture", text)
	}
	return *l.Offset, l.Record, nil
}
