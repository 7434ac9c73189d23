package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/actors/admin"
	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/core/renew"
	"millrace/core/upload"
	"millrace/supervision"
)

// fakeNode answers from its fields; what the page does not ask is nil.
type fakeNode struct {
	admin.Node
	status  admin.NodeStatus
	streams []admin.StreamStatus
	gaps    []admin.Gap
	tree    func(q admin.TreeQuery) (admin.TreeNode, error)
	events  []admin.Event
	tiering admin.Tiering
	err     error
}

func (n *fakeNode) Status(context.Context) admin.NodeStatus { return n.status }
func (n *fakeNode) Streams(context.Context) ([]admin.StreamStatus, error) {
	return n.streams, n.err
}
func (n *fakeNode) Gaps(pos.StreamID) []admin.Gap { return n.gaps }
func (n *fakeNode) Tiering() admin.Tiering        { return n.tiering }
func (n *fakeNode) Events(uint64) admin.Events    { return admin.Events{Events: n.events} }
func (n *fakeNode) Tree(q admin.TreeQuery) (admin.TreeNode, error) {
	if n.tree != nil {
		return n.tree(q)
	}
	return admin.TreeNode{Node: supervision.Node{ID: "node", Path: "node", State: "running"}}, nil
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func stored(name string) admin.StreamStatus {
	return admin.StreamStatus{
		ID: "__" + name + "_1", Name: name, State: "running", First: 0, Next: 1000, LocalFirst: 800, LocalBytes: 200 << 10,
		RemoteFirst: 0, SeamNext: 900, RemoteBytes: 900 << 10,
	}
}

func look(t *testing.T, n *fakeNode, q Query) (View, string) {
	t.Helper()
	v, err := Look(context.Background(), n, q, noon)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Render(&b, v); err != nil {
		t.Fatal(err)
	}
	return v, b.String()
}

func TestRangeIsDrawnToScale(t *testing.T) {
	s := stored("shop")
	r := drawRange(s, []admin.Gap{{From: 300, To: 500}})
	if !slices.Equal(r.Store, []Part{{0, 300}, {500, 400}}) || !slices.Equal(r.Disk, []Part{{800, 200}}) || !slices.Equal(r.Gaps, []Part{{300, 200}}) {
		t.Errorf("drawn as %+v", r)
	}
	if *r.Seam != (Part{900 - sliver/2, sliver}) || r.NotStored != 100 || r.GapRecords != 200 {
		t.Errorf("drawn as %+v with seam %+v", r, r.Seam)
	}
	if want := "In the store: offsets 0 to 899, 900 KiB. On disk: offsets 800 to 999, 200 KiB. Lost: 200 records in gaps."; r.Words != want {
		t.Errorf("in words %q", r.Words)
	}
	s.SeamNext, s.LocalFirst, s.Undeclared = 700, 999, []admin.Gap{{From: 700, To: 999}}
	r = drawRange(s, nil)
	if !slices.Equal(r.Gaps, []Part{{700, 299}}) || r.Disk[0] != (Part{scale - sliver, sliver}) || r.NotStored != 1 {
		t.Errorf("what is lost and not declared yet is drawn as %+v", r)
	}
	s.RemoteFirst, s.SeamNext, s.First, s.LocalFirst = -1, -1, 999, 999
	s.Undeclared[0].From = 0
	if r = drawRange(s, nil); r.Gaps != nil || r.Disk[0] != (Part{0, scale}) {
		t.Errorf("what is lost before all that can be read is drawn as %+v", r)
	}
	s.RemoteFirst, s.SeamNext, s.First, s.LocalFirst, s.Undeclared = -1, -1, 0, 0, nil
	if r = drawRange(s, nil); r.Seam != nil || r.Store != nil || r.Disk[0] != (Part{0, scale}) || r.NotStored != 1000 {
		t.Errorf("what is on disk alone is drawn as %+v", r)
	}
	s.First, s.LocalFirst, s.RemoteState, s.RemoteWhy = -1, 500, admin.RemoteUnknown, "its manifest is being read"
	if r = drawRange(s, nil); r.Disk[0] != (Part{0, scale}) || r.First != 500 || !strings.HasPrefix(r.Words, "In the store: not known: its manifest is being read. On disk: offsets 500") {
		t.Errorf("a store of which nothing is known is drawn as %+v", r)
	}
	s.RemoteState, s.RemoteWhy, s.First, s.LocalFirst, s.Next = admin.RemoteKnown, "", 500, 500, 500
	if r = drawRange(s, nil); r.Words != "Nothing is left: retention has removed all that was written." || r.Disk != nil {
		t.Errorf("what retention has emptied is drawn as %+v", r)
	}
	s.First, s.Next, s.LocalFirst = -1, -1, -1
	if r = drawRange(s, nil); r.Words != "Nothing is written yet." || r.Disk != nil {
		t.Errorf("nothing is drawn as %+v", r)
	}
}

// "All well" never stands beside lost records, be they declared or not yet.
func TestLostRecordsAreNotWell(t *testing.T) {
	n := &fakeNode{status: admin.NodeStatus{Node: "n1", Ready: true}, tiering: admin.Tiering{Enabled: true, State: "enabled"}, streams: []admin.StreamStatus{stored("a"), stored("b"), stored("c")}}
	if v, page := look(t, n, Query{}); v.Streams.Gapped != 0 || !strings.Contains(page, "3, all well") {
		t.Errorf("without a gap %+v", v.Streams)
	}
	n.streams[1].Gaps = 1
	n.streams[2].SeamNext, n.streams[2].LocalFirst, n.streams[2].Undeclared = 700, 800, []admin.Gap{{From: 700, To: 800}}
	if v, page := look(t, n, Query{}); v.Streams.Gapped != 2 || strings.Contains(page, "all well") || !strings.Contains(page, "2 with lost records") {
		t.Errorf("with gaps %+v", v.Streams)
	}
	n.streams[0].Trouble = "the disk is full"
	if _, page := look(t, n, Query{}); !strings.Contains(page, "1 in trouble") || !strings.Contains(page, "2 with lost records") {
		t.Error("trouble hides the lost records")
	}
}

func TestStagesAreBars(t *testing.T) {
	s := stored("shop")
	if bars(s, 1000) != nil {
		t.Error("a stream that nobody uploads has stages")
	}
	u := upload.Status{Fragment: upload.FragmentStatus{Bytes: 250}}
	u.Pipeline = upload.PipelineStatus{Uploading: 2, Cut: 1, Bytes: 4000, BytesInPersist: 1, EditsInPersist: 1}
	s.Tiering = u
	want := []Bar{{"assembly", 25, "250 B", ""}, {"transfer", 50, "3.91 KiB", "3 objects"}, {"persist", 1, "1 B", "1 edit"}}
	if got := bars(s, 1000); !slices.Equal(got, want) {
		t.Errorf("drawn as %+v", got)
	}
	u.Pipeline.Bytes = 1 << 40
	if s.Tiering = u; bars(s, 1000)[1].Fill != 100 || bars(s, 0)[1].Fill != 0 {
		t.Error("a bar is fuller than full, or filled against nothing")
	}
}

// A thousand streams, one of them in trouble: that one is first, on the first page, and
// nothing else is lost from any page.
func TestTroubleComesFirst(t *testing.T) {
	n := &fakeNode{status: admin.NodeStatus{Node: "n1", Ready: true}, tiering: admin.Tiering{Enabled: true, State: "enabled"}}
	for i := range 1000 {
		s := stored(fmt.Sprintf("s%04d", i))
		if i == 777 {
			s.Trouble = "uploading is parked"
		}
		n.streams = append(n.streams, s)
	}
	v, page := look(t, n, Query{})
	if v.Streams.Rows[0].Name != "s0777" || v.Streams.Rows[1].Name != "s0000" || len(v.Streams.Rows) != streamRows || v.Headline != "1 stream is in trouble." || v.Calm {
		t.Errorf("first is %s, %q", v.Streams.Rows[0].Name, v.Headline)
	}
	if !strings.Contains(page, "uploading is parked") || strings.Count(page, `class="stream"`) != streamRows {
		t.Error("the page does not show what the view holds")
	}
	seen := map[string]bool{}
	for offset := 0; offset >= 0; {
		v, _ := look(t, n, Query{Offset: offset})
		for _, s := range v.Streams.Rows {
			seen[s.Name] = true
		}
		offset = v.Streams.Pager.Next
	}
	if len(seen) != 1000 {
		t.Errorf("all pages together show %d streams", len(seen))
	}
	if v, _ := look(t, n, Query{Troubled: true, Offset: 500}); len(v.Streams.Rows) != 1 || v.Streams.Matched != 1 || v.Streams.Pager.Prev != -1 {
		t.Errorf("in trouble are %+v", v.Streams)
	}
	if v, _ := look(t, n, Query{Search: "s099"}); v.Streams.Matched != 10 {
		t.Errorf("a search finds %d", v.Streams.Matched)
	}
	if _, page := look(t, n, Query{Search: "nobody"}); !strings.Contains(page, "No stream is as you ask.") {
		t.Error("a search for nothing shows something")
	}
}

// Whatever a name, a reason or a stack holds, it is text on the page.
func TestNothingOnThePageIsMarkupOfOthers(t *testing.T) {
	const evil = `"><script>alert(1)</script><svg onload=x style="color:red">`
	s := stored(evil)
	s.ID, s.Trouble, s.Feed = evil, evil, evil
	s.Capture = pgout.Status{State: "waiting", Slot: evil, Waiting: &pgout.Waiting{Why: evil, Hint: evil}, Load: &pgout.LoadStatus{Table: evil}, Warnings: []pgout.Warning{{Why: evil}}}
	n := &fakeNode{
		status: admin.NodeStatus{Node: evil, Store: evil, Access: evil, Credentials: &renew.Status{State: evil, Source: evil, Why: evil}, Pools: []admin.Pool{{Name: evil, Closed: evil}}, Version: evil, Reasons: []string{evil}}, streams: []admin.StreamStatus{s},
		tiering: admin.Tiering{State: evil, Enabled: true},
		events:  []admin.Event{{Seq: 1, Kind: evil, Path: evil, Reason: evil, Stack: evil, Trouble: true}},
		tree: func(admin.TreeQuery) (admin.TreeNode, error) {
			return admin.TreeNode{Node: supervision.Node{ID: evil, Path: evil, State: evil, LastExit: evil}, Trouble: true, Note: evil, Label: evil}, nil
		},
	}
	_, page := look(t, n, Query{})
	for _, bad := range []string{"<script", "<svg onload"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %s", bad)
		}
	}
	if strings.Count(page, "&lt;script&gt;") < 12 {
		t.Errorf("the page shows the text %d times only", strings.Count(page, "&lt;script&gt;"))
	}
	values := regexp.MustCompile(`"[^"]*"`) // where it may stand as text
	if regexp.MustCompile(`<[^>]* (style|on[a-z]+)=`).MatchString(values.ReplaceAllString(page, "")) {
		t.Error("the page has inline style or script, which its policy forbids")
	}
}

// The store's line says whether it can be used, in words and in a tone; a directory has
// neither credentials nor pools to show.
func TestTheStore(t *testing.T) {
	for access, tone := range map[string]string{
		"yes": "good", "no (access denied)": "bad", "unknown since 2026-03-01T12:00:00Z (timed out); yes before that": "wait",
		"not looked at: tiering is disabled by the operator": "off",
	} {
		v, page := look(t, &fakeNode{status: admin.NodeStatus{Access: access}}, Query{})
		if v.Access != (Chip{access, tone}) || !strings.Contains(page, access) || strings.Contains(page, "Credentials") || strings.Contains(page, " pool") {
			t.Errorf("%s is shown as %+v", access, v.Access)
		}
	}
	pool := admin.Pool{Name: "upload"}
	pool.Max, pool.Open, pool.InUse = 20, 3, 2
	_, page := look(t, &fakeNode{status: admin.NodeStatus{
		Credentials: &renew.Status{State: renew.StateValid, Source: "environment", AccessKeyID: "AKIA1"},
		Pools:       []admin.Pool{pool},
	}}, Query{})
	for _, want := range []string{"environment, key AKIA1, never expires, valid", "upload pool", "2 of 20 connections in use, 3 open, 0 waiting"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestCapturesSayWhatTheyWaitFor(t *testing.T) {
	s := stored("shop")
	s.Feed = "shop"
	n := &fakeNode{streams: []admin.StreamStatus{s}}
	if _, page := look(t, n, Query{}); !strings.Contains(page, "not running") {
		t.Error("a capture without a process shows nothing of it")
	}
	c := pgout.Status{
		State: "waiting", Doing: "waiting", Phase: "streaming", Retained: 5 << 20, LagMillis: 90_500, Events: 1_234_567,
		Waiting: &pgout.Waiting{Until: pos.MillisOf(noon.Add(3 * time.Second)), Why: "the server refuses", Hint: "start it"},
		Load:    &pgout.LoadStatus{Table: "public.orders", Tables: 4, Done: 1, Rows: 500, Estimated: 2000},
	}
	n.streams[0].Capture = c
	v, page := look(t, n, Query{})
	for _, want := range []string{"the server refuses", "start it", "tried again in 3.0 s", "5.00 MiB", "1 min 30 s", "1,234,567", "500 of about 2,000 rows", "1 of 4 tables done", "streaming: waiting"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if v.Captures[0].Progress != 25 || v.Captures[0].Chip.Tone != "wait" {
		t.Errorf("%+v", v.Captures[0])
	}
}

// A thousand that start are one line, trouble is never folded, and the newest is first.
func TestEventsAreFolded(t *testing.T) {
	n := &fakeNode{}
	for i := range 1000 {
		n.events = append(n.events, admin.Event{Seq: uint64(i), Kind: "started", Label: "x", Path: fmt.Sprintf("node/log/__x_%d", i)})
	}
	for i := range 3 {
		n.events = append(n.events, admin.Event{Seq: uint64(1000 + i), Kind: "child_terminated", Label: "x", Path: "node/log/__x_1/writer", Trouble: true})
	}
	n.events = append(n.events, admin.Event{Seq: 2000, Kind: "started", Path: "node/keeper"})
	v, page := look(t, n, Query{})
	if len(v.Events) != 5 || v.Events[0].Seq != 2000 || v.Events[4].Like != 999 || v.Events[1].Chip.Tone != "bad" || v.Events[4].At != "node/log/x" {
		t.Errorf("shown are %+v", v.Events)
	}
	if !strings.Contains(page, "and 999 more like it") {
		t.Error("the page does not say how many")
	}
	if v, _ := look(t, n, Query{Problems: true}); len(v.Events) != 3 {
		t.Errorf("%d problems", len(v.Events))
	}
}

func TestProcesses(t *testing.T) {
	at := func(id, state string) supervision.Node {
		return supervision.Node{ID: id, Path: "node/" + id, State: state, Budget: &supervision.Budget{}}
	}
	kid := admin.TreeNode{Node: supervision.Node{ID: "__s_1", State: admin.StateParked, LastExit: "crash"}, Label: "s", Trouble: true, Note: "parked: soon"}
	factory := admin.TreeNode{Node: at("log", "running"), Children: []admin.TreeNode{kid}, Page: &admin.TreePage{Total: 1000, Matched: 1000, Limit: factoryRows, Troubled: 1, States: map[string]int{"running": 999, "parked": 1}}}
	off := admin.TreeNode{Node: at("tiering", "undefined"), Note: "disabled by the operator"}
	calmFactory := admin.TreeNode{Node: at("captures", "running"), Page: &admin.TreePage{}}
	governor := admin.TreeNode{Node: supervision.Node{ID: "governor", State: "running", Restarts: 2, MailboxLen: 7}}
	n := &fakeNode{tree: func(q admin.TreeQuery) (admin.TreeNode, error) {
		if q.Factory == "node/gone" {
			return admin.TreeNode{}, errors.New("gone")
		}
		return admin.TreeNode{Node: at("node", "running"), Children: []admin.TreeNode{factory, off, calmFactory, governor}}, nil
	}}
	v, page := look(t, n, Query{Factory: "node/gone"})
	below := v.Tree.Below
	if !below[0].Open || below[2].Open || below[0].Counts != "1 parked, 999 running" || below[2].Counts != "empty" || below[0].Below[0].Name != "s" || !below[0].Below[0].Open {
		t.Errorf("shown are %+v", below)
	}
	if below[1].Chip != (Chip{"disabled", "off"}) || below[3].Chip.Tone != "wait" || below[3].Restarts != "2 restarts just now" || below[0].Pager.Last != 1 {
		t.Errorf("shown are %+v", below)
	}
	for _, want := range []string{"parked: soon", "7 waiting", "last exit: crash", "1 in trouble"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestHeadlines(t *testing.T) {
	for want, n := range map[string]*fakeNode{
		"Everything runs; there is no stream yet.":    {status: admin.NodeStatus{Ready: true}},
		"Everything runs.":                            {status: admin.NodeStatus{Ready: true}, streams: []admin.StreamStatus{stored("a")}},
		"The node is not ready.":                      {streams: []admin.StreamStatus{stored("a")}},
		"Processes that were stopped still run code.": {status: admin.NodeStatus{Ready: true, Zombies: 1}},
		"1,001 streams are in trouble.":               {streams: slices.Repeat([]admin.StreamStatus{{Trouble: "x"}}, 1001)},
	} {
		if v, page := look(t, n, Query{}); v.Headline != want || !strings.Contains(page, want) {
			t.Errorf("%q, want %q", v.Headline, want)
		}
	}
	if _, err := Look(context.Background(), &fakeNode{err: errors.New("no metadata")}, Query{}, noon); err == nil {
		t.Error("a list that can't be had is shown")
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{-1: "unknown", 0: "0 B", 999: "999 B", 1000: "0.98 KiB", 1 << 20: "1.00 MiB", 10 << 30: "10.0 GiB", 512 << 30: "512 GiB", 1 << 62: "4096 PiB"} {
		if got := size(n); got != want {
			t.Errorf("size %d: %s, want %s", n, got, want)
		}
	}
	for v, want := range map[any]string{0: "0", 999: "999", 1000: "1,000", int64(-1234567): "-1,234,567", pos.Offset(9007199254740993): "9,007,199,254,740,993", uint64(12): "12"} {
		if got := thousands(v); got != want {
			t.Errorf("thousands %v: %s, want %s", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0 ms", 1500 * time.Millisecond: "1.5 s", 59 * time.Second: "59 s", time.Hour - time.Second: "59 min 59 s", 47 * time.Hour: "47 h 0 min", 49 * time.Hour: "2 d 1 h"} {
		if got := span(d); got != want {
			t.Errorf("span %v: %s, want %s", d, got, want)
		}
	}
}

func TestPagesAndTheirPolicy(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", Page)
	mux.HandleFunc("GET /console/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !Asset(w, r.PathValue("file")) {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for path, want := range map[string]string{
		"/": "text/html; charset=utf-8", "/console/console.js": "text/javascript; charset=utf-8", "/console/console.css": "text/css; charset=utf-8", "/console/icon.svg": "image/svg+xml",
		"/console/view.html": "", "/console/nothing.js": "", "/console/..%2Fdoc.go": "", "/console/": "",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		switch {
		case want == "" && w.Code != http.StatusNotFound:
			t.Errorf("%s: %d", path, w.Code)
		case want != "" && (w.Code != http.StatusOK || w.Header().Get("Content-Type") != want || w.Header().Get("Content-Security-Policy") != Policy):
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	for _, file := range []string{"page.html", "console.js", "console.css"} {
		text, err := assets.ReadFile("assets/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if at := regexp.MustCompile(`https?://|//[a-z0-9-]+\.`).Find(text); at != nil {
			t.Errorf("%s names something elsewhere: %s", file, at)
		}
	}
}
