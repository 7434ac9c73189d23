package node

import (
	"testing"

	"github.com/rs/zerolog"

	"millrace/actors"
	"millrace/supervision"
)

// The label of a metric names the sort of a child, never one stream, capture or reader:
// there are thousands of these.
func TestMetricsNameTheSortOfAChild(t *testing.T) {
	c := &counts{map[string]int64{}, map[string]float64{}}
	n := &Node{ports: Ports{Metrics: c}, log: zerolog.Nop()}
	for _, e := range []struct{ path, id, want string }{
		{"node", "tiering", "tiering"},
		{"node/tiering", "governor", "tiering/governor"},
		{"node", "log", "log"},
		{"node/log", "__shop_1", "log/*"},
		{"node/log/__shop_1", "writer", "log/*/writer"},
		{"node/log", "__shop_2", "log/*"},
		{"node/readers", "17", "readers/*"},
		{"node/tiering/stream_factory", "__shop_1", "tiering/stream_factory/*"},
		{"node/tiering/stream_factory/__shop_1", "replica_reader", "tiering/stream_factory/*/replica_reader"},
		{"node/captures", "shop", "captures/*"},
		{"node/captures/shop", "capturer", "captures/*/capturer"},
	} {
		label := "supervisor_events kind=restarted=child=" + e.want
		before := c.sums[label]
		n.observe(supervision.Event{Kind: supervision.EventRestarted, Path: e.path, ID: e.id, Reason: actors.Reason{}})
		if c.sums[label] != before+1 {
			t.Errorf("%s/%s: counted are %v", e.path, e.id, c.sums)
		}
	}
	if len(c.sums) != 10 {
		t.Errorf("counted are %v", c.sums)
	}
}

// What an operator stops is told as everything else is: in the list and in the metrics.
func TestAnOperatorsStopIsCounted(t *testing.T) {
	c := &counts{map[string]int64{}, map[string]float64{}}
	n := &Node{ports: Ports{Metrics: c}, log: zerolog.Nop()}
	n.stoppedByOperator(supervision.Node{Path: "node/tiering"}, supervision.Node{ID: "governor", Incarnation: 7})
	kept, _, _ := n.events.Since(0)
	if len(kept) != 1 || kept[0].Incarnation != 7 || c.sums["supervisor_events kind=child_terminated=child=tiering/governor"] != 1 {
		t.Errorf("listed are %+v, counted %v", kept, c.sums)
	}
}

// Whoever asks for what came after an event is told how much of that is forgotten.
func TestForgottenEventsAreCounted(t *testing.T) {
	n := &Node{ports: Ports{Metrics: &counts{map[string]int64{}, map[string]float64{}}}, log: zerolog.Nop()}
	for range 1000 {
		n.observe(supervision.Event{Kind: supervision.EventStarted, Path: "node", ID: "x"})
	}
	kept := uint64(len(n.Events(0).Events))
	for since, want := range map[uint64]uint64{0: 0, 1: 999 - kept, 700: 300 - kept, 1000 - kept: 0, 1000: 0, 5000: 0} {
		if got := n.Events(since); got.Missing != want || got.Next != 1000 {
			t.Errorf("since %d: %d are missing, want %d", since, got.Missing, want)
		}
	}
}
