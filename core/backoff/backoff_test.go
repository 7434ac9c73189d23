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

func TestJitter(t *testing.T) {
	d := Doubling{10, 15}
	for failures, all := range map[int][]time.Duration{1: {5, 6, 7, 8, 9, 10}, 2: {7, 8, 9, 10, 11, 12, 13, 14, 15}} {
		for random := range uint64(100) {
			if got, want := d.Jittered(failures, random), all[random%uint64(len(all))]; got != want {
				t.Errorf("after %d failures %d picks %d, want %d", failures, random, got, want)
			}
		}
	}
	if got := d.Jittered(9, math.MaxUint64); got < 7 || got > 15 {
		t.Errorf("the largest number picks %d", got)
	}
	if got := (Doubling{}).Jittered(1, 5); got != 0 {
		t.Errorf("no pause is %d", got)
	}
}
