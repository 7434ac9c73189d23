package s3store

import (
	"bytes"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/test/faultproxy"
)

// deadlines is a connection that notes when it is to give up.
type deadlines struct {
	net.Conn
	set []time.Duration // from the beginning
	at  time.Time
}

func (d *deadlines) SetDeadline(t time.Time) error {
	d.set = append(d.set, t.Sub(d.at))
	return nil
}

// What moves puts the deadline off, not each time, and takes back the longer one of an
// answer that was waited for.
func TestTheDeadlineFollowsWhatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := &deadlines{at: time.Now()}
		c := &conn{Conn: raw, pool: &pool{stall: stall}}
		for range 50 {
			must(t, c.moved())
			<-time.After(100 * time.Millisecond)
		}
		must(t, c.expire(time.Now().Add(answerTime)))
		must(t, c.moved())
		want := []time.Duration{20 * time.Second, 22 * time.Second, 24 * time.Second, 65 * time.Second, 25 * time.Second}
		if !slices.Equal(raw.set, want) {
			t.Fatalf("deadlines %v, want %v", raw.set, want)
		}
	})
}

// A line that swallows everything is given up long before the request's own deadline,
// whether the connection is new or was good before; one that is slow and moves is not.
func TestALineThatStandsStillIsGivenUp(t *testing.T) {
	s, p := throughProxy(t, nil)
	for _, c := range []*client{s.uploads, s.general} {
		if c.pool.stall != 20*time.Second || c.pool.answerTime != time.Minute {
			t.Fatalf("the bounds are %v and %v", c.pool.stall, c.pool.answerTime)
		}
		c.pool.stall, c.pool.answerTime = time.Second, 3*time.Second
	}
	large := bytes.Repeat([]byte("x"), 16<<20)
	must(t, put(t.Context(), s.Uploads(), "p/large", large))
	must(t, put(t.Context(), s.General(), "p/small", []byte("x")))

	// What the sockets' buffers hold, some megabytes, passes unseen: it must take less.
	must(t, p.Set(faultproxy.Faults{Rate: 10 << 20}))
	began := time.Now()
	must(t, put(t.Context(), s.Uploads(), "p/slow", large))
	if took := time.Since(began); took < s.uploads.pool.stall*5/4 {
		t.Fatalf("the slow line took %v only", took)
	}
	got, err := s.General().Get(t.Context(), "p/slow")
	if err != nil || !bytes.Equal(got, large) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}

	// A store may think about a request for longer.
	must(t, p.Set(faultproxy.Faults{Delay: s.uploads.pool.stall * 2 / 3}))
	must(t, put(t.Context(), s.Uploads(), "p/late", []byte("x")))

	must(t, p.Set(faultproxy.Faults{BlackHole: true}))
	began = time.Now()
	failed := make(chan error)
	asked := []func() error{
		func() error { return put(t.Context(), s.Uploads(), "p/large", large) },
		func() error { return put(t.Context(), s.Uploads(), "p/large", large) },
		func() error { _, err := s.General().Get(t.Context(), "p/large"); return err },
		func() error { _, err := s.General().Get(t.Context(), "p/large"); return err },
	}
	for _, f := range asked {
		go func() { failed <- f() }()
	}
	for range asked {
		// A write that waits is told that the reading side has closed the connection.
		if err := <-failed; !port.ClassOf(err).Transient() {
			t.Error(err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("they took %v", took)
	}
	must(t, p.Set(faultproxy.Faults{}))
	must(t, put(t.Context(), s.Uploads(), "p/large", large))
	eventually(t, "the connections are given back", func() bool {
		return s.UploadPool().Stats().InUse == 0 && s.GeneralPool().Stats().InUse == 0
	})
}
