package consoletest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/test/pgserver"
	"millrace/test/shop"
)

const (
	manyStreams = 1000
	root        = "../.."
)

// theatre is what all parts of the test share.
type theatre struct {
	program, axe, shots string
	dir                 string
	browser             *browser
	records             []string // segment files with records of a capture
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	dir := t.TempDir()
	h := theatre{dir: dir}
	var chromium string
	var all sync.WaitGroup
	errs := make([]error, 3)
	for i, do := range []func() error{
		func() (err error) { h.program, err = build(absolute(t, root), dir); return err },
		func() (err error) { chromium, err = need("need-chromium"); return err },
		func() (err error) { h.axe, err = need("need-axe"); return err },
	} {
		all.Go(func() { errs[i] = do() })
	}
	all.Wait()
	h.shots = absolute(t, root+"/bin/console")
	if err := errors.Join(append(errs, os.MkdirAll(h.shots, 0o755))...); err != nil {
		t.Fatal(err)
	}
	axe, err := os.ReadFile(h.axe)
	if err != nil {
		t.Fatal(err)
	}
	h.axe = string(axe)
	if h.browser, err = launch(chromium, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.browser.close(); err != nil {
			t.Log(err)
		}
	})
	return &h
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	at, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// need runs one of the scripts that install what a test needs, and returns what it
// prints last.
func need(script string) (string, error) {
	cmd := exec.Command(filepath.Join(root, "scripts", script))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", script, err)
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return "", fmt.Errorf("%s printed nothing", script)
	}
	return lines[len(lines)-1], nil
}

// enter opens the console and types the token in, as a person would.
func (h *theatre) enter(t *testing.T, n *node) *page {
	t.Helper()
	p, err := h.browser.open(t.Context(), 1280, 900, false)
	if err != nil {
		t.Fatal(err)
	}
	token, err := n.token()
	if err != nil {
		t.Fatal(err)
	}
	check(t, p.navigate("http://"+n.listen+"/"))
	check(t, p.until(10*time.Second, "document.activeElement.id === 'token'"))
	check(t, p.write(token))
	check(t, p.enter())
	check(t, p.until(10*time.Second, "document.querySelector('#view h1')"))
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// demand waits until each expression is true.
func demand(t *testing.T, p *page, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if err := p.until(30*time.Second, e); err != nil {
			t.Error(err)
		}
	}
}

func says(text string) string {
	return fmt.Sprintf("document.body.innerText.includes(%q)", text)
}

// clean demands that the page's console was silent.
func clean(t *testing.T, p *page) {
	t.Helper()
	for _, c := range p.complaints() {
		t.Errorf("the page's console says: %s", c)
	}
}

// accessible runs axe on the page as it is.
func (h *theatre) accessible(t *testing.T, p *page, what string) {
	t.Helper()
	var there bool
	if check(t, p.eval("'axe' in window", &there)); !there {
		check(t, p.eval(h.axe, nil))
	}
	var found []string
	check(t, p.eval(`axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v =>
		v.id + ' (' + v.impact + '): ' + v.help + ': ' + v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary).join(' | ')))`, &found))
	for _, f := range found {
		t.Errorf("%s: axe: %s", what, f)
	}
}

// pictures takes the page in two sizes and two schemes, checks each for accessibility,
// and demands that nothing is wider than the window.
func (h *theatre) pictures(t *testing.T, p *page, name string) {
	t.Helper()
	check(t, p.eval("document.activeElement.blur()", nil))
	for _, size := range []struct{ width, height int }{{1280, 900}, {390, 844}} {
		for _, dark := range []bool{false, true} {
			what := fmt.Sprintf("%s-%d-%s", name, size.width, map[bool]string{true: "dark", false: "light"}[dark])
			check(t, errors.Join(p.size(size.width, size.height), p.dark(dark)))
			check(t, p.eval("window.scrollTo(0, 0)", nil))
			demand(t, p, fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: dark)').matches === %v", size.width, dark))
			check(t, p.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))", nil))
			check(t, p.shoot(filepath.Join(h.shots, what+".png"), false))
			demand(t, p, "document.documentElement.scrollWidth <= innerWidth")
			if dark == (size.width < 600) { // each size and each scheme once
				check(t, p.shoot(filepath.Join(h.shots, what+"-whole.png"), true))
				h.accessible(t, p, what)
			}
		}
	}
	check(t, errors.Join(p.size(1280, 900), p.dark(false)))
}

// TestConsole plays everything in one go: to make a browser, a database and a node is
// what takes the time.
func TestConsole(t *testing.T) {
	h := newTheatre(t)
	t.Run("the door", h.door)
	t.Run("a live capture", h.liveCapture)
	t.Run("a thousand streams", h.thousandStreams)
}

// door: without a token there is a form and nothing of the node; a wrong one is told
// so; the right one is kept in the tab, and never in a URL.
func (h *theatre) door(t *testing.T) {
	n, err := raise(h.program, t.TempDir(), "door", "")
	check(t, err)
	defer stop(t, n)
	p, err := h.browser.open(t.Context(), 1280, 900, false)
	check(t, err)
	check(t, p.navigate("http://"+n.listen+"/"))
	demand(t, p, "document.activeElement.id === 'token'", says("Admin token"), "!document.querySelector('#view').hasChildNodes()")
	h.accessible(t, p, "the form")
	check(t, p.shoot(filepath.Join(h.shots, "door.png"), false))
	clean(t, p)
	check(t, p.write("a-wrong-token-of-some-length"))
	check(t, p.enter())
	demand(t, p, says("The node does not take this token."), "document.activeElement.id === 'token'", "sessionStorage.getItem('millrace.token') === null")
	if c := p.complaints(); len(c) != 1 || !strings.Contains(c[0], "401") {
		t.Errorf("a wrong token made the console say %q", c)
	}
	token, err := n.token()
	check(t, err)
	check(t, p.write(token))
	check(t, p.enter())
	demand(t, p, says("Everything runs; there is no stream yet."), says("millrace stream create NAME"))
	check(t, p.navigate("http://"+n.listen+"/"))
	demand(t, p, says("Everything runs; there is no stream yet."))
	var urls []string
	check(t, p.eval("[location.href, ...performance.getEntries().map(e => e.name)]", &urls))
	for _, u := range urls {
		if strings.Contains(u, token) {
			t.Errorf("the token stands in %s", u)
		}
	}
	if len(urls) < 4 {
		t.Errorf("the page asked for %q only", urls)
	}
	check(t, p.eval("document.getElementById('forget').click()", nil))
	demand(t, p, "document.activeElement.id === 'token'", "sessionStorage.getItem('millrace.token') === null", "!document.querySelector('#view').hasChildNodes()")
	clean(t, p)
}

func stop(t *testing.T, n *node) {
	t.Helper()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
}

// liveCapture: a database under load, captured and stored; the store goes away for a
// while, so that a gap is declared; the server goes away, and the page says what to do.
func (h *theatre) liveCapture(t *testing.T) {
	dir, err := os.MkdirTemp("", "millrace-console-")
	check(t, err)
	defer func() { check(t, os.RemoveAll(dir)) }()
	check(t, os.Chmod(dir, 0o755))
	server, err := pgserver.Start(filepath.Join(dir, "postgres"))
	check(t, err)
	defer func() { check(t, server.Remove()) }()
	admin, err := shop.Create(t.Context(), server.DSN(), 300)
	check(t, err)
	captured, err := shop.URL(admin, shop.Role, shop.Database)
	check(t, err)
	n, err := raise(h.program, dir+"/node", "mill-1", fmt.Sprintf(captureConfig, captured, shop.Publication))
	check(t, err)
	defer stop(t, n)
	writers := shop.Start(admin, 2, 50*time.Millisecond, 1)
	p := h.enter(t, n)
	demand(t, p, says("Everything runs."), says("streaming"), says("Retained WAL"), "document.querySelector('.stream .range .store')",
		"document.querySelector('.stream .range .disk')", "document.querySelectorAll('.stream .stage').length === 3", "[...document.querySelectorAll('.stage .fill')].some(bar => Number(bar.getAttribute('width')) > 0)")
	h.gap(t, n, p)
	h.live(t, p)
	h.keyboard(t, p)
	h.pictures(t, p, "capture")
	clean(t, p)
	h.keepRecords(t, n)
	writers.Stop()
	check(t, server.Stop(pgserver.Immediate))
	demand(t, p, "document.querySelector('.card .box.wait')", says("tried again in"), "document.querySelector('.head .alert')")
	h.pictures(t, p, "waiting")
	check(t, p.eval("window.scrollTo(0, 0)", nil))
	clean(t, p)
}

const captureConfig = `
[log]
segment_max_bytes = "128KiB"
[local]
min_bytes = "3MiB"
[tiering]
fragment_bytes = "1MiB"
fragment_max_age = "2s"
persist_interval = "500ms"
[[capture]]
name = "shop"
url = %q
publication = %q
max_value = "100KiB"
`

// gap takes the store away, and the room on local disk, until records are lost; then it
// gives both back.
func (h *theatre) gap(t *testing.T, n *node, p *page) {
	t.Helper()
	const retention = "/streams/shop/retention"
	check(t, os.WriteFile(n.outage(), nil, 0o644))
	check(t, n.until(25*time.Second, func() bool { // until much is on local disk alone
		st := where(t, n)
		return st.Next > st.SeamNext+3000
	}))
	check(t, n.ask(t.Context(), "PUT", retention, `{"local_max_bytes":400000,"local_min_bytes":0}`, nil))
	check(t, n.until(25*time.Second, func() bool { // not what is uploaded, of which the list does not tell yet
		st := where(t, n)
		return st.LocalFirst > st.SeamNext+200 && len(st.Undeclared) > 0
	}))
	check(t, n.ask(t.Context(), "PUT", retention, `{"local_max_bytes":null,"local_min_bytes":null}`, nil))
	check(t, os.Remove(n.outage()))
	demand(t, p, says("lost in 1 gap"), "document.querySelector('.stream .range .gap')")
}

type offsets struct {
	Next       int `json:"next"`
	LocalFirst int `json:"local_first"`
	SeamNext   int `json:"seam_next"`
	Undeclared []struct {
		To int `json:"to"`
	} `json:"undeclared_gaps"`
}

func where(t *testing.T, n *node) (st offsets) {
	t.Helper()
	if err := n.ask(t.Context(), "GET", "/streams/shop", "", &st); err != nil {
		t.Error(err)
	}
	return st
}

// keepRecords copies some of the capture's segments, for streams that would have none.
func (h *theatre) keepRecords(t *testing.T, n *node) {
	t.Helper()
	found, err := filepath.Glob(n.dir + "/data/streams/*/*.segment")
	check(t, err)
	dir := h.dir
	for _, from := range found[:min(8, len(found)-1)] { // the newest is being written
		text, err := os.ReadFile(from)
		check(t, err)
		to := filepath.Join(dir, filepath.Base(from))
		check(t, os.WriteFile(to, text, 0o644))
		h.records = append(h.records, to)
	}
}

// live: numbers change by themselves, what was opened or has the focus stays, and a
// paused page stands still.
func (h *theatre) live(t *testing.T, p *page) {
	t.Helper()
	check(t, p.eval(`(() => {
		window.kept = document.querySelector('.stream h3');
		window.before = document.querySelector('.stream .ends').innerText;
		document.querySelector('[data-key="node/log"] > details').open = true;
		document.querySelector('[data-key="node/tiering"] > details').open = false;
		document.querySelector('.title button').focus();
	})()`, nil))
	demand(t, p, "document.querySelector('.stream .ends').innerText !== window.before")
	var same bool
	check(t, p.eval(`window.kept === document.querySelector('.stream h3') && document.querySelector('[data-key="node/log"] > details').open &&
		!document.querySelector('[data-key="node/tiering"] > details').open && document.activeElement === document.querySelector('.title button')`, &same))
	if !same {
		t.Error("the page was replaced, and not brought up to date")
	}
	check(t, p.eval("document.getElementById('pause').click()", nil))
	demand(t, p, "document.getElementById('live').innerText.startsWith('paused')")
	check(t, p.eval(`(window.before = document.querySelector('.stream .ends').innerText, new Promise(done => setTimeout(done, 1500)))`, nil))
	check(t, p.eval("window.before === document.querySelector('.stream .ends').innerText", &same))
	if !same {
		t.Error("a paused page moves")
	}
	check(t, p.eval("document.getElementById('pause').click()", nil))
	demand(t, p, "document.querySelector('.stream .ends').innerText !== window.before", "document.title.includes('mill-1')")
	check(t, p.eval(`document.querySelector('[data-key="node/tiering"] > details').open = true`, nil))
}

// keyboard: every control can be reached by Tab and used from there.
func (h *theatre) keyboard(t *testing.T, p *page) {
	t.Helper()
	check(t, p.eval("(document.activeElement.blur(), window.scrollTo(0, 0))", nil))
	reached := map[string]bool{}
	for range 30 {
		check(t, p.tab())
		var at string
		check(t, p.eval("document.activeElement.id || document.activeElement.dataset.set || document.activeElement.className || document.activeElement.localName", &at))
		if reached["troubled"] = reached["troubled"] || at == "troubled"; at == "troubled" && !reached["pressed"] {
			reached["pressed"] = true
			check(t, p.enter())
			demand(t, p, "document.activeElement.getAttribute('aria-pressed') === 'true'", says("No stream is as you ask."))
			check(t, p.enter())
			demand(t, p, "document.querySelector('.stream')", "document.activeElement.getAttribute('aria-pressed') === 'false'")
		}
		reached[at] = true
	}
	for _, want := range []string{"skip", "search", "pause", "forget", "troubled", "summary", "problems"} {
		if !reached[want] {
			t.Errorf("Tab does not reach %s, but %v", want, reached)
		}
	}
}

// thousandStreams: the page is quick and readable, and the one stream that crashes for
// ever stands first, says why, and is found by the search as any other.
func (h *theatre) thousandStreams(t *testing.T) {
	dir := quickDir(t)
	n, err := raise(h.program, dir, "mill-2", thousandConfig)
	check(t, err)
	defer stop(t, n)
	createAll(t, n)
	h.fill(t, n)
	p := h.enter(t, n)
	demand(t, p, says("1 stream is in trouble."), says("1 in trouble"), "document.querySelector('.stream h3').innerText === '"+doomed+"'", says("uploading is parked: 5 restarts"), says("a planted bug"),
		"document.querySelectorAll('.stream').length === 20", says("1 to 20 of 1,000"), says("1 parked, 999 running"), says("max intensity"),
		"document.querySelectorAll('.range .store').length > 10")
	var took float64
	check(t, p.eval("performance.getEntriesByType('resource').filter(e => e.name.includes('/console/view')).at(-1).duration", &took))
	t.Logf("a look at %d streams takes %.0f ms", manyStreams, took)
	h.pictures(t, p, "thousand")
	check(t, p.eval("document.querySelector('[data-set=offset][data-key=next]').click()", nil))
	demand(t, p, says("21 to 40 of 1,000"))
	check(t, p.eval(`(() => {
		const log = document.querySelector('[data-key="node/log"] > details');
		log.open = true;
		log.querySelector(':scope > .pager [data-key=next]').click();
	})()`, nil))
	demand(t, p, says("9 to 16 of 1,000"), says("21 to 40 of 1,000"))
	check(t, p.eval("(document.getElementById('search').focus(), document.getElementById('search').select())", nil))
	check(t, p.write("stream-07"))
	demand(t, p, says("1 to 20 of 100"), "document.querySelector('.stream h3').innerText === 'stream-0700'")
	check(t, p.eval("(document.getElementById('search').select())", nil))
	check(t, p.write(doomed))
	demand(t, p, "document.querySelectorAll('.stream').length === 1", `document.querySelector('[data-key="node/tiering/stream_factory"]').innerText.includes('parked')`)
	check(t, p.shoot(filepath.Join(h.shots, "thousand-search.png"), false))
	clean(t, p)
}

const thousandConfig = `
[log]
sync = "never"
[local]
min_bytes = "300KiB"
[tiering]
reconcile_interval = "20s"
fragment_bytes = "4MiB"
fragment_max_age = "5s"
`

// fill stops the node, puts records that were captured elsewhere into the first few
// streams, each another part of them, and starts it again.
func (h *theatre) fill(t *testing.T, n *node) {
	t.Helper()
	check(t, n.stop())
	folders, err := filepath.Glob(n.dir + "/data/streams/*")
	check(t, err)
	slices.Sort(folders)
	for i, folder := range folders[:min(36, len(folders))] {
		old, err := filepath.Glob(folder + "/*")
		check(t, err)
		for _, file := range old {
			check(t, os.Remove(file))
		}
		first := i * 5 % 3
		for _, from := range h.records[first : first+1+i*7%(len(h.records)-first)] {
			text, err := os.ReadFile(from)
			check(t, err)
			check(t, os.WriteFile(filepath.Join(folder, filepath.Base(from)), text, 0o644))
		}
	}
	check(t, n.start(h.program))
}

// quickDir is a folder in memory where there is one: what a disk's fsync costs is not
// what is looked at here.
func quickDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "millrace-console-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// createAll creates the streams, several at a time.
func createAll(t *testing.T, n *node) {
	t.Helper()
	names := make(chan string, manyStreams)
	names <- doomed
	for i := 1; i < manyStreams; i++ {
		names <- fmt.Sprintf("stream-%04d", i)
	}
	close(names)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for name := range names {
				if err := n.ask(t.Context(), "POST", "/streams", fmt.Sprintf(`{"name":%q}`, name), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
