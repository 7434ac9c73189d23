package backoff

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestDoubling(t *testing.T) {
	for _, c := range []struct {
		d    Doubling
		want []time.Duration
	}{
		{Doubling{10, 60}, []time.Duration{10, 20, 40, 60, 60}},
		{Doubling{10, 40}, []time.Duration{10, 20, 40, 40}},
		{Doubling{10, 10}, []time.Duration{10, 10}},
		{Doubling{10, 3}, []time.Duration{3, 3}}, // the limit is one for the first pause too
	} {
		var got []time.Duration
		for i := range c.want {
			got = append(got, c.d.After(i+1))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v pauses %v, want %v", c.d, got, c.want)
		}
		if first, last := c.d.After(0), c.d.After(math.MaxInt); first != c.want[0] || last != c.d.Last {
			t.Errorf("%+v pauses %d before any failure, and %d for ever", c.d, first, last)
		}
	}
}
