package supervision_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/test/otp"
)

// The benchmarks of this file measure the figures that issue 3 asks for, on our supervisor,
// on suture's and on Erlang's in the same run, one after the other in each round; what is
// reported are medians over the rounds. How each does it is in contestants_test.go and
// test/otp/bench.erl. make bench runs them.

const streams = 10_000

// contestant is a supervisor to measure. Times are for one operation.
type contestant interface {
	startStop(n int) time.Duration // a child is started and stopped, each awaited
	crash(n int) time.Duration     // from telling a child to crash to its successor's init, 5 times under each of n supervisors
	streams(n int) streamFigures
}

// streamFigures are those of n supervisors with a worker each below one supervisor.
type streamFigures struct {
	start, stop time.Duration // of all
	tree        time.Duration // to list all
	bytes       int64         // for each
	goroutines  int           // of all, while idle
}

// erlang measures on a real Erlang.
type erlang struct {
	b   *testing.B
	erl *otp.Erlang
}

func (e erlang) ask(command string, n int) []int64 {
	answer, err := e.erl.Ask(fmt.Sprint(command, " ", n))
	if err != nil {
		e.b.Fatal(err)
	}
	var numbers []int64
	for word := range strings.FieldsSeq(answer) {
		x, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			e.b.Fatal(err)
		}
		numbers = append(numbers, x)
	}
	return numbers
}

func (e erlang) startStop(n int) time.Duration { return time.Duration(e.ask("start_stop", n)[0]) }

func (e erlang) crash(n int) time.Duration { return time.Duration(e.ask("crash", n)[0]) }

func (e erlang) streams(n int) streamFigures {
	x := e.ask("streams", n)
	return streamFigures{
		start: time.Duration(x[0]) * time.Microsecond, stop: time.Duration(x[1]) * time.Microsecond,
		tree: time.Duration(x[2]) * time.Microsecond, bytes: x[3],
	}
}

// rivals are those we are compared with.
func rivals(b *testing.B) map[string]contestant {
	erl, err := otp.StartErlang(b.TempDir(), "bench", "+P", "1000000")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := erl.Close(); err != nil {
			b.Error(err)
		}
	})
	return map[string]contestant{"suture": sutures{b}, "erlang": erlang{b, erl}}
}

// figures collects samples by name.
type figures map[string][]float64

func (f figures) add(name string, x float64) { f[name] = append(f[name], x) }

func (f figures) median(name string) float64 {
	xs := slices.Sorted(slices.Values(f[name]))
	if len(xs) == 0 {
		return 0
	}
	return xs[len(xs)/2]
}

// report logs one of our figures beside its limit, and the rivals' with what they are of
// ours: 0.5 means that they need half as much.
func (f figures) report(b *testing.B, what, unit string, limit float64) {
	ours := f.median(what)
	line := fmt.Sprintf("%-24s %8.5g %s", what, ours, unit)
	if limit > 0 {
		line += fmt.Sprintf(", %.0f%% of the limit of %g", 100*ours/limit, limit)
	}
	for _, rival := range []string{"suture", "erlang"} {
		if theirs := f.median(what + " " + rival); theirs > 0 && ours > 0 {
			line += fmt.Sprintf("; %s %.5g (%.2f)", rival, theirs, theirs/ours)
		}
	}
	b.Log(line)
	b.ReportMetric(ours, strings.NewReplacer(" ", "-", "/", "-per-").Replace(what)+"-"+unit)
}

func BenchmarkStartStop(b *testing.B) {
	race(b, "start and stop", 30, func(c contestant) time.Duration { return c.startStop(2000) })
}

func BenchmarkCrash(b *testing.B) {
	race(b, "crash to init", 100, func(c contestant) time.Duration { return c.crash(400) })
}

// race measures one time on all three.
func race(b *testing.B, what string, limit float64, measure func(contestant) time.Duration) {
	all, f := rivals(b), figures{}
	for b.Loop() {
		f.add(what, us(measure(ours{b})))
		for name, c := range all {
			f.add(what+" "+name, us(measure(c)))
		}
	}
	b.ReportMetric(0, "ns/op")
	f.report(b, what, "us", limit)
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func BenchmarkStreams(b *testing.B) {
	all, f := rivals(b), figures{}
	all[""] = ours{b}
	for b.Loop() {
		for name, c := range all {
			s := c.streams(streams)
			for what, x := range map[string]float64{
				"start all": us(s.start) / 1000, "stop all": us(s.stop) / 1000, "list all": us(s.tree) / 1000,
				"memory of each": float64(s.bytes), "goroutines of all": float64(s.goroutines),
			} {
				f.add(strings.TrimSpace(what+" "+name), x)
			}
		}
		plain, watched := ours{b}.watched(1000)
		f.add("crash beside them", us(plain))
		f.add("while listed 10 times/s", us(watched))
	}
	b.ReportMetric(0, "ns/op")
	f.report(b, "start all", "ms", 1000)
	f.report(b, "stop all", "ms", 5000)
	f.report(b, "list all", "ms", 50)
	f.report(b, "memory of each", "B", 8192)
	f.report(b, "crash beside them", "us", 0)
	f.report(b, "while listed 10 times/s", "us", 0)
	b.Logf("%-24s %8.5g; suture %.5g", "goroutines of all", f.median("goroutines of all"), f.median("goroutines of all suture"))
}
