package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"millrace/test/faultproxy"
	"millrace/test/s3server"
)

const (
	bucket = "demo"
	// calm and outage are how long commits are timed with a store, and without one.
	calm   = 15 * time.Second
	outage = time.Minute
	// spell is how long each sort of bad weather lasts.
	spell = 5 * time.Second
)

// remote is an S3 server, and the network between it and the node.
type remote struct {
	server *s3server.Server
	proxy  *faultproxy.Proxy
}

func newRemote(dir string) (*remote, error) {
	server, err := s3server.Start(filepath.Join(dir, "s3"))
	if err != nil {
		return nil, wrap("start the S3 server", err)
	}
	r := &remote{server: server}
	if err = server.MakeBucket(bucket); err == nil {
		r.proxy, err = faultproxy.Start(server.Addr())
	}
	if err != nil {
		return nil, errors.Join(err, server.Remove())
	}
	return r, nil
}

func (r *remote) stop() error {
	return errors.Join(r.proxy.Close(), wrap("stop the S3 server", r.server.Remove()))
}

// settings is what makes the node use the server: its configuration and environment.
func (r *remote) settings() (toml string, env []string) {
	toml = fmt.Sprintf("kind = \"s3\"\nbucket = %q\nendpoint = %q\nregion = %q\npath_style = true\n", bucket, r.proxy.URL(), s3server.Region)
	return toml, []string{"AWS_ACCESS_KEY_ID=" + s3server.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + s3server.SecretKey}
}

// weather is what the network between the node and the store does, one after the other.
var weather = []struct {
	what   string
	faults faultproxy.Faults
}{
	// First, since what was swallowed is given up only after a minute.
	{"swallows everything", faultproxy.Faults{BlackHole: true}},
	{"cuts each upload after 300 KiB", faultproxy.Faults{CutRequest: 300 << 10}},
	{"resets each answer after 100 bytes", faultproxy.Faults{CutAnswer: 100, Reset: true}},
	{"carries 256 KiB a second", faultproxy.Faults{Rate: 256 << 10}},
	{"refuses connections", faultproxy.Faults{Refuse: true}},
}

// mild is the network at its best: a store is not on the same machine.
var mild = faultproxy.Faults{Delay: 15 * time.Millisecond}

// loseStore takes the S3 server away for a minute, times commits before and meanwhile,
// and lets the network misbehave behind it.
func (s *stage) loseStore(ctx context.Context) error {
	s.say("commits are timed for %v: a consumer at the end of the stream sees each so long after PostgreSQL made it", calm)
	before, err := s.timed(ctx, calm)
	if err != nil {
		return err
	}
	if err := s.remote.server.Kill(); err != nil {
		return wrap("kill the S3 server", err)
	}
	s.say("SIGKILL to the S3 server; it stays down for %v", outage)
	if err := s.work(ctx, 2*time.Second); err != nil {
		return err
	}
	down, err := s.client.status(ctx)
	if err != nil {
		return err
	}
	without, err := s.timed(ctx, outage-2*time.Second)
	if err != nil {
		return err
	}
	still, err := s.client.status(ctx)
	if err != nil {
		return err
	}
	if still.SeamNext != down.SeamNext || still.Next <= down.Next {
		return fmt.Errorf("while the store was down the stream grew from %s to %s and its part in the store from %s to %s: nothing can have got there", down.Next, still.Next, down.SeamNext, still.SeamNext)
	}
	if err := s.remote.server.Restart(); err != nil {
		return wrap("restart the S3 server", err)
	}
	began := time.Now()
	s.say("the S3 server is up again; %d records wait for it", still.Next-still.SeamNext)
	err = s.node.until(ctx, "what waited is in the store", time.Minute, func() (bool, error) {
		st, err := s.client.status(ctx)
		return err == nil && st.SeamNext >= still.Next, nil
	})
	if err != nil {
		return err
	}
	s.say("%.1f s later they are in the store", time.Since(began).Seconds())
	s.outage = &comparison{before, without}
	return s.misbehave(ctx)
}

func (s *stage) misbehave(ctx context.Context) error {
	for _, w := range weather {
		s.say("the network to the store %s", w.what)
		if err := s.remote.proxy.Set(w.faults); err != nil {
			return wrap("change the network", err)
		}
		if err := s.work(ctx, spell); err != nil {
			return err
		}
	}
	s.say("the network is as it was")
	return wrap("change the network", s.remote.proxy.Set(mild))
}

// timed lets everything go on for a while and tells how commits fared.
func (s *stage) timed(ctx context.Context, d time.Duration) (span, error) {
	from := time.Now()
	commits := s.writers.Load().Commits()
	if err := s.work(ctx, d); err != nil {
		return span{}, err
	}
	to := time.Now()
	return span{lags: s.follower.lags(from, to), commits: float64(s.writers.Load().Commits()-commits) / to.Sub(from).Seconds()}, nil
}

// span is how commits fared for a while.
type span struct {
	lags    lags
	commits float64 // a second
}

// comparison is how they fared with a store and without.
type comparison struct{ with, without span }

// line tells it in one line.
func (c *comparison) line() string {
	return fmt.Sprintf("publishing while the store was down: %.0f commits a second (%.0f before), seen after %s at the median (%s before) and %s for 99 %% (%s before); %d and %d transactions timed",
		c.without.commits, c.with.commits, millis(c.without.lags.part(0.5)), millis(c.with.lags.part(0.5)),
		millis(c.without.lags.part(0.99)), millis(c.with.lags.part(0.99)), len(c.without.lags), len(c.with.lags))
}

// check fails only if the node was plainly held up: the figures themselves are the
// machine's.
func (c *comparison) check() error {
	if len(c.with.lags) < 100 || len(c.without.lags) < 100 {
		return fmt.Errorf("only %d and %d transactions were timed with and without a store", len(c.with.lags), len(c.without.lags))
	}
	if with, without := c.with.lags.part(0.5), c.without.lags.part(0.5); without > 2*with+100*time.Millisecond {
		return fmt.Errorf("without a store half of the commits took longer than %v, with one %v", without, with)
	}
	return nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
