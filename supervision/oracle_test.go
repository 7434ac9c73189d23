package supervision_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/supervision"
)

// The tests of this file do what oracle.erl does and expect what a live OTP printed:
// testdata/oracle.txt is its output, unchanged, and the expectation.

// section returns the lines of one section of the oracle, without its heading.
func section(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/oracle.txt")
	if err != nil {
		t.Fatal(err)
	}
	for s := range strings.SplitSeq(string(text), "\n## ") {
		if strings.HasPrefix(s, name+" ") {
			lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
			return lines[1:]
		}
	}
	t.Fatalf("no section %s in the oracle", name)
	return nil
}

// Every section has its test, and each test compares every row of its sections: what a new
// oracle says beyond that is seen here.
func TestEverySectionIsAsserted(t *testing.T) {
	text, err := os.ReadFile("testdata/oracle.txt")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^## (\S+) `).FindAllStringSubmatch(string(text), -1) {
		names = append(names, heading[1])
	}
	if got := strings.Join(names, " "); got != "A B B2 B3 B4 C D E F G H I J" {
		t.Errorf("sections %s", got)
	}
	for name, rows := range map[string]int{"E": 2, "F": 3, "J": 9 + 1 + 6} {
		if got := len(section(t, name)); got != rows {
			t.Errorf("section %s has %d rows, %d are asserted", name, got, rows)
		}
	}
}

// compare compares printed lines with the oracle's.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d\n got %s\nOTP: %s", i+1, g, w)
		}
	}
}

var (
	second  = time.Second
	reasons = []string{"normal", "shutdown", "{shutdown,x}", "crash", "kill"}
	three5  = supervision.Flags{Intensity: 3, Period: 5 * second}
	one5    = supervision.Flags{Intensity: 1, Period: 5 * second} // also OTP's default
)

func auto(f supervision.Flags, a supervision.AutoShutdown) supervision.Flags {
	f.AutoShutdown = a
	return f
}

func strategy(f supervision.Flags, s supervision.Strategy) supervision.Flags {
	f.Strategy = s
	return f
}

func mustStart(t *testing.T, b bench, f supervision.Flags, parts ...part) {
	t.Helper()
	if got := b.start(f, parts...); got != "ok" {
		t.Fatalf("start: %s", got)
	}
}

func TestOracleARestartTypes(t *testing.T) {
	want := section(t, "A")
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		for _, r := range []supervision.Restart{supervision.Permanent, supervision.Transient, supervision.Temporary} {
			for _, why := range reasons {
				b := fresh()
				mustStart(t, b, one5, part{id: "w", restart: r})
				b.exit("w", why)
				starts, kid := b.starts("w"), b.kid("w")
				if kid == "pid" {
					b.exit("w", why)
				}
				what := map[string]string{"gone": "spec removed", "undefined": "spec kept, pid undefined", "restarting": "restarting", "pid": "restarted"}[kid]
				got = append(got, fmt.Sprintf("%-10s %-14s starts=%d %-26s second exit: supervisor %s", r, why, starts, what, b.down()))
			}
		}
		compare(t, got, want)
	})
}

func TestOracleBSignificance(t *testing.T) {
	want := section(t, "B")
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		for _, a := range []supervision.AutoShutdown{supervision.AnySignificant, supervision.AllSignificant} {
			for _, r := range []supervision.Restart{supervision.Transient, supervision.Temporary} {
				for _, why := range reasons {
					b := fresh()
					mustStart(t, b, auto(one5, a), part{id: "a", restart: r, signif: true}, part{id: "b", trap: true})
					b.exit("a", why)
					got = append(got, fmt.Sprintf("%-16s %-10s %-14s supervisor %-18s a starts=%d b events=%s",
						a, r, why, b.down(), b.starts("a"), without(b.events(), "start")))
				}
			}
		}
		compare(t, got, want)
	})
}

// without takes the events of one kind out of a list.
func without(events, kind string) string {
	var rest []string
	for _, e := range regexp.MustCompile(`\{[^}]*\}`).FindAllString(events, -1) {
		if !strings.HasPrefix(e, "{"+kind+",") {
			rest = append(rest, e)
		}
	}
	return list(rest)
}

func TestOracleB2LastSignificant(t *testing.T) {
	onBenches(t, func(t *testing.T, fresh func() bench) {
		b := fresh()
		mustStart(t, b, auto(one5, supervision.AllSignificant),
			part{id: "a", restart: supervision.Transient, signif: true}, part{id: "b", restart: supervision.Transient, signif: true}, part{id: "c", trap: true})
		b.exit("a", "normal")
		first := b.down()
		b.exit("b", "normal")
		compare(t, []string{fmt.Sprintf("after a: %s, after b: %s", first, b.down())}, section(t, "B2"))
	})
}

func TestOracleB3TerminateIsNoEnd(t *testing.T) {
	onBenches(t, func(t *testing.T, fresh func() bench) {
		b := fresh()
		mustStart(t, b, auto(one5, supervision.AnySignificant), part{id: "a", restart: supervision.Transient, signif: true})
		got := fmt.Sprintf("terminate_child -> %s, supervisor %s, children %s", b.terminate("a"), b.down(), b.which())
		compare(t, []string{got}, section(t, "B3"))
	})
}

// OTP's term is broken over lines and names the pair it objects to; ours names it in words.
func TestOracleB4BadCombinations(t *testing.T) {
	want := strings.Join(section(t, "B4"), "")
	want = strings.ReplaceAll(want, " ", "")
	refusal := regexp.MustCompile(`auto_shutdown=(\w+?)restart=(\w+?)significant=true->\{start_spec,\{bad_combination,\[\{(\w+),(\w+)\},\{significant,true\}\]\}\}`)
	cases := refusal.FindAllStringSubmatch(want, -1)
	if len(cases) != 3 || !strings.HasSuffix(want, "any_significantwithnochildren->ok") {
		t.Fatalf("section B4 is not understood: %s", want)
	}
	autos := map[string]supervision.AutoShutdown{"never": supervision.NeverShutdown, "any_significant": supervision.AnySignificant}
	restarts := map[string]supervision.Restart{"permanent": supervision.Permanent, "transient": supervision.Transient}
	onBenches(t, func(t *testing.T, fresh func() bench) {
		for _, c := range cases {
			got := fresh().start(auto(one5, autos[c[1]]), part{id: "a", restart: restarts[c[2]], signif: true})
			if !strings.Contains(got, "bad combination: significant with "+c[3]+" "+c[4]) {
				t.Errorf("%s: got %s", c[0], got)
			}
		}
		mustStart(t, fresh(), auto(one5, supervision.AnySignificant))
	})
}

func TestOracleCBudget(t *testing.T) {
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		for _, n := range []int{0, 1, 3} {
			b := fresh()
			mustStart(t, b, supervision.Flags{Intensity: n, Period: 5 * second}, part{id: "w"})
			for range 20 {
				if b.down() == "alive" {
					b.exit("w", "crash")
				}
			}
			got = append(got, fmt.Sprintf("intensity %d: starts=%d supervisor %s", n, b.starts("w"), b.down()))
		}
		b := fresh()
		mustStart(t, b, three5, part{id: "a"}, part{id: "b"})
		for _, id := range []string{"a", "b", "a"} {
			b.exit(id, "crash")
		}
		after3 := fmt.Sprintf("{%d,%d,%v}", b.starts("a"), b.starts("b"), b.down() == "alive")
		b.exit("b", "crash")
		got = append(got, "budget shared by children a,b with intensity 3:",
			fmt.Sprintf("after 3 crashes {a starts, b starts, alive}=%s; 4th crash: supervisor %s", after3, b.down()))
		compare(t, got, section(t, "C"))
	})
}

func ignoring(int) string { return "ignore" }

// ignoringOnRestart comes up once.
func ignoringOnRestart(n int) string {
	if n == 1 {
		return ""
	}
	return "ignore"
}

func TestOracleDIgnore(t *testing.T) {
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		for _, r := range []supervision.Restart{supervision.Permanent, supervision.Transient, supervision.Temporary} {
			b := fresh()
			mustStart(t, b, one5, part{id: "w", restart: r, init: ignoring})
			got = append(got, fmt.Sprintf("static %s ignore at start: children %s count %s", r, b.which(), b.count()))
		}
		b := fresh()
		mustStart(t, b, three5, part{id: "w", init: ignoringOnRestart})
		b.exit("w", "crash")
		got = append(got, fmt.Sprintf("permanent, ignore on restart: children %s supervisor %s", b.which(), b.down()))

		b = fresh()
		mustStart(t, b, strategy(one5, supervision.SimpleOneForOne), part{id: "w", restart: supervision.Temporary})
		got = append(got, fmt.Sprintf("simple_one_for_one start_child returning ignore -> %s, children %s",
			b.add(part{id: "1", restart: supervision.Temporary, init: ignoring}), b.which()))

		b = fresh()
		mustStart(t, b, one5)
		added := list([]string{b.add(part{id: "x", init: ignoring}), b.add(part{id: "y", restart: supervision.Temporary, init: ignoring})})
		got = append(got, fmt.Sprintf("dynamic start_child ignore -> %s, children %s, start_child again -> %s, restart_child -> %s",
			added, b.which(), b.add(part{id: "x"}), b.restart("x")))
		compare(t, got, section(t, "D"))
	})
}

func TestOracleEStartFailure(t *testing.T) {
	want := section(t, "E")
	onBenches(t, func(t *testing.T, fresh func() bench) {
		b := fresh()
		err := b.start(one5, part{id: "a", trap: true}, part{id: "b", trap: true},
			part{id: "c", init: func(int) string { return "nope" }}, part{id: "d"})
		// The words are ours: child and cause must be named.
		if !strings.Contains(err, "c") || !strings.Contains(err, "nope") || want[0] != "start_link -> {error,{shutdown,{failed_to_start_child,c,nope}}}" {
			t.Errorf("start gave %s", err)
		}
		compare(t, []string{"events " + b.events()}, want[1:2])
	})
}

func number(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var millis = regexp.MustCompile(`(\d+) ms(, | \(|$)`)

// near takes the measured time out of a line, and checks it against the oracle's, which
// a real clock measured.
func near(t *testing.T, line string, took time.Duration) string {
	t.Helper()
	m := millis.FindStringSubmatchIndex(line)
	if m == nil {
		t.Fatalf("no time in %q", line)
	}
	ms := number(t, line[m[2]:m[3]])
	if d := took - time.Duration(ms)*time.Millisecond; d < -5*time.Millisecond || d > 20*time.Millisecond {
		t.Errorf("took %v, OTP %d ms", took, ms)
	}
	return line[:m[2]] + line[m[3]:]
}

func TestOracleFStopOrderAndTimeouts(t *testing.T) {
	want := section(t, "F")
	lingering := part{trap: true, linger: 100 * time.Millisecond}
	onBenches(t, func(t *testing.T, fresh func() bench) {
		b := fresh()
		mustStart(t, b, one5, part{id: "a", trap: true},
			part{id: "b", trap: true, linger: 400 * time.Millisecond, shutdown: supervision.After(150 * time.Millisecond)},
			part{id: "c", trap: true, kill: true})
		took := b.stop()
		b.settle(second)
		compare(t, []string{fmt.Sprintf("supervisor %s after  ms, events %s", b.down(), b.events())}, []string{near(t, want[0], took)})

		b = fresh()
		var parts []part
		for _, id := range []string{"a", "b", "c"} {
			p := lingering
			p.id = id
			parts = append(parts, p)
		}
		mustStart(t, b, one5, parts...)
		took = b.stop()
		line := strings.Replace(want[1], "lingering 100 ms each, ", "", 1)
		compare(t, []string{"three children one_for_one:  ms, order " + order(b.events())}, []string{near(t, line, took)})

		b = fresh()
		mustStart(t, b, strategy(one5, supervision.SimpleOneForOne), part{id: "w", restart: supervision.Temporary})
		for _, p := range parts {
			p.restart = supervision.Temporary
			b.add(p)
		}
		near(t, strings.Replace(want[2], "lingering 100 ms each, ", "", 1), b.stop())
	})
}

// order lists who stopped, in order.
func order(events string) string {
	var ids []string
	for _, m := range regexp.MustCompile(`\{stopping,(\w+),`).FindAllStringSubmatch(events, -1) {
		ids = append(ids, m[1])
	}
	return list(ids)
}
