package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/core/pos"
	"millrace/test/fold"
	"millrace/test/shop"
)

const row = `{"offset":%d,"timestamp":"2026-03-01T12:00:00.000Z","epoch":1,"record":%s}` + "\n"

// event is a streamed record of a table in public.
func event(lsn, seq int, last bool, table, rest string) string {
	return fmt.Sprintf(`{%s,"source":{"lsn":"0/%X","seq":%d,"last":%v,"txId":1,"ts_us":1,"schema":"public","table":%q,"snapshot":"no"},"ts_ms":2}`,
		rest, lsn, seq, last, table)
}

// served gives a client of a server that answers a reading with body, and says that
// it is whole if complete.
func served(t *testing.T, body string, complete bool) *client {
	dir := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Trailer", "X-Millrace-Complete")
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
		if complete {
			w.Header().Set("X-Millrace-Complete", "true")
		}
	}))
	t.Cleanup(server.Close)
	n, err := newNode("none", dir, strings.TrimPrefix(server.URL, "http://"), "postgres://x", "p", "")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "data"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(n.tokenFile(), []byte("secret\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &client{node: n}
}

func TestReadTakesOnlyAWholeAnswer(t *testing.T) {
	first := fmt.Sprintf(row, 0, event(16, 0, true, "t", `"op":"c","after":{"a":"`+strings.Repeat("x", 3<<20)+`"}`))
	second := fmt.Sprintf(row, 1, event(32, 0, true, "t", `"op":"c","after":{"a":"y"}`))
	for name, c := range map[string]struct {
		body     string
		complete bool
		says     string
	}{
		"whole":          {first + second, true, ""},
		"broken off":     {first + second, false, "without its mark of being whole"},
		"cut in a line":  {first + second[:20], true, "unexpected EOF"},
		"an error line":  {first + `{"error":"the store is down"}` + "\n", true, "the node says"},
		"a hole":         {first + `{"moved":{"from":1,"to":5,"why":"retention"}}` + "\n", true, "records are gone"},
		"another record": {first + `{"offset":1,"data":"AAA="}` + "\n", true, "is no record of a capture"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			err := served(t, c.body, c.complete).read(context.Background(), "first", func(at pos.Offset, e *fold.Event) error {
				if int(at) != seen || e.Table() != "public.t" {
					t.Errorf("record %d is at %s, %s", seen, at, e)
				}
				seen++
				return nil
			})
			if c.says == "" && (err != nil || seen != 2) {
				t.Errorf("%d records and error %v, want 2 and none", seen, err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestReadTellsWhatItsVisitorSays(t *testing.T) {
	stop := errors.New("stop")
	body := fmt.Sprintf(row, 0, event(16, 0, true, "t", `"op":"c"`))
	err := served(t, body, true).read(context.Background(), "first", func(pos.Offset, *fold.Event) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got error %v, want %v", err, stop)
	}
}

func TestCheckFindsTheFirstDifference(t *testing.T) {
	insert := func(id int) string { return fmt.Sprintf(`"op":"c","after":{"id":%d}`, id) }
	audited := func(events int) string {
		return fmt.Sprintf(`"op":"c","after":{"writer":1,"n":1,"events":%d}`, events)
	}
	whole := []string{event(16, 0, false, "t", insert(1)), event(16, 1, false, "t", insert(2)), event(16, 2, true, "audit", audited(2))}
	for name, c := range map[string]struct {
		records []string
		says    string
	}{
		"nothing":                 {whole, ""},
		"a transaction cut short": {[]string{whole[0], event(16, 1, true, "audit", audited(2))}, "has 1 events before its row in audit, which says 2"},
		"without its row":         {[]string{whole[0], event(16, 1, true, "t", insert(2))}, "ends without its row in audit"},
		"an event missing":        {[]string{whole[0], whole[2]}, "events 1 up to it are missing"},
		"an event twice":          {[]string{whole[0], whole[0], whole[1], whole[2]}, "duplicated"},
		"a row twice":             {[]string{whole[0], event(16, 1, false, "t", insert(1))}, "is there already"},
		"an open end":             {whole[:2], "the stream ends within the transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			check := newCheck([]shop.Table{{Name: "public.t", Key: []string{"id"}}, {Name: auditTable, Key: []string{"writer", "n"}}})
			for i, r := range c.records {
				e, err := fold.ParseEvent([]byte(r))
				if err != nil {
					t.Fatal(err)
				}
				if err := check.visit(pos.Offset(i), &e); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := check.compare(context.Background(), "", nil, nil); err != nil {
				t.Fatal(err)
			}
			if c.says == "" && check.first != nil || c.says != "" && (check.first == nil || !strings.Contains(check.first.Error(), c.says)) {
				t.Errorf("first difference %v, want one that says %q", check.first, c.says)
			}
		})
	}
}

func TestCheckFindsAHoleInTheOffsets(t *testing.T) {
	check := newCheck(nil)
	for i, at := range []pos.Offset{0, 1, 3} {
		e, err := fold.ParseEvent([]byte(event(16, i, false, "t", fmt.Sprintf(`"op":"c","after":{"id":%d}`, i))))
		if err != nil {
			t.Fatal(err)
		}
		if err := check.visit(at, &e); err != nil {
			t.Fatal(err)
		}
	}
	if check.first == nil || check.first.Error() != "offset 3 follows offset 1" {
		t.Errorf("first difference %v, want the hole", check.first)
	}
}

func TestWhatWasShownIsCounted(t *testing.T) {
	data, store := t.TempDir(), t.TempDir()
	file := func(dir, name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var s shown
	first := file(data, "0.segment")
	file(data, "0.index")
	s.look(data)
	file(data, "7.segment")
	file(data, "9.segment")
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	file(store, "a.fragment")
	want := "shown: at least 2 segments rolled and 1 of them trimmed from local disk, 1 objects in the store, the node killed 4 times, PostgreSQL once"
	if got := s.line(data, store, 5); got != want {
		t.Errorf("got %s", got)
	}
}

// TestNodeIsWatched runs shell scripts in the place of the node.
func TestNodeIsWatched(t *testing.T) {
	script := func(text string) *node {
		dir := t.TempDir()
		binary := filepath.Join(dir, "script")
		if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		n, err := newNode(binary, dir, "127.0.0.1:1", "postgres://x", "p", "")
		if err == nil {
			err = n.start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("killed and started", func(t *testing.T) {
		n := script("exec sleep 60\n")
		if err := n.alive(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(n.kill(), n.start(), n.alive()); err != nil {
			t.Error(err)
		}
		if n.measure() == 0 || n.runs != 2 {
			t.Errorf("measured %d bytes in %d runs, want some in 2", n.measure(), n.runs)
		}
		if err := n.kill(); err != nil {
			t.Error(err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		n := script("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done\n")
		err := n.until(context.Background(), "the script is ready", 5*time.Second, func() (bool, error) {
			return strings.Contains(n.logTail(), "ready"), nil
		})
		if err := errors.Join(err, n.stop(), n.stop()); err != nil {
			t.Error(err)
		}
	})
	t.Run("ended by itself", func(t *testing.T) {
		n := script("echo out of ideas; exit 3\n")
		err := n.until(context.Background(), "never", 5*time.Second, func() (bool, error) { return false, nil })
		if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of ideas") {
			t.Errorf("got error %v, want its exit status and its last words", err)
		}
	})
	t.Run("in vain", func(t *testing.T) {
		n := script("exec sleep 60\n")
		err := n.until(context.Background(), "pigs fly", 100*time.Millisecond, func() (bool, error) { return false, nil })
		if err == nil || !strings.Contains(err.Error(), "until pigs fly, in vain") {
			t.Errorf("got error %v", err)
		}
		if err := n.kill(); err != nil {
			t.Error(err)
		}
	})
}
