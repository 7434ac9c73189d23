package promhook

import (
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// told collects what a hook complains of.
type told struct {
	mu   sync.Mutex
	what []string
}

func (t *told) take(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.what = append(t.what, what)
}

// with makes a hook for a table of its own.
func with(t *testing.T, metrics ...Metric) (*Hook, *told) {
	t.Helper()
	complaints := &told{}
	return newHook(metrics, complaints.take), complaints
}

// scrape returns the lines of our own metrics, sorted.
func scrape(t *testing.T, h *Hook) []string {
	t.Helper()
	w := httptest.NewRecorder()
	h.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d %v %s", w.Code, err, body)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "millrace_") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	slices.Sort(lines)
	return lines
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var (
	uploads = Metric{Name: "uploads", Type: Counter, Labels: []string{"stream", "result"}, Help: "Uploads."}
	size    = Metric{Name: "size_bytes", Type: Gauge, Labels: []string{"stream"}, Help: "Size."}
	plain   = Metric{Name: "plain_total", Type: Counter, Help: "Plain."}
)

func TestCountersAddAndGaugesAreSet(t *testing.T) {
	h, complaints := with(t, uploads, size, plain)
	h.Count("uploads", 2, "stream", "a", "result", "ok")
	h.Count("uploads", 3, "result", "ok", "stream", "a")
	h.Count("uploads", 0, "stream", "b", "result", "ok")
	h.Gauge("size_bytes", 7, "stream", "a")
	h.Gauge("size_bytes", -1.5, "stream", "a")
	h.Count("plain_total", 1)
	same(t, scrape(t, h),
		`millrace_plain_total 1`,
		`millrace_size_bytes{stream="a"} -1.5`,
		`millrace_uploads_total{result="ok",stream="a"} 5`,
		`millrace_uploads_total{result="ok",stream="b"} 0`)
	if len(complaints.what) != 0 {
		t.Errorf("complained: %q", complaints.what)
	}
}

// A histogram's buckets are cumulative, and a value on a bound is below it.
func TestHistograms(t *testing.T) {
	h, complaints := with(t, Metric{Name: "took_seconds", Type: Histogram, Labels: []string{"stream"}, Help: "Took."})
	for _, v := range []float64{0.001, 0.01, 0.02, 60, 61} {
		h.Observe("took_seconds", v, "stream", "a")
	}
	h.Observe("took_seconds", 0.3, "stream", "b")
	h.Forget("stream", "a")
	h.Observe("took_seconds", 1000, "stream", "")
	h.Count("took_seconds", 1, "stream", "a")
	var want []string
	for i, bound := range []string{"0.01", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30", "60", "+Inf"} {
		a, b := []int{2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 6}[i], []int{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}[i]
		want = append(want, fmt.Sprintf(`millrace_took_seconds_bucket{stream="",le="%s"} %d`, bound, a), fmt.Sprintf(`millrace_took_seconds_bucket{stream="b",le="%s"} %d`, bound, b))
	}
	want = append(want, `millrace_took_seconds_count{stream=""} 6`, `millrace_took_seconds_count{stream="b"} 1`, `millrace_took_seconds_sum{stream=""} 1121.031`, `millrace_took_seconds_sum{stream="b"} 0.3`)
	slices.Sort(want)
	same(t, scrape(t, h), want...)
	if len(complaints.what) != 1 {
		t.Errorf("complained %q", complaints.what)
	}
}

func TestWhatIsNotInTheTableIsRefused(t *testing.T) {
	for _, c := range []struct {
		call func(h *Hook)
		says string
	}{
		{func(h *Hook) { h.Count("nothing", 1) }, "no counter nothing"},
		{func(h *Hook) { h.Gauge("plain_total", 1) }, "no gauge plain_total"},
		{func(h *Hook) { h.Count("size_bytes", 1, "stream", "a") }, "no counter size_bytes"},
		{func(h *Hook) { h.Count("plain_total", -1) }, "change by -1"},
		{func(h *Hook) { h.Count("plain_total", 1, "stream", "a") }, "no label stream"},
		{func(h *Hook) { h.Count("uploads", 1, "stream", "a") }, "want stream, result"},
		{func(h *Hook) { h.Count("uploads", 1, "stream", "a", "stream") }, "want pairs"},
		{func(h *Hook) { h.Gauge("size_bytes", 1, "stream", "a", "stream", "b") }, "want stream"},
		{func(h *Hook) { h.Forget() }, "want pairs"},
		{func(h *Hook) { h.Forget("stream") }, "want pairs"},
	} {
		h, complaints := with(t, uploads, size, plain)
		c.call(h)
		if len(complaints.what) != 1 || !strings.Contains(complaints.what[0], c.says) {
			t.Errorf("complained %q, want %q", complaints.what, c.says)
		}
		same(t, scrape(t, h), `millrace_plain_total 0`)
	}
}

// A counter is there before its first count; a gauge, and a counter that can have any
// series, is not. What the table does not know does not slip in later.
func TestCountersBeginWithZero(t *testing.T) {
	results := Metric{Name: "results_total", Type: Counter, Labels: []string{"tier", "ok"}, Help: "Results.",
		Values: map[string][]string{"tier": {"local", "remote"}, "ok": {"yes", "no"}}}
	half := Metric{Name: "half_total", Type: Counter, Labels: []string{"tier", "stream"}, Help: "Half.", Values: map[string][]string{"tier": {"local"}}}
	level := Metric{Name: "level", Type: Gauge, Help: "Level."}
	h, complaints := with(t, uploads, size, plain, results, half, level)
	fresh := []string{
		`millrace_plain_total 0`,
		`millrace_results_total{ok="no",tier="local"} 0`, `millrace_results_total{ok="no",tier="remote"} 0`,
		`millrace_results_total{ok="yes",tier="local"} 0`, `millrace_results_total{ok="yes",tier="remote"} 0`,
	}
	same(t, scrape(t, h), fresh...)
	h.Count("results_total", 1, "tier", "moon", "ok", "yes")
	same(t, scrape(t, h), fresh...)
	if len(complaints.what) != 1 || !strings.Contains(complaints.what[0], `does not know tier="moon"`) {
		t.Errorf("complained: %q", complaints.what)
	}
}

// What was counted stays in the sum when a stream goes; its gauges go.
func TestForgettingAStreamNeverLowersASum(t *testing.T) {
	h, complaints := with(t, uploads, size, plain)
	for i, stream := range []string{"a", "b", "c"} {
		h.Count("uploads", int64(10*(i+1)), "stream", stream, "result", "ok")
		h.Count("uploads", 1, "stream", stream, "result", "failed")
		h.Gauge("size_bytes", 5, "stream", stream)
	}
	h.Count("plain_total", 4)
	h.Forget("stream", "a")
	h.Forget("stream", "b")
	h.Forget("stream", "b")
	h.Forget("capture", "x") // a label that no metric here has
	same(t, scrape(t, h),
		`millrace_plain_total 4`,
		`millrace_size_bytes{stream="c"} 5`,
		`millrace_uploads_total{result="failed",stream=""} 2`,
		`millrace_uploads_total{result="failed",stream="c"} 1`,
		`millrace_uploads_total{result="ok",stream=""} 30`,
		`millrace_uploads_total{result="ok",stream="c"} 30`)
	h.Forget("stream", "c", "result", "ok")
	same(t, scrape(t, h),
		`millrace_plain_total 4`,
		`millrace_size_bytes{stream="c"} 5`,
		`millrace_uploads_total{result="",stream=""} 30`,
		`millrace_uploads_total{result="failed",stream=""} 2`,
		`millrace_uploads_total{result="failed",stream="c"} 1`,
		`millrace_uploads_total{result="ok",stream=""} 30`)
	if len(complaints.what) != 0 {
		t.Errorf("complained: %q", complaints.what)
	}
}

func TestValuesThatAreNotTextStillScrape(t *testing.T) {
	h, _ := with(t, size)
	h.Gauge("size_bytes", 1, "stream", "a\xffb\"\n")
	same(t, scrape(t, h), `millrace_size_bytes{stream="a`+"\ufffd"+`b\"\n"} 1`)
}

func TestTheRealTableScrapes(t *testing.T) {
	var complaints told
	h := New("v1.2.3", complaints.take)
	for _, m := range Metrics() {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, l, append(m.Values[l], "x")[0])
		}
		switch m.Type {
		case Counter:
			h.Count(m.Name, 1, labels...)
		case Gauge:
			h.Gauge(m.Name, 1, labels...)
		case Histogram:
			h.Observe(m.Name, 1, labels...)
		}
	}
	lines := scrape(t, h)
	for _, m := range Metrics() {
		if !slices.ContainsFunc(lines, func(l string) bool {
			name, value, _ := strings.Cut(l, " ")
			name, _, _ = strings.Cut(name, "{")
			if m.Type == Histogram {
				name = strings.TrimSuffix(name, "_count")
			}
			return name == m.FullName() && value != "0"
		}) {
			t.Errorf("%s is not there", m.FullName())
		}
	}
	if len(complaints.what) != 0 {
		t.Errorf("complained %q", complaints.what)
	}
}

func TestConcurrentUse(t *testing.T) {
	h, _ := with(t, uploads, size)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				stream := fmt.Sprint(j % 5)
				h.Count("uploads", 1, "stream", stream, "result", "ok")
				h.Gauge("size_bytes", float64(i), "stream", stream)
				if j%50 == 0 {
					h.Forget("stream", stream)
					h.snapshot()
				}
			}
		})
	}
	wg.Wait()
	sum := 0.0
	for _, s := range h.families["uploads"].series {
		sum += s.value
	}
	if sum != 800 {
		t.Errorf("%v uploads were counted, want 800", sum)
	}
}

// Whether the node is ready is told as of each scrape.
func TestReadyIsAskedEachTime(t *testing.T) {
	ready := true
	h := New("v1", func(what string) { t.Error(what) })
	for _, want := range []string{"millrace_ready 1\n", "millrace_ready 0\n", "millrace_ready 1\n"} {
		w := httptest.NewRecorder()
		h.Handler(func() bool { return ready }).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in what is scraped", want)
		}
		ready = !ready
	}
}
