package promhook

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/actors/port"
)

var _ port.Durations = (*Hook)(nil)

// requestSeconds are the upper bounds of a histogram of requests, in seconds.
var requestSeconds = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// Observe adds a value to a histogram.
func (h *Hook) Observe(name string, value float64, labels ...string) {
	h.change(name, Histogram, labels, func(s *series) {
		s.value += value
		at, _ := slices.BinarySearch(requestSeconds, value)
		if s.buckets == nil {
			s.buckets = make([]uint64, len(requestSeconds)+1)
		}
		s.buckets[at]++
	})
}

// histogram makes what Prometheus takes, whose buckets are cumulative.
func (s *series) histogram(desc *prometheus.Desc) prometheus.Metric {
	var count uint64
	upTo := map[float64]uint64{}
	for i, n := range s.buckets {
		count += n
		if i < len(requestSeconds) {
			upTo[requestSeconds[i]] = count
		}
	}
	return prometheus.MustNewConstHistogram(desc, count, s.value, upTo, s.labels...)
}

// add takes over what another series has counted.
func (s *series) add(other *series) {
	s.value += other.value
	if s.buckets == nil {
		s.buckets = make([]uint64, len(other.buckets))
	}
	for i, n := range other.buckets {
		s.buckets[i] += n
	}
}
