package port

// Metrics takes the numbers that the node's processes publish. It never fails and
// never blocks; all methods are safe from any goroutine.
//
// A name is snake_case without a prefix: the adapter adds its own. labels are pairs
// of key and value; a name always comes with the same keys. The keys "stream" and
// "capture" name what can be deleted; no other key has more than a handful of values.
type Metrics interface {
	// Count adds delta, which is not negative, to a counter.
	Count(name string, delta int64, labels ...string)

	// Gauge sets a value.
	Gauge(name string, value float64, labels ...string)

	// Forget drops the gauges that carry all these labels: what they describe is gone.
	// What was counted with them stays in the sums over all others, which never fall.
	Forget(labels ...string)
}

// Durations takes how long things took, for histograms. Its methods obey the rules of
// Metrics.
type Durations interface {
	// Observe adds one value, in the unit that the name ends in.
	Observe(name string, value float64, labels ...string)
}
