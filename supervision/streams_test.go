package supervision_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"millrace/actors"
	"millrace/supervision"
)

// BenchmarkStreams starts and stops 10,000 streams, a supervisor and a worker each.
func BenchmarkStreams(b *testing.B) {
	worker := supervision.Child{ID: "w", Restart: supervision.Transient, Significant: true, Shutdown: supervision.After(time.Second),
		New: func(any) actors.Process { return &script{} }}
	template := supervision.Child{ID: "s", Restart: supervision.Temporary, Kind: supervision.Supervisor, Shutdown: supervision.Infinity,
		New: func(any) actors.Process {
			return supervision.New(auto(three5, supervision.AnySignificant), []supervision.Child{worker}, nil)
		}}
	for range b.N {
		sys := actors.NewSystem(1)
		sup, err := sys.Start(context.Background(), actors.Spec{Path: "node", New: func() actors.Process {
			return supervision.New(strategy(three5, supervision.SimpleOneForOne), []supervision.Child{template}, nil)
		}})
		if err != nil {
			b.Fatal(err)
		}
		for i := range 10_000 {
			if _, err := supervision.StartChild(context.Background(), sup, strconv.Itoa(i), nil); err != nil {
				b.Fatal(err)
			}
		}
		began := time.Now()
		if n := len(supervision.Tree(sup).Children); n != 10_000 {
			b.Fatalf("%d streams", n)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds()), "tree-us")
		sys.Close()
	}
}
