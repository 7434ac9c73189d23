package consoletest

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// browser is a running Chromium.
type browser struct {
	cmd *exec.Cmd
	to  *os.File // its file descriptor 3: messages, each ended by a zero byte
	log *os.File

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	pages   map[string]*page // by session
	broken  error
}

// message is one of the protocol's: a call, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// launch starts the program with an empty profile in dir.
func launch(program, dir string) (*browser, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, into, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(dir + "/chromium.log")
	if err != nil {
		return nil, err
	}
	b := &browser{to: ours, log: log, waiting: map[int]chan message{}, pages: map[string]*page{}}
	b.cmd = exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--force-color-profile=srgb", "--remote-debugging-pipe", "--user-data-dir="+dir+"/profile", "about:blank")
	b.cmd.ExtraFiles = []*os.File{theirs, into}
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go b.listen(from)
	return b, errors.Join(theirs.Close(), into.Close())
}

// listen hands answers to whoever waits for them, and events to their pages.
func (b *browser) listen(from *os.File) {
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		var m message
		if err == nil {
			err = json.Unmarshal(text[:len(text)-1], &m)
		}
		b.mu.Lock()
		if err != nil {
			b.broken = fmt.Errorf("the browser is gone: %w", err)
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		answer, page := b.waiting[m.ID], b.pages[m.Session]
		if m.ID != 0 {
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case m.ID == 0 && page != nil:
			page.take(m)
		}
	}
}

// call asks the browser, or with a session a page of it, and reads the answer into
// result, which may be nil.
func (b *browser) call(ctx context.Context, session, method string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.broken != nil {
		defer b.mu.Unlock()
		return b.broken
	}
	b.last++
	m := message{ID: b.last, Session: session, Method: method, Params: text}
	answer := make(chan message, 1)
	b.waiting[m.ID] = answer
	if text, err = json.Marshal(m); err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return b.broken
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (b *browser) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := b.call(ctx, "", "Browser.close", struct{}{}, nil)
	if err != nil {
		err = errors.Join(err, b.cmd.Process.Kill())
	}
	return errors.Join(err, b.cmd.Wait(), b.to.Close(), b.log.Close())
}

// page is one tab.
type page struct {
	b       *browser
	ctx     context.Context
	session string

	mu       sync.Mutex
	problems []string // what its console complained of
}

// params are the arguments of a call.
type params map[string]any

// open opens a tab of its own storage, of the given size.
func (b *browser) open(ctx context.Context, width, height int, dark bool) (*page, error) {
	var of struct{ BrowserContextID, TargetID, SessionID string }
	if err := b.call(ctx, "", "Target.createBrowserContext", params{}, &of); err != nil {
		return nil, err
	}
	if err := b.call(ctx, "", "Target.createTarget", params{"url": "about:blank", "browserContextId": of.BrowserContextID}, &of); err != nil {
		return nil, err
	}
	if err := b.call(ctx, "", "Target.attachToTarget", params{"targetId": of.TargetID, "flatten": true}, &of); err != nil {
		return nil, err
	}
	p := &page{b: b, ctx: ctx, session: of.SessionID}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	var errs []error
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		errs = append(errs, p.call(domain+".enable", params{}, nil))
	}
	return p, errors.Join(append(errs, p.size(width, height), p.dark(dark))...)
}

func (p *page) call(method string, args params, result any) error {
	return p.b.call(p.ctx, p.session, method, args, result)
}

func (p *page) size(width, height int) error {
	return p.call("Emulation.setDeviceMetricsOverride", params{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

func (p *page) dark(dark bool) error {
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	return p.call("Emulation.setEmulatedMedia", params{"features": []params{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
	}}, nil)
}

// take keeps what the page's console complains of.
func (p *page) take(m message) {
	var e struct {
		Type             string
		Args             []struct{ Value, Description any }
		Entry            struct{ Level, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := json.Unmarshal(m.Params, &e); err != nil {
		return
	}
	problem := ""
	switch {
	case m.Method == "Runtime.exceptionThrown":
		problem = e.ExceptionDetails.Text + " " + e.ExceptionDetails.Exception.Description
	case m.Method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "warning" || e.Type == "assert"):
		problem = fmt.Sprint(e.Type, e.Args)
	case m.Method == "Log.entryAdded" && (e.Entry.Level == "error" || e.Entry.Level == "warning"):
		problem = e.Entry.Level + ": " + e.Entry.Text + " " + e.Entry.URL
	}
	if problem != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.problems = append(p.problems, problem)
	}
}

// complaints returns what the console complained of since the last call.
func (p *page) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.problems
	p.problems = nil
	return found
}

func (p *page) navigate(url string) error {
	var got struct{ ErrorText string }
	err := p.call("Page.navigate", params{"url": url}, &got)
	if err == nil && got.ErrorText != "" {
		err = errors.New(got.ErrorText)
	}
	return err
}

// eval evaluates an expression, a promise's outcome if it is one, and reads its value.
func (p *page) eval(expression string, value any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := p.call("Runtime.evaluate", params{"expression": expression, "awaitPromise": true, "returnByValue": true}, &got)
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s %s", expression, got.ExceptionDetails.Text, got.ExceptionDetails.Exception.Description)
	case value == nil || len(got.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(got.Result.Value, value)
}

// until waits until an expression is true, looking again every 50 ms. One that throws is
// not true yet: the page may just be loading.
func (p *page) until(limit time.Duration, expression string) error {
	late := time.After(limit)
	for {
		var yes bool
		if err := p.eval("(() => { try { return Boolean("+expression+") } catch { return false } })()", &yes); err == nil && yes {
			return nil
		}
		select {
		case <-late:
			var text string
			err := p.eval("document.body.innerText", &text)
			return errors.Join(fmt.Errorf("not within %v: %s\nthe page says:\n%.3000s", limit, expression, text), err)
		case <-time.After(50 * time.Millisecond):
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
}

// write types text into what has the focus.
func (p *page) write(text string) error { return p.call("Input.insertText", params{"text": text}, nil) }

// press presses a key that is no letter.
func (p *page) press(key string, code int, text string) error {
	down := params{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code}
	if text != "" {
		down["text"] = text
	}
	return errors.Join(p.call("Input.dispatchKeyEvent", down, nil), p.call("Input.dispatchKeyEvent", params{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}, nil))
}

func (p *page) enter() error { return p.press("Enter", 13, "\r") }
func (p *page) tab() error   { return p.press("Tab", 9, "") }

// shoot writes a picture of the window, or of the whole page, however long.
func (p *page) shoot(file string, whole bool) error {
	var got struct{ Data string }
	args := params{"format": "png", "captureBeyondViewport": whole}
	if whole {
		var size struct{ Width, Height float64 }
		if err := p.eval("({Width: document.documentElement.clientWidth, Height: Math.min(6000, document.documentElement.scrollHeight)})", &size); err != nil {
			return err
		}
		args["clip"] = params{"x": 0, "y": 0, "width": size.Width, "height": size.Height, "scale": 1}
	}
	if err := p.call("Page.captureScreenshot", args, &got); err != nil {
		return err
	}
	picture, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, picture, 0o644)
}
