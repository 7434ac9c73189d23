package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"millrace/cmd/internal/httpadmin"
)

// answerTime bounds every request but the reading of records.
const answerTime = 40 * time.Second

// startTime is how long a command waits for a node on this machine that is perhaps just
// being started, and folderTime how long for its data folder.
const (
	startTime  = 5 * time.Second
	folderTime = time.Second
	lookAgain  = 50 * time.Millisecond
)

// maxAnswer bounds an answer that is held in memory, in bytes.
const maxAnswer = 64 << 20

// client talks to one node.
type client struct {
	base      string // URL without a slash at its end
	token     string
	tokenFile string
	config    string // the flag that names the node's configuration, "" without one
	patience  patience
	http      *http.Client
}

// patience is how a command waits for a node to come up.
type patience struct {
	dataDir string // of the node; "" if it is not known to be on this machine
	began   time.Time
}

// lost pauses, and reports whether it is time to give up: there is no node's folder, or
// its node took too long.
func (p patience) lost(ctx context.Context) bool {
	limit := startTime
	if _, err := os.Stat(p.dataDir); err != nil {
		limit = folderTime
	}
	if p.dataDir == "" || time.Since(p.began) >= limit {
		return true
	}
	select {
	case <-ctx.Done():
		return true
	case <-time.After(lookAgain):
		return false
	}
}

func newClient(ctx context.Context, g *globals) (*client, error) {
	s, err := g.settings()
	if err != nil {
		return nil, err
	}
	c := &client{base: "http://" + s.Admin.Listen, tokenFile: s.Admin.TokenFile}
	if g.config != "" {
		c.config = " --config " + quoted(g.config)
	}
	if g.admin == "" && g.tokenFile == "" {
		c.patience = patience{dataDir: s.Node.DataDir, began: time.Now()}
	}
	if g.admin != "" {
		u, err := url.Parse(g.admin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("--admin %q: want a URL such as http://127.0.0.1:7077", g.admin)
		}
		c.base = strings.TrimSuffix(g.admin, "/")
	}
	if g.tokenFile != "" {
		c.tokenFile = g.tokenFile
	}
	for {
		c.token, err = httpadmin.ReadToken(c.tokenFile)
		if !errors.Is(err, fs.ErrNotExist) || c.patience.lost(ctx) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{err: err, hint: "the node writes it when it first starts (millrace run); name its file with --token-file, or its configuration with --config"}
	}
	if err != nil {
		return nil, &failure{err: err}
	}
	// No proxy: the token is for this node only.
	c.http = &http.Client{Transport: &http.Transport{DisableCompression: true, ResponseHeaderTimeout: answerTime}}
	return c, nil
}

// send makes a request and returns an answer whose status is a success. While nobody
// listens, or what is asked for is not up yet, it waits for the node.
func (c *client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	for {
		resp, err := c.try(ctx, method, path, body)
		var f *failure
		early := errors.Is(err, syscall.ECONNREFUSED) || // nothing was sent
			errors.As(err, &f) && f.status == http.StatusServiceUnavailable && method == http.MethodGet
		if !early || c.patience.lost(ctx) {
			return resp, err
		}
	}
}

func (c *client) try(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, &failure{what: "cannot make the request", err: err}
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return nil, &failure{what: "cannot make the request", err: err}
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

func (c *client) unreachable(err error) error {
	hint := "look at its log"
	if errors.Is(err, syscall.ECONNREFUSED) {
		hint = "start it with: millrace run" + c.config + ", or name another one with --admin URL or --config FILE"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL is in our own words already
	}
	return &failure{what: "cannot reach the node at " + c.base, err: err, hint: hint}
}

// refused reads why the node did not do as it was asked.
func (c *client) refused(resp *http.Response) error {
	var r httpadmin.Refusal
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&r); err != nil || r.Error == "" {
		return &failure{what: fmt.Sprintf("%s answered %s, which is not an answer of Millrace", c.base, resp.Status), hint: "is --admin right?"}
	}
	if resp.StatusCode == http.StatusUnauthorized {
		r.Error = "the node at " + c.base + " does not take the token in " + c.tokenFile
		r.Hint = "name the node's own token file with --token-file, or its configuration with --config"
	}
	return &failure{what: r.Error, hint: r.Hint, status: resp.StatusCode, why: r.Why}
}

// call makes a request, reads the answer into into, and returns it as it came.
func (c *client) call(method, path string, body, into any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber() // an offset is larger than what a float holds
		err = dec.Decode(into)
	}
	if err != nil {
		return nil, &failure{what: "the answer of " + c.base + " cannot be read", err: err}
	}
	return raw, nil
}

// ask is call, and prints the answer: as it came with --json, else by show.
func ask[T any](g *globals, method, path string, body any, show func(w io.Writer, answer T)) error {
	c, err := newClient(context.Background(), g)
	if err != nil {
		return err
	}
	var answer T
	raw, err := c.call(method, path, body, &answer)
	if err != nil {
		return err
	}
	if g.json {
		_, err := g.out.Write(raw)
		return printed(err)
	}
	var b bytes.Buffer
	show(&b, answer)
	_, err = g.text().Write(b.Bytes())
	return printed(err)
}

func printed(err error) error {
	if err != nil {
		return &failure{what: "cannot write to standard output", err: err, local: true}
	}
	return nil
}
