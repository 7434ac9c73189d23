package supervision_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/supervision"
)

func TestOracleGFailingRestarts(t *testing.T) {
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		for k := 1; k <= 4; k++ {
			b := fresh()
			mustStart(t, b, three5, part{id: "w", init: func(n int) string {
				if n > 1 && n <= k+1 {
					return "x"
				}
				return ""
			}})
			b.exit("w", "crash")
			child := "na"
			if b.down() == "alive" {
				child = strconv.FormatBool(b.kid("w") == "pid")
			}
			got = append(got, fmt.Sprintf("%d failing restarts: starts=%d supervisor %s child %s", k, b.starts("w"), b.down(), child))
		}
		compare(t, got, section(t, "G"))
	})
}

func TestOracleHCalls(t *testing.T) {
	onBenches(t, func(t *testing.T, fresh func() bench) {
		b := fresh()
		mustStart(t, b, one5, part{id: "a"}, part{id: "t", restart: supervision.Temporary})
		only := func(id string) string {
			if k := b.kid(id); k != "gone" {
				return list([]string{pair(id, k)})
			}
			return "[]"
		}
		ids := func() string { return regexp.MustCompile(`\{(\w+),\w+\}`).ReplaceAllString(b.which(), "$1") }
		got := []string{
			"start_child duplicate id, running -> " + b.add(part{id: "a"}),
			fmt.Sprintf("terminate_child a -> %s, then which %s", b.terminate("a"), only("a")),
			"start_child duplicate id, stopped -> " + b.add(part{id: "a"}),
			fmt.Sprintf("terminate_child t (temporary) -> %s, which %s", b.terminate("t"), ids()),
			fmt.Sprintf("delete_child a -> %s; restart_child a -> %s; terminate_child zzz -> %s", b.remove("a"), b.restart("a"), b.terminate("zzz")),
		}
		b = fresh()
		mustStart(t, b, one5, part{id: "a"}, part{id: "b"}, part{id: "c"})
		got = append(got, fmt.Sprintf("delete_child while running -> %s; restart_child while running -> %s; which_children order for a,b,c: %s", b.remove("a"), b.restart("a"), ids()))
		compare(t, got, section(t, "H"))
	})
}

func TestOracleITwoLayers(t *testing.T) {
	inner := auto(three5, supervision.AnySignificant)
	sub := func(id string) part {
		return part{id: id, restart: supervision.Temporary, flags: &inner,
			parts: []part{{id: "w", restart: supervision.Transient, signif: true}}}
	}
	modes := map[string][]string{"normal": {"normal"}, "crash3": {"crash", "crash", "crash"}, "crash4": {"crash", "crash", "crash", "crash"}}
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		for _, mode := range []string{"normal", "crash3", "crash4"} {
			b := fresh()
			mustStart(t, b, strategy(one5, supervision.SimpleOneForOne), sub("s"))
			b.add(sub("one"))
			b.add(sub("two"))
			for _, why := range modes[mode] {
				b.exit("one/w", why)
			}
			state := "alive"
			if b.kid("one") == "gone" {
				state = "{down,shutdown}"
			}
			got = append(got, fmt.Sprintf("%s: stream_sup %s; factory %s; other stream %v; factory children %d",
				mode, state, b.down(), b.kid("two/w") == "pid", strings.Count(b.which(), "{")))
		}
		compare(t, got, section(t, "I"))
	})
}

func TestOracleJEdges(t *testing.T) {
	want := section(t, "J")
	onBenches(t, func(t *testing.T, fresh func() bench) {
		var got []string
		b := fresh()
		mustStart(t, b, auto(three5, supervision.AnySignificant), part{id: "w", restart: supervision.Transient, signif: true, init: ignoringOnRestart})
		b.exit("w", "crash")
		got = append(got, "transient significant child whose restart returns ignore: supervisor "+b.down(), "  children "+b.which())

		b = fresh()
		mustStart(t, b, auto(one5, supervision.AnySignificant), part{id: "w", restart: supervision.Transient, signif: true, init: ignoring})
		got = append(got, fmt.Sprintf("significant child ignoring at first start: supervisor %s children %s", b.down(), b.which()))

		for _, r := range []supervision.Restart{supervision.Permanent, supervision.Transient, supervision.Temporary} {
			b = fresh()
			inner := supervision.Flags{Intensity: 0, Period: 5 * second}
			mustStart(t, b, one5, part{id: "inner", restart: r, flags: &inner, parts: []part{{id: "w"}}})
			b.exit("inner/w", "crash")
			kid := strings.Replace(b.kid("inner"), "pid", "restarted", 1)
			got = append(got, fmt.Sprintf("child supervisor (%s) that exhausts its budget: parent %s, child %s", r, b.down(), kid))
		}

		abc := []part{{id: "a", trap: true}, {id: "b", trap: true}, {id: "c", trap: true}}
		b = fresh()
		mustStart(t, b, one5, abc...)
		b.exit("a", "crash")
		b.stop()
		got = append(got, "stop order after a was restarted once (a,b,c declared): "+order(b.events()))

		b = fresh()
		mustStart(t, b, strategy(three5, supervision.RestForOne), abc...)
		b.exit("b", "crash")
		got = append(got, "rest_for_one, b crashes: "+b.events())

		b = fresh()
		mustStart(t, b, strategy(three5, supervision.OneForAll), abc[0], abc[1], part{id: "c", trap: true, restart: supervision.Temporary})
		b.exit("b", "crash")
		ids := regexp.MustCompile(`\{(\w+),\w+\}`).ReplaceAllString(b.which(), "$1")
		got = append(got, fmt.Sprintf("one_for_all, b crashes (c temporary): %s, children %s", b.events(), ids))
		compare(t, got, want[:9])
	})
}

// OTP takes crashes 1.1 s apart for ones within a period of 1 s; we don't, nor at 1 s and 1 ms.
func TestOracleJFineWindow(t *testing.T) {
	want := section(t, "J")[9]
	m := regexp.MustCompile(`^intensity 1 period 1: crashes 1.1 s apart -> supervisor \{down,shutdown\} `).FindString(want)
	if m == "" {
		t.Fatalf("the row is not understood: %s", want)
	}
	for gap, died := range map[time.Duration]bool{1100 * time.Millisecond: false, 1001 * time.Millisecond: false, second: true} {
		onBenches(t, func(t *testing.T, fresh func() bench) {
			b := fresh()
			mustStart(t, b, supervision.Flags{Intensity: 1, Period: second}, part{id: "w"})
			b.exit("w", "crash")
			b.settle(gap)
			b.exit("w", "crash")
			if got := b.down() != "alive"; got != died {
				t.Errorf("crashes %v apart: died %v", gap, got)
			}
		})
	}
}

// OTP counts in whole seconds, inclusive; we count milliseconds, inclusive. So we agree
// with it outside of the second after the period.
func TestOracleJWindow(t *testing.T) {
	line := regexp.MustCompile(`crashes (\d+) ms apart \(intensity 1, period 5\): supervisor died in (\d+) of 20`)
	cases := line.FindAllStringSubmatch(strings.Join(section(t, "J"), "\n"), -1)
	if len(cases) != 6 {
		t.Fatalf("%d lines about the window", len(cases))
	}
	onBenches(t, func(t *testing.T, fresh func() bench) {
		for _, c := range cases {
			ms, died := number(t, c[1]), number(t, c[2])
			b := fresh()
			mustStart(t, b, one5, part{id: "w"})
			b.exit("w", "crash")
			b.settle(time.Duration(ms) * time.Millisecond)
			b.exit("w", "crash")
			within := ms <= 5000
			if got := b.down() != "alive"; got != within {
				t.Errorf("%s ms apart: died %v", c[1], got)
			}
			if outside := ms <= 5000 || ms >= 6000; outside && within != (died == 20) {
				t.Errorf("%s ms apart: OTP died in %d of 20", c[1], died)
			}
		}
	})
}
