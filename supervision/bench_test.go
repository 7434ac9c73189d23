package supervision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/supervision"
)

// part is one child of a scenario: a worker that does as told, or a supervisor.
type part struct {
	id       string
	restart  supervision.Restart
	signif   bool
	shutdown supervision.Shutdown // zero here means 1 s, as in oracle.erl; brutal is told by kill
	kill     bool

	init   func(n int) string // "" comes up, "ignore", or the error; n counts the starts of this id
	trap   bool               // records its stops, as a process that traps exits does
	linger time.Duration      // in a stop

	flags *supervision.Flags // set: a supervisor, of these parts
	parts []part
}

func (p part) limit() supervision.Shutdown {
	switch {
	case p.kill:
		return supervision.Brutal
	case p.flags != nil:
		return supervision.Infinity
	case p.shutdown == supervision.Shutdown{}:
		return supervision.After(time.Second)
	}
	return p.shutdown
}

// bench is a supervisor to try, with everything that oracle.erl can do to one. Reasons
// and answers are written as Erlang prints them.
type bench interface {
	start(flags supervision.Flags, parts ...part) string // "ok", or the error
	settle(d time.Duration)                              // lets d go by and all happen that can
	exit(path, reason string)                            // the worker there ends by itself
	down() string                                        // alive, or {down,Reason}
	kid(path string) string                              // pid, undefined, restarting or gone
	starts(id string) int
	events() string // of workers: [{start,a},...]
	which() string  // [{a,undefined},...]
	count() string
	add(p part) string
	terminate(id string) string
	restart(id string) string
	remove(id string) string
	stop() time.Duration // as a parent does; returns how long it took
}

// onBenches runs a test on the pure core and on real processes.
func onBenches(t *testing.T, f func(t *testing.T, fresh func() bench)) {
	t.Run("core", func(t *testing.T) { f(t, newCoreBench) })
	t.Run("actors", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) { f(t, func() bench { return newRealBench(t, w) }) })
	})
}

// record is what workers leave behind.
type record struct {
	lines []string
	begun map[string]int
}

func (r *record) note(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *record) events() string { return "[" + strings.Join(r.lines, ",") + "]" }

// bump counts a start of id and records it.
func (r *record) bump(id string) int {
	if r.begun == nil {
		r.begun = map[string]int{}
	}
	r.begun[id]++
	r.note("{start,%s}", id)
	return r.begun[id]
}

func pair(id, state string) string { return "{" + id + "," + state + "}" }

func list(items []string) string { return "[" + strings.Join(items, ",") + "]" }
