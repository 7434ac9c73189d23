package fakepool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"millrace/actors/port"
)

// Pool is a port.Pool in memory. Its connections stay open, once opened, until Close.
type Pool struct {
	mu    sync.Mutex
	stats port.PoolStats
	open  *opening      // nil: not open
	freed chan struct{} // closed and renewed whenever a connection comes free
}

// New returns a closed pool of at most max connections.
func New(max int) *Pool {
	return &Pool{stats: port.PoolStats{Max: max}, freed: make(chan struct{})}
}

// Open implements port.Pool.
func (p *Pool) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		ctx, end := context.WithCancel(context.Background())
		p.open = &opening{ctx, end}
	}
}

// Close implements port.Pool.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil {
		p.open.end()
		p.open = nil
	}
	p.stats.Open, p.stats.InUse, p.stats.Waiting = 0, 0, 0
}

// Stats implements port.Pool.
func (p *Pool) Stats() port.PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

var (
	errNotOpen = errors.New("the pool of connections is not open")
	errClosed  = errors.New("the pool of connections was closed meanwhile")
)

// Do runs f on a connection, for which it waits. Closing the pool ends f's context, and
// then f's failure is the pool's: class Unavailable.
func (p *Pool) Do(ctx context.Context, op, key string, f func(ctx context.Context) error) error {
	fail := func(class port.Class, err error) error {
		return &port.StoreError{Op: op, Key: key, Class: class, Err: err}
	}
	in, class, err := p.take(ctx)
	if err != nil {
		return fail(class, err)
	}
	defer p.give(in)
	ctx, cancel := in.with(ctx)
	defer cancel()
	if err := f(ctx); err != nil {
		if in.Err() != nil {
			return fail(port.Unavailable, fmt.Errorf("%w: %w", errClosed, err))
		}
		return err
	}
	return nil
}

// opening is one time between Open and Close: a context that ends with it.
type opening struct {
	context.Context
	end context.CancelFunc
}

// with returns ctx, ended by the opening's end too.
func (o *opening) with(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(o, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// take waits for a connection of the present opening, which it returns.
func (p *Pool) take(ctx context.Context) (in *opening, class port.Class, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return nil, port.Unavailable, errNotOpen
	}
	in = p.open
	waited := false
	for p.stats.InUse == p.stats.Max {
		if !waited {
			waited = true
			p.stats.Waiting++
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-in.Done():
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		if p.open != in {
			return nil, port.Unavailable, errClosed // nobody waits in a closed pool
		}
		if err != nil {
			p.stats.Waiting--
			return nil, port.Timeout, err
		}
	}
	if waited {
		p.stats.Waiting--
		p.stats.Waited++
	}
	p.stats.Taken++
	p.stats.InUse++
	p.stats.Open = max(p.stats.Open, p.stats.InUse)
	return in, 0, nil
}

func (p *Pool) give(in *opening) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != in {
		return
	}
	p.stats.InUse--
	close(p.freed)
	p.freed = make(chan struct{})
}

var _ port.Pool = (*Pool)(nil)
