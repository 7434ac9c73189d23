package httpadmin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/resolve"
)

func records(t *testing.T, n *fakeNode, params string) (*http.Response, string, error) {
	t.Helper()
	return call(t, serve(t, n), "GET", "/streams/shop/records"+params, "")
}

const at = `"timestamp":"2026-03-01T12:00:00.000Z","epoch":2`

func TestRecordsAreOneLineEach(t *testing.T) {
	n := &fakeNode{script: []step{
		batch(0, `amqp:{"op":"c"}`, "amqp:{\n \"op\": \"<&>\u2028\"\r\n}", "amqp:not json", "raw"),
		batch(4, `amqp:[1, 2]`, "amqp:"),
	}}
	resp, body, err := records(t, n, "")
	want := `{"offset":0,` + at + `,"record":{"op":"c"}}
{"offset":1,` + at + `,"record":{"op":"<&>` + "\u2028" + `"}}
{"offset":2,` + at + `,"data":"bm90IGpzb24="}
{"offset":3,` + at + `,"message":"cmF3"}
{"offset":4,` + at + `,"record":[1,2]}
{"offset":5,` + at + `,"data":""}
`
	if err != nil || body != want {
		t.Errorf("%v\n got %s\nwant %s", err, body, want)
	}
	if resp.Trailer.Get(CompleteTrailer) != "true" {
		t.Errorf("a whole answer has trailer %v", resp.Trailer)
	}
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("content type %q", resp.Header.Get("Content-Type"))
	}
	if o, c := n.readers(); o != 1 || c != 1 {
		t.Errorf("%d readers were opened, %d closed", o, c)
	}
}

func TestAnEmptyAnswerIsWholeToo(t *testing.T) {
	resp, body, err := records(t, &fakeNode{}, "?from=next")
	if err != nil || body != "" || resp.Trailer.Get(CompleteTrailer) != "true" {
		t.Errorf("%q %v %v", body, resp.Trailer, err)
	}
}

// An answer that breaks off ends with an error line, without the trailer, and with a
// connection that the client sees break.
func TestAnErrorAfterTheFirstByteNeverLooksComplete(t *testing.T) {
	for _, cause := range []error{
		&admin.Error{Class: admin.Unavailable, What: "fragment 7 cannot be read", Hint: "try again"},
		errors.New("fragment 7 cannot be read"),
		io.ErrUnexpectedEOF,
	} {
		n := &fakeNode{script: []step{batch(0, "amqp:1", "amqp:2"), {err: cause}}}
		resp, body, err := records(t, n, "?follow=0")
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v: the client got %v", cause, err)
		}
		if resp.Trailer.Get(CompleteTrailer) != "" {
			t.Errorf("%v: trailer %v", cause, resp.Trailer)
		}
		lines := strings.Split(strings.TrimSpace(body), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[2], `{"error":"`+cause.Error()) || !strings.Contains(lines[2], `"next":2}`) {
			t.Errorf("%v: body %s", cause, body)
		}
		if _, c := n.readers(); c != 1 {
			t.Errorf("%v: the reader was closed %d times", cause, c)
		}
	}
}

// A stream that is followed has no end, so an end is an error.
func TestAnEndWhileFollowingIsNotWhole(t *testing.T) {
	resp, _, err := records(t, &fakeNode{script: []step{batch(0, "amqp:1")}}, "?follow=1")
	if err == nil || resp.Trailer.Get(CompleteTrailer) != "" {
		t.Errorf("got %v, trailer %v", err, resp.Trailer)
	}
}

func TestOffsetsGoUpOrTheAnswerBreaksOff(t *testing.T) {
	for _, script := range [][]step{
		{batch(0, "amqp:1", "amqp:2"), batch(1, "amqp:2")},
		{batch(5, "amqp:1"), batch(4, "amqp:2")},
	} {
		_, body, err := records(t, &fakeNode{script: script}, "")
		if err == nil || !strings.Contains(body, "order is broken") {
			t.Errorf("got %v\n%s", err, body)
		}
	}
	resp, _, err := records(t, &fakeNode{script: []step{batch(0, "amqp:1"), batch(7, "amqp:1")}}, "")
	if err != nil || resp.Trailer.Get(CompleteTrailer) != "true" {
		t.Errorf("offsets that are not the readers' (tracking) break the answer: %v", err)
	}
}

func TestLimit(t *testing.T) {
	for limit, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 5} {
		n := &fakeNode{script: []step{batch(0, "amqp:1", "amqp:2"), batch(2, "amqp:3", "amqp:4", "amqp:5")}}
		resp, body, err := records(t, n, fmt.Sprintf("?limit=%d", limit))
		if err != nil || strings.Count(body, "\n") != want || resp.Trailer.Get(CompleteTrailer) != "true" {
			t.Errorf("limit %d: %v, trailer %v\n%s", limit, err, resp.Trailer, body)
		}
	}
	n := &fakeNode{script: []step{batch(0, "amqp:1"), {block: true}}}
	if resp, body, err := records(t, n, "?limit=1&follow=1"); err != nil || strings.Count(body, "\n") != 1 || resp.Trailer.Get(CompleteTrailer) != "true" {
		t.Errorf("a limit does not end a reading that follows: %v %s", err, body)
	}
}

func TestFromAnOffsetInsideAChunk(t *testing.T) {
	n := &fakeNode{script: []step{batch(0, "amqp:1"), batch(1, "amqp:2", "amqp:3", "amqp:4")}}
	_, body, err := records(t, n, "?from=2&limit=2")
	if err != nil || !strings.HasPrefix(body, `{"offset":2,`) || strings.Count(body, "\n") != 2 {
		t.Errorf("%v\n%s", err, body)
	}
	if n.opened[0].From != resolve.At(2) {
		t.Errorf("opened with %+v", n.opened[0])
	}
}

func TestMovedIsALineOfItsOwn(t *testing.T) {
	moved := batch(9, "amqp:1")
	moved.batch.Moved = &admin.Moved{From: 2, To: 9, Why: "retention"}
	_, body, err := records(t, &fakeNode{script: []step{moved}}, "?from=2")
	want := `{"moved":{"from":2,"to":9,"why":"retention"}}` + "\n" + `{"offset":9,` + at + `,"record":1}` + "\n"
	if err != nil || body != want {
		t.Errorf("%v\n%s", err, body)
	}
}

func TestBadParametersAreRefusedBeforeAnythingIsOpened(t *testing.T) {
	n := &fakeNode{}
	for params, says := range map[string]string{
		"?from=yesterday":            `"from \"yesterday\": want first, last, next`,
		"?from=-1":                   "want first, last, next",
		"?from=none":                 "want first, last, next",
		"?from=9223372036854775808":  "want first, last, next",
		"?from=1969-01-01T00:00:00Z": "since 1970",
		"?from=":                     "want first, last, next",
		"?limit=0":                   "from 1",
		"?limit=-5":                  "from 1",
		"?limit=x":                   "from 1",
		"?follow=perhaps":            "want 1 or 0",
		"?form=first":                `no parameter \"form\"`,
		"?from=first&from=last":      "2 times",
		"?from=%zz":                  "cannot be read",
		"?from=first;limit=1":        "cannot be read",
	} {
		resp, body, err := records(t, n, params)
		if err != nil || resp.StatusCode != 400 || !strings.Contains(body, says) || !strings.Contains(body, `"hint":`) {
			t.Errorf("%s: %d %s %v", params, resp.StatusCode, body, err)
		}
	}
	if o, _ := n.readers(); o != 0 {
		t.Errorf("%d readers were opened", o)
	}
}

func TestAReadingThatCannotBeOpenedIsRefused(t *testing.T) {
	n := &fakeNode{openErr: &admin.Error{Class: admin.Unavailable, What: "tiering is disabled", Hint: "run: millrace tiering enable"}}
	resp, body, err := records(t, n, "")
	if err != nil || resp.StatusCode != 503 || !strings.Contains(body, "millrace tiering enable") {
		t.Errorf("%d %s %v", resp.StatusCode, body, err)
	}
}

// The status tells how the first Pull went.
func TestAReadingWhoseFirstRecordsCannotBeReadIsRefused(t *testing.T) {
	for _, params := range []string{"", "?follow=1"} {
		n := &fakeNode{script: []step{{err: &admin.Error{Class: admin.Unavailable, What: "the store is down", Hint: "wait"}}}}
		resp, body, err := records(t, n, params)
		if err != nil || resp.StatusCode != 503 || body != `{"error":"the store is down","hint":"wait"}`+"\n" || len(resp.Trailer) != 0 {
			t.Errorf("%s: %d %s, trailer %v, %v", params, resp.StatusCode, body, resp.Trailer, err)
		}
		if o, c := n.readers(); o != 1 || c != 1 {
			t.Errorf("%s: %d readers were opened, %d closed", params, o, c)
		}
	}
}

// A reading that follows hears soon that it is heard, and what comes first comes first.
func TestFollowingAnIdleStreamIsAnswered(t *testing.T) {
	came := make(chan struct{})
	n := &fakeNode{script: []step{{until: came, batch: batch(3, "amqp:1").batch}, {block: true}}}
	srv := serve(t, n)
	resp := follow(t, srv.Client(), srv.URL)
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	close(came)
	line := make([]byte, 12)
	if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != `{"offset":3,` {
		t.Errorf("got %s, %v", line, err)
	}
}

// follow starts a reading that blocks after its first record, and reads that record.
func follow(t *testing.T, client *http.Client, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/streams/shop/records?follow=1", nil)
	if err != nil {
		t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	return resp
}

func TestARecordArrivesWhileTheReaderWaitsForTheNext(t *testing.T) {
	n := &fakeNode{script: []step{batch(0, "amqp:1"), {block: true}}}
	srv := serve(t, n)
	resp := follow(t, srv.Client(), srv.URL)
	line := make([]byte, 12)
	if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != `{"offset":0,` {
		t.Errorf("got %s, %v", line, err)
	}
	resp.Body.Close() // the client goes: the reader is closed
	srv.Close()       // waits for the handler
	if o, c := n.readers(); o != 1 || c != 1 {
		t.Errorf("%d readers were opened, %d closed", o, c)
	}
}

func TestAReadingThatEndedMakesRoom(t *testing.T) {
	n := &fakeNode{script: []step{batch(0, "amqp:1")}}
	srv := serve(t, n)
	for i := range maxReaders + 1 {
		if resp, body, err := call(t, srv, "GET", "/streams/shop/records", ""); err != nil || resp.StatusCode != 200 {
			t.Fatalf("reading %d: %d %s %v", i, resp.StatusCode, body, err)
		}
	}
}

// However large a batch is, its lines are not all held in memory.
func TestALargeBatchIsSentInParts(t *testing.T) {
	out := newLines(&deafWriter{ResponseWriter: httptest.NewRecorder()})
	body := make([]byte, flushAt/4)
	for o := range pos.Offset(40) {
		if err := out.record(admin.Record{Offset: o, Body: body}); err != nil {
			t.Fatal(err)
		}
		if out.buf.Len() > flushAt {
			t.Fatalf("%d bytes are held after record %s", out.buf.Len(), o)
		}
	}
	if err := out.record(admin.Record{Offset: 40, Body: make([]byte, 2*keepBuffer)}); err != nil || out.buf.Cap() > keepBuffer {
		t.Errorf("%v; a buffer of %d bytes is kept for one large record", err, out.buf.Cap())
	}
}

// deafWriter takes deadlines, which a recorder does not.
type deafWriter struct{ http.ResponseWriter }

func (*deafWriter) SetWriteDeadline(time.Time) error { return nil }
func (*deafWriter) FlushError() error                { return nil }

func TestReadingsAreBounded(t *testing.T) {
	n := &fakeNode{script: []step{{block: true}}}
	srv := serve(t, n)
	open := make([]*http.Response, maxReaders)
	var wg sync.WaitGroup
	for i := range open {
		wg.Go(func() { open[i] = follow(t, srv.Client(), srv.URL) })
	}
	wg.Wait()
	resp, body, err := call(t, srv, "GET", "/streams/shop/records", "")
	if err != nil || resp.StatusCode != 503 || !strings.Contains(body, "readings are open already") {
		t.Errorf("one reading too many: %d %s %v", resp.StatusCode, body, err)
	}
	for _, r := range open {
		r.Body.Close()
	}
	srv.Close()
	if o, c := n.readers(); o != maxReaders || c != maxReaders {
		t.Errorf("%d readers were opened, %d closed", o, c)
	}
}
