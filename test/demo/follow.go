package main

import (
	"bufio"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// follower reads the end of the stream as it grows, as a consumer does, and notes how
// long after its commit the end of each transaction was there.
type follower struct {
	client *client
	now    func() time.Time

	mu   sync.Mutex
	seen []arrival // in the order of time
}

type arrival struct {
	at  time.Time
	lag time.Duration
}

// run follows until ctx ends. A node that is down is asked again.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.once(ctx); err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// once follows until the answer ends.
func (f *follower) once(ctx context.Context) (err error) {
	resp, err := f.client.get(ctx, "/streams/"+stream+"/records?from=next&follow=1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	for {
		text, err := readLine(lines)
		if err != nil {
			return err
		}
		_, event, err := parseLine(text)
		if err != nil {
			return err
		}
		if event.Streamed() && event.Source.Last {
			f.note(time.UnixMicro(event.Source.Micros))
		}
	}
}

func (f *follower) note(committed time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.seen = append(f.seen, arrival{now, now.Sub(committed)})
}

// lags are those of what came between two moments.
func (f *follower) lags(from, to time.Time) lags {
	f.mu.Lock()
	defer f.mu.Unlock()
	var l lags
	for _, a := range f.seen {
		if !a.at.Before(from) && a.at.Before(to) {
			l = append(l, a.lag)
		}
	}
	slices.Sort(l)
	return l
}

// lags are ascending.
type lags []time.Duration

// part is the lag that the given share of all does not pass; 0 of none.
func (l lags) part(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(share*float64(len(l))))]
}
