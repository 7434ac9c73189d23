package main

import (
	"fmt"
	"testing"
	"time"
)

// The ends of streamed transactions are timed, by the moment at which they came.
func TestFollowerTimesTransactions(t *testing.T) {
	body := fmt.Sprintf(row, 0, event(16, 0, false, "t", `"op":"c"`)) + fmt.Sprintf(row, 1, event(16, 1, true, "t", `"op":"c"`)) +
		fmt.Sprintf(row, 2, event(32, 0, true, "t", `"op":"c"`))
	now := time.UnixMicro(1)
	f := &follower{client: served(t, body, true), now: func() time.Time { now = now.Add(3 * time.Second); return now }}
	if err := f.once(t.Context()); err == nil {
		t.Error("an answer that ends is no error")
	}
	for _, c := range []struct {
		from, to time.Duration
		want     lags
	}{
		{0, time.Hour, lags{3 * time.Second, 6 * time.Second}},
		{0, 6 * time.Second, lags{3 * time.Second}},
		{6 * time.Second, 7 * time.Second, lags{6 * time.Second}},
	} {
		if got := f.lags(time.UnixMicro(1).Add(c.from), time.UnixMicro(1).Add(c.to)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("from %v to %v: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestAnOutageThatHeldCommitsUpIsFound(t *testing.T) {
	all := func(n int, d time.Duration) span {
		l := make(lags, n)
		for i := range l {
			l[i] = d
		}
		return span{lags: l, commits: 1}
	}
	for name, c := range map[string]struct {
		with, without span
		fails         bool
	}{
		"as before":   {all(200, 5*time.Millisecond), all(200, 6*time.Millisecond), false},
		"held up":     {all(200, 5*time.Millisecond), all(200, 200*time.Millisecond), true},
		"none came":   {all(200, 5*time.Millisecond), all(3, 5*time.Millisecond), true},
		"none before": {all(0, 0), all(200, time.Millisecond), true},
	} {
		if err := (&comparison{c.with, c.without}).check(); (err != nil) != c.fails {
			t.Errorf("%s: error %v", name, err)
		}
	}
	l := lags{1, 2, 3, 4}
	if l.part(0.5) != 3 || l.part(0.99) != 4 || l.part(1) != 4 || lags(nil).part(0.5) != 0 {
		t.Errorf("%v %v %v", l.part(0.5), l.part(0.99), l.part(1))
	}
}
