package node

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/test/fake/fakestore"
)

// counts is a port.Metrics and port.Durations that remembers.
type counts struct {
	sums  map[string]int64
	times map[string]float64
}

func (c *counts) Count(name string, delta int64, labels ...string) {
	if delta != 0 {
		c.sums[name+" "+strings.Join(labels, "=")] += delta
	}
}
func (c *counts) Gauge(string, float64, ...string) {}
func (c *counts) Forget(...string)                 {}
func (c *counts) Observe(name string, value float64, labels ...string) {
	c.times[name+" "+strings.Join(labels, "=")] += value
}

func TestAStoreIsMetered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, c := fakestore.New(), &counts{map[string]int64{}, map[string]float64{}}
		inner.Latency = func(op, _ string) time.Duration {
			return map[string]time.Duration{"put": time.Second, "get": 2 * time.Second}[op]
		}
		s, ctx, body := meter(inner, c, c), t.Context(), []byte("hello")
		sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
		results := fmt.Sprint(
			s.Put(ctx, "p/a", port.NewBody(bytes.NewReader(body), sum), 5, false),
			port.ClassOf(s.Put(ctx, "p/a", port.NewBody(bytes.NewReader(body), sum), 5, true)),
		)
		got, err := s.Get(ctx, "p/a")
		_, missing := s.Get(ctx, "p/b")
		part, err2 := s.GetRange(ctx, "p/a", 1, 2)
		keys, _, err3 := s.List(ctx, "p/", "", 10)
		failed, err4 := s.Delete(ctx, []string{"p/a"})
		err5 := s.Probe(ctx)
		if results != "<nil> exists already" || string(got) != "hello" || string(part) != "el" || len(keys) != 1 || len(failed) != 0 ||
			err != nil || err2 != nil || err3 != nil || err4 != nil || err5 != nil || port.ClassOf(missing) != port.NotFound {
			t.Fatalf("the store answers %q, %q, %q, %v, %v", results, got, part, keys, missing)
		}
		for _, cause := range []error{nil, context.DeadlineExceeded} { // its asker has no use for it; its time was over
			gone, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			if _, err := s.Get(gone, "p/a"); err == nil {
				t.Fatal("a request that was given up works")
			}
		}
		want := map[string]int64{
			"store_requests_total op=put": 2, "store_requests_total op=get": 4, "store_requests_total op=get_range": 1,
			"store_requests_total op=list": 1, "store_requests_total op=delete": 1, "store_requests_total op=probe": 1,
			"store_errors_total op=put=class=" + strings.ReplaceAll(port.Exists.String(), " ", "_"): 1,
			"store_errors_total op=get=class=not_found":                                             1, "store_errors_total op=get=class=cancelled": 1,
			"store_errors_total op=get=class=timed_out": 1,
			"store_sent_bytes_total ":                   5, "store_received_bytes_total ": 7,
		}
		if !maps.Equal(c.sums, want) {
			t.Errorf("counted %v, want %v", c.sums, want)
		}
		if times := (map[string]float64{"store_request_duration_seconds kind=write": 2, "store_request_duration_seconds kind=read": 4}); !maps.Equal(c.times, times) {
			t.Errorf("took %v, want %v", c.times, times)
		}
	})
}
