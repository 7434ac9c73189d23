package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"shop": "shop", "büro 日本 💧 \\": "büro 日本 💧 \\", "a\x1b[31mb": `a\x1b[31mb`, "a\u202eb": `a\u202eb`, "a\u009bb": `a\u009bb`, "\r\t": `\r\t`,
		"a\nb": `a\nb`, "\xff\xfe": `\xff\xfe`, "\ufffd": "\ufffd", "\U000e0001": `\U000e0001`,
	} {
		if got := visible(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	if got := visible("a\nb\x00", '\n'); got != "a\nb\\x00" {
		t.Errorf("got %q", got)
	}
}

// Whatever a node answers, a terminal gets nothing but what can be seen.
func TestNoAnswerReachesTheTerminalRaw(t *testing.T) {
	const evil = `x\u001b[2J\u202e\u009b\u0000\r\ty`
	answers := map[string]string{
		"/status":          `{"node":"` + evil + `","reasons":["` + evil + `"],"parts":{"` + evil + `":"` + evil + `"}}`,
		"/streams":         `{"streams":[{"name":"` + evil + `","state":"` + evil + `","trouble":"` + evil + `"}]}`,
		"/streams/s":       `{"name":"` + evil + `","local":{"` + evil + `":"` + evil + `"},"upload":{"why":"` + evil + `","node":"` + evil + `"}}`,
		"/tree":            `{"path":"` + evil + `","label":"` + evil + `","last_exit":"` + evil + `","children":[{"id":"` + evil + `"}]}`,
		"/registry":        `{"total":1,"names":[{"kind":"` + evil + `","id":"` + evil + `","label":"` + evil + `","path":"` + evil + `"}]}`,
		"/registry/s":      `{"total":1,"names":[{"kind":"` + evil + `","id":"` + evil + `","label":"` + evil + `","path":"` + evil + `"}]}`,
		"/events":          `{"events":[{"seq":1,"kind":"` + evil + `","path":"` + evil + `","label":"` + evil + `","reason":"` + evil + `"}]}`,
		"/tiering":         `{"state":"` + evil + `","by":"` + evil + `"}`,
		"/tiering/claim":   `{"store":"` + evil + `","marker":"` + evil + `","cluster":"` + evil + `"}`,
		"/tree/restart":    `{"` + evil + `":"` + evil + `"}`,
		"/streams/s/cut":   `{"stream":"` + evil + `"}`,
		"/streams/s/reset": `{"stream":"` + evil + `"}`,
		"/tree/terminate":  "",
	}
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		if r.URL.Query().Has("follow") {
			answer = `{"seq":1,"path":"` + evil + `"}`
		}
		if answer == "" || r.Method == http.MethodPost && r.URL.Path == "/streams" {
			w.WriteHeader(http.StatusConflict)
			answer = `{"error":"` + evil + `","hint":"` + evil + `"}`
		}
		fmt.Fprint(w, answer)
	}))
	defer srv.Close()
	for _, args := range [][]string{
		{"status"}, {"status", "s"}, {"streams"}, {"tree"}, {"registry"}, {"registry", "s"}, {"events"}, {"events", "--follow"}, {"tiering", "status"},
		{"tree", "restart", "s"}, {"tree", "terminate", "s"}, {"stream", "cut", "s"}, {"stream", "reset", "s"}, {"stream", "create", "\x1b[2Js"}, {"read", "s"}, {"\x1b[2J"},
	} {
		var out, stderr strings.Builder
		execute(append(args, "--admin", srv.URL, "--token-file", tokenFile), &out, &stderr)
		text := out.String() + stderr.String()
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("%q prints %q raw", args, text[i:min(len(text), i+20)])
		}
		if !strings.Contains(text, `\x1b[2J`) {
			t.Errorf("%q prints %q", args, text)
		}
	}
}
