// Package promhook keeps the node's metrics and shows them to Prometheus.
//
// One table, Metrics, declares every metric: its name without the prefix "millrace_",
// whether it counts or measures, its labels and its help text. What is not in the
// table does not exist: such a call is reported and dropped, and a test reads the
// source of the roles for the names they use.
//
// A counter is there with 0 from the start, since Prometheus can't tell a series that
// begins with its first count from one that always had it. Those of which the table knows
// all series are made by New; of the others (a stream's, a capture's) whoever counts says
// so by counting 0 when it begins.
//
// Counters never go down, also not in sum: when a stream is forgotten, its counts move
// to the series without a stream. Its gauges go.
package promhook
