package promhook

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/actors/port"
)

// Type is how a metric moves.
type Type uint8

// The types.
const (
	Counter Type = iota // only up
	Gauge               // anywhere
	Histogram
)

// String names the type as Prometheus does.
func (t Type) String() string {
	switch t {
	case Counter:
		return "counter"
	case Histogram:
		return "histogram"
	default:
		return "gauge"
	}
}

// Metric is one row of the table.
type Metric struct {
	Name   string // as the roles say it
	Type   Type
	Labels []string
	// Values has the values of each label of which all are known beforehand. A counter whose
	// labels all are, or that has none, is there from the start with 0.
	Values map[string][]string
	Help   string
}

// FullName is the name that Prometheus sees.
func (m Metric) FullName() string {
	if m.Type == Counter {
		return "millrace_" + strings.TrimSuffix(m.Name, "_total") + "_total"
	}
	return "millrace_" + m.Name
}

// Hook implements port.Metrics. It is safe for concurrent use.
type Hook struct {
	misuse   func(what string)
	mu       sync.Mutex
	families map[string]*family
}

type family struct {
	Metric
	desc   *prometheus.Desc
	series map[string]*series // by the label values, joined
}

type series struct {
	labels []string // values, in the order of Metric.Labels
	value  float64
	// buckets are how many values a histogram has up to each bound and above the one
	// before, then those above all; value is their sum.
	buckets []uint64
}

// New makes a hook for the metrics of the table. misuse is told of every call that does
// not fit it; such a call changes nothing.
func New(version string, misuse func(what string)) *Hook {
	h := newHook(Metrics(), misuse)
	h.Gauge("build_info", 1, "version", version)
	return h
}

func newHook(metrics []Metric, misuse func(what string)) *Hook {
	h := &Hook{misuse: misuse, families: map[string]*family{}}
	for _, m := range metrics {
		h.families[m.Name] = &family{
			Metric: m,
			desc:   prometheus.NewDesc(m.FullName(), m.Help, m.Labels, nil),
			series: map[string]*series{},
		}
		h.families[m.Name].begin()
	}
	return h
}

// begin makes the series of a counter that are known beforehand: one that appeared with
// its first count would hide that count from whoever asks for the increase.
func (f *family) begin() {
	if f.Type != Counter {
		return
	}
	all := [][]string{nil}
	for _, label := range f.Labels {
		var longer [][]string
		for _, values := range all {
			for _, v := range f.Values[label] {
				longer = append(longer, append(slices.Clone(values), v))
			}
		}
		all = longer
	}
	for _, values := range all {
		f.at(values)
	}
}

var _ port.Metrics = (*Hook)(nil)

// Count adds delta, which must not be negative, to a counter. labels are names and
// values in turn: all those of the table, in any order.
func (h *Hook) Count(name string, delta int64, labels ...string) {
	if delta < 0 {
		h.misuse(fmt.Sprintf("counter %s: a change by %d", name, delta))
		return
	}
	h.change(name, Counter, labels, func(s *series) { s.value += float64(delta) })
}

// Gauge sets a gauge.
func (h *Hook) Gauge(name string, value float64, labels ...string) {
	h.change(name, Gauge, labels, func(s *series) { s.value = value })
}

func (h *Hook) change(name string, t Type, labels []string, apply func(*series)) {
	h.mu.Lock()
	wrong := h.changeLocked(name, t, labels, apply)
	h.mu.Unlock()
	if wrong != "" {
		h.misuse(wrong)
	}
}

func (h *Hook) changeLocked(name string, t Type, labels []string, apply func(*series)) (wrong string) {
	f := h.families[name]
	if f == nil || f.Type != t {
		return fmt.Sprintf("there is no %s %s", t, name)
	}
	values, wrong := f.values(labels)
	switch {
	case wrong != "":
	case len(labels) != 2*len(f.Labels):
		wrong = fmt.Sprintf("%s: %d labels, want %s", name, len(labels)/2, strings.Join(f.Labels, ", "))
	default:
		apply(f.at(values))
	}
	return wrong
}

// values orders label values as the table does.
func (f *family) values(labels []string) (values []string, wrong string) {
	if len(labels)%2 != 0 {
		return nil, fmt.Sprintf("%s: %d label names and values, want pairs", f.Name, len(labels))
	}
	values = make([]string, len(f.Labels))
	for i := 0; i < len(labels); i += 2 {
		at := slices.Index(f.Labels, labels[i])
		if at < 0 {
			return nil, fmt.Sprintf("%s has no label %s", f.Name, labels[i])
		}
		values[at] = strings.ToValidUTF8(labels[i+1], "\ufffd")
		if known := f.Values[labels[i]]; known != nil && !slices.Contains(known, values[at]) {
			return nil, fmt.Sprintf("%s: the table does not know %s=%q", f.Name, labels[i], values[at])
		}
	}
	return values, ""
}

// at returns the series of the given label values, new if need be.
func (f *family) at(values []string) *series {
	key := strings.Join(values, "\xff") // no valid UTF-8 holds this byte
	s := f.series[key]
	if s == nil {
		s = &series{labels: values}
		f.series[key] = s
	}
	return s
}

// Forget drops every gauge that carries all the given labels, and moves the counts of
// such counters to the series in which these labels are empty. A label that no metric
// has is nothing to forget.
func (h *Hook) Forget(labels ...string) {
	if len(labels) == 0 || len(labels)%2 != 0 {
		h.misuse(fmt.Sprintf("forget: %d label names and values, want pairs", len(labels)))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.families {
		f.forget(labels)
	}
}

func (f *family) forget(labels []string) {
	want, wrong := f.values(labels)
	if wrong != "" {
		return // a family without these labels has nothing to forget
	}
	for key, s := range f.series {
		if !carries(s.labels, want) {
			continue
		}
		delete(f.series, key)
		if f.Type != Gauge {
			f.at(without(s.labels, want)).add(s)
		}
	}
}

// carries reports whether labels has every value that is set in want.
func carries(labels, want []string) bool {
	for i, w := range want {
		if w != "" && labels[i] != w {
			return false
		}
	}
	return true
}

// without empties in labels what is set in want.
func without(labels, want []string) []string {
	out := slices.Clone(labels)
	for i, w := range want {
		if w != "" {
			out[i] = ""
		}
	}
	return out
}

// Describe implements prometheus.Collector.
func (h *Hook) Describe(to chan<- *prometheus.Desc) {
	for _, f := range h.families {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (h *Hook) Collect(to chan<- prometheus.Metric) {
	for _, m := range h.snapshot() {
		to <- m
	}
}

func (h *Hook) snapshot() (out []prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.families {
		kind := prometheus.GaugeValue
		if f.Type == Counter {
			kind = prometheus.CounterValue
		}
		for _, s := range f.series {
			if f.Type == Histogram {
				out = append(out, s.histogram(f.desc))
				continue
			}
			out = append(out, prometheus.MustNewConstMetric(f.desc, kind, s.value, s.labels...))
		}
	}
	return out
}

// Handler answers with all metrics, and with those of the Go runtime and the process. ready is
// asked each time; nil: it is not told.
func (h *Hook) Handler(ready func() bool) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(h, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	all := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ready != nil {
			h.Gauge("ready", oneIf(ready()))
		}
		all.ServeHTTP(w, r)
	})
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
