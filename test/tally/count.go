package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// counts are the tests of one step.
type counts struct{ passed, failed, skipped int }

// settle makes the counts agree with the exit code of the step: one that had no
// tests counts as one, and one that failed has at least one failure.
func (c counts) settle(code int) counts {
	switch {
	case code != 0 && c.failed == 0:
		c.failed = 1
	case code == 0 && c == counts{}:
		c.passed = 1
	}
	return c
}

// event is one line of `go test -json` (go doc test2json).
type event struct{ Action, Package, Test, Output string }

// counter turns such events into counts and into what a person wants to see.
type counter struct {
	counts
	to   io.Writer
	said map[string][]string // what each test that has not ended printed, by "package test"
	bad  map[string]bool     // the packages in which a test failed
}

// count reads a step's output until it ends and passes on to `to` what is no
// event, the packages' results and what failing tests printed.
func count(out io.Reader, to io.Writer) counts {
	c := counter{to: to, said: map[string][]string{}, bad: map[string]bool{}}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		c.line(line)
		if err != nil {
			return c.counts
		}
	}
}

func (c *counter) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(c.to, line)
		return
	}
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && packageResult(e.Output):
		fmt.Fprint(c.to, e.Output)
	case e.Action == "output":
		c.said[key] = append(c.said[key], e.Output)
	case e.Action == "pass" || e.Action == "skip":
		c.passes(e)
		delete(c.said, key)
	case e.Action == "fail" && e.Test != "":
		c.failed++
		c.bad[e.Package] = true
		c.say(key)
	case e.Action == "fail":
		c.packageFails(e)
	}
}

func (c *counter) passes(e event) {
	switch {
	case e.Test == "":
	case e.Action == "skip":
		c.skipped++
		fmt.Fprintf(c.to, "--- SKIP: %s %s\n", e.Package, e.Test)
	default:
		c.passed++
	}
}

// packageFails counts a failure of its own for a package that did not build or
// died, and shows what the tests that never ended had printed.
func (c *counter) packageFails(e event) {
	for _, key := range slices.Sorted(maps.Keys(c.said)) {
		if strings.HasPrefix(key, e.Package+" ") {
			c.say(key)
		}
	}
	if !c.bad[e.Package] {
		c.failed++
	}
}

func (c *counter) say(key string) {
	for _, s := range c.said[key] {
		fmt.Fprint(c.to, s)
	}
	delete(c.said, key)
}

// packageResult tells go test's line on a package from what the package printed.
func packageResult(s string) bool {
	return strings.HasPrefix(s, "ok  \t") || strings.HasPrefix(s, "FAIL\t") || strings.HasPrefix(s, "?   \t")
}
