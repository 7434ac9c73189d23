package s3store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/actors/port"
	"millrace/core/answertime"
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
		c := &conn{Conn: raw, pool: newPool(1, nil, new(patience))}
		for range 50 {
			must(t, c.moved())
			<-time.After(100 * time.Millisecond)
		}
		q := new(question)
		c.asked.Store(q)
		must(t, c.moved()) // it is not sent yet
		q.sent.Store(1)
		must(t, c.moved())
		c.asked.Store(nil)
		must(t, c.moved())
		want := []time.Duration{20 * time.Second, 22 * time.Second, 24 * time.Second, 20 * time.Second, 25 * time.Second}
		if !slices.Equal(raw.set, want) {
			t.Fatalf("deadlines %v, want %v", raw.set, want)
		}
	})
}

// wire is a network within a bubble: what is dialled is accepted, and nothing is buffered.
type wire struct {
	ends chan net.Conn
	down chan struct{}
}

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.ends:
		return c, nil
	case <-w.down:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *wire) Close() error {
	close(w.down)
	return nil
}

// Addr implements net.Listener.
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

func (w *wire) dial() net.Conn {
	near, far := net.Pipe()
	w.ends <- far
	return near
}

// slow is a store that takes its time, but for what is called quick.
type slow struct {
	pause  time.Duration // before each piece that it reads or writes
	think  time.Duration // before it begins to answer
	silent chan struct{} // not nil: it does nothing before this is closed
}

const pieces = 10 // of an answer

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/quick") {
		takes(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/refused") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/busy") {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if s.silent != nil {
		if strings.HasSuffix(r.URL.Path, "/half") {
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		if strings.HasSuffix(r.URL.Path, "/taken") {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		}
		<-s.silent
		return
	}
	var sent bytes.Buffer
	for n := int64(1); n > 0; {
		<-time.After(s.pause)
		var err error
		if n, err = io.CopyN(&sent, r.Body, 4<<10); err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
	<-time.After(s.think)
	r.Body = io.NopCloser(&sent)
	takes(w, r)
	for i := 0; r.Method == http.MethodGet && i < pieces; i++ {
		if _, err := w.Write([]byte("a piece")); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		<-time.After(s.pause)
	}
}

// wired opens a store that reaches a server over a wire. Its connections are as they are.
func wired(t *testing.T, handler http.Handler) *Store {
	t.Helper()
	w := &wire{ends: make(chan net.Conn), down: make(chan struct{})}
	var asked sync.WaitGroup
	asked.Add(1) // of the server itself: what is never answered is in no order with the end
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		defer asked.Done()
		handler.ServeHTTP(w, r)
	})}
	go func() {
		if err := server.Serve(w); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		must(t, server.Close())
		asked.Done()
		asked.Wait() // time stands still when the bubble's first goroutine has ended
	})
	cfg := configOf("acme")
	cfg.Endpoint = "http://store"
	s := open(t, cfg)
	for _, p := range []*pool{s.uploads.pool, s.general.pool} {
		p.transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return p.adopt(w.dial()) }
	}
	return s
}

// What is slow and moves goes on, for longer than any bound; and a store may think about a
// request that it has.
func TestASlowLineIsNotGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{pause: 2 * time.Second}
		s := wired(t, store)
		began := time.Now()
		must(t, put(t.Context(), s.Uploads(), "p/slow", make([]byte, 1<<20)))
		if took := time.Since(began); took < 8*time.Minute {
			t.Errorf("the put took %v only", took)
		}
		store.pause = 14 * time.Second
		began = time.Now()
		got, err := s.General().Get(t.Context(), "p/slow")
		if took := time.Since(began); err != nil || string(got) != strings.Repeat("a piece", pieces) || took < 2*time.Minute {
			t.Errorf("%q after %v, %v", got, took, err)
		}
		store.pause, store.think = 0, 50*time.Second
		for op, err := range doWithin(t.Context(), time.Hour, s.General()) {
			// What it answers to the others is no answer to them.
			if class := port.ClassOf(err); err != nil && (class.Transient() || op == "put") {
				t.Errorf("%s: %v", op, err)
			}
		}
	})
}

// A line that swallows everything is given up long before the request's own deadline,
// whether the connection is new or was good before.
func TestALineThatStandsStillIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{silent: make(chan struct{})}
		s := wired(t, store)
		t.Cleanup(func() { close(store.silent) })
		must(t, put(t.Context(), s.Uploads(), "p/quick", []byte("x")))
		must(t, put(t.Context(), s.General(), "p/quick", []byte("x")))
		upload := func() error { return put(t.Context(), s.Uploads(), "p/large", make([]byte, 16<<20)) }
		get := func() error { _, err := s.General().Get(t.Context(), "p/large"); return err }
		half := func() error { _, err := s.General().Get(t.Context(), "p/half"); return err }
		var wg sync.WaitGroup
		for _, c := range []struct {
			what        string
			ask         func() error
			least, most time.Duration
		}{
			{"an upload", upload, 20 * time.Second, 22 * time.Second},
			{"an upload on a new connection", upload, 20 * time.Second, 22 * time.Second},
			{"a get whose answer stops", half, 20 * time.Second, 20*time.Second + time.Second},
			{"a get", get, answertime.Least, answertime.Least},
			{"a get on a new connection", get, answertime.Least, answertime.Least},
		} {
			wg.Go(func() {
				began := time.Now()
				err := c.ask()
				// A write that waits is told that the reading side has closed the connection.
				if took := time.Since(began); !port.ClassOf(err).Transient() || took < c.least || took > c.most {
					t.Errorf("%s: after %v: %v", c.what, took, err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if up, rest := s.UploadPool().Stats(), s.GeneralPool().Stats(); up.Taken != 3 || up.InUse+up.Open+rest.InUse+rest.Open != 0 {
			t.Errorf("the connections are not given back: %+v, %+v", up, rest)
		}
		must(t, put(t.Context(), s.Uploads(), "p/quick", []byte("x")))
	})
}
