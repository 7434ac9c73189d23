package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const listing = `make: nothing
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Package":"p","Test":"TestB","Output":"loud\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0.1}
{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"p","Output":"noise\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1:1: broken\n"}
{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","Elapsed":0}
{"Action":"output","Package":"r","Output":"ok  \tr\t0.1s\n"}
{"Action":"pass","Package":"r","Elapsed":0.1}
`

func TestCountAddsUpTestsAndShowsFailures(t *testing.T) {
	var b strings.Builder
	if got, want := count(strings.NewReader(listing), &b), (counts{1, 2, 1}); got != want {
		t.Errorf("counted %+v, want %+v: one test failed, and one package did not build", got, want)
	}
	const want = "make: nothing\nloud\n--- SKIP: p TestC\nFAIL\tp\t0.1s\nnoise\nq.go:1:1: broken\nFAIL\tq [build failed]\nok  \tr\t0.1s\n"
	if b.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", b.String(), want)
	}
}

func TestSettleCountsAStepWithoutTestsAsOne(t *testing.T) {
	for _, c := range []struct {
		in   counts
		code int
		want counts
	}{
		{counts{}, 0, counts{1, 0, 0}},
		{counts{}, 3, counts{0, 1, 0}},
		{counts{5, 0, 0}, 0, counts{5, 0, 0}},
		{counts{5, 0, 0}, 1, counts{5, 1, 0}},
		{counts{5, 2, 0}, 1, counts{5, 2, 0}},
	} {
		if got := c.in.settle(c.code); got != c.want {
			t.Errorf("%+v with exit code %d: %+v, want %+v", c.in, c.code, got, c.want)
		}
	}
}

func TestReportClosesWithTheSum(t *testing.T) {
	log := filepath.Join(t.TempDir(), "steps.json")
	for _, c := range []struct {
		step    string
		command []string
		code    int
	}{
		{"good", []string{"true"}, 0},
		{"bad", []string{"sh", "-c", "exit 7"}, 7},
	} {
		if code, err := run(log, c.step, time.Minute, c.command); err != nil || code != c.code {
			t.Fatalf("step %s: exit code %d (%v), want %d", c.step, code, err, c.code)
		}
	}
	if err := write(log, result{Step: "slow", Budget: time.Second, Took: 2 * time.Second, Passed: 4}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	code, err := report(log, &b)
	if err != nil || code != 1 {
		t.Errorf("exit code %d (%v), want 1 since a step failed", code, err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != 5 || !strings.HasSuffix(lines[0], " ok") || !strings.HasSuffix(lines[1], "FAILED") ||
		!strings.HasSuffix(lines[2], "OVER BUDGET") || lines[3] != "5 passed, 1 failed" {
		t.Errorf("reported\n%s", b.String())
	}
}

func TestReportFailsWhenNothingRan(t *testing.T) {
	log := filepath.Join(t.TempDir(), "steps.json")
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, err := report(log, &strings.Builder{}); code != 1 || err != nil {
		t.Errorf("exit code %d (%v), want 1", code, err)
	}
}
