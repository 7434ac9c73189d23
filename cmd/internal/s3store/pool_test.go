package s3store

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// A write that is given up while it waits for a connection leaves its place among the writes to
// the next one.
func TestAWriteThatIsGivenUpLeavesItsPlace(t *testing.T) {
	server, held := scripted(t), make(chan struct{})
	s := against(t, server, func(c *Config) { c.GeneralConnections = 1 })
	server.set(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-held
		}
		takes(w, r)
	})
	read, written := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.General().Get(t.Context(), "p/a")
		read <- err
	}()
	eventually(t, "the only connection is in use", func() bool { return s.GeneralPool().Stats().InUse == 1 })
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { written <- put(ctx, s.General(), "p/late", []byte("x")) }()
	eventually(t, "a write waits for it", func() bool { return s.GeneralPool().Stats().Waiting == 1 })
	giveUp()
	if err := <-written; err == nil {
		t.Error("it was written")
	}
	close(held)
	must(t, <-read)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, put(ctx, s.General(), "p/next", []byte("x")))
	atRest(t, s.GeneralPool())
}

// An answer that is read to its end is whole, also if its pool was closed meanwhile.
func TestAnAnswerThatIsWholeDoesNotEndWithItsPool(t *testing.T) {
	server := scripted(t)
	server.set(says(http.StatusOK, ""))
	s := against(t, server, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	must(t, err)
	answer, err := s.general.pool.Do(req)
	must(t, err)
	s.GeneralPool().Close()
	if b, err := io.ReadAll(answer.Body); err != nil || len(b) != 0 {
		t.Errorf("read %q, %v", b, err)
	}
	must(t, answer.Body.Close())
}

// severed is a connection that its peer ends, and that is closed for that.
type severed struct {
	net.Conn
	why    error
	closed bool
}

func (r *severed) Read([]byte) (int, error)    { return 0, r.why }
func (r *severed) SetDeadline(time.Time) error { return nil }
func (r *severed) Close() error                { r.closed = true; return nil }

func (r *severed) Write([]byte) (int, error) {
	if r.closed {
		return 0, net.ErrClosed
	}
	return 0, syscall.EPIPE
}

// A write into a connection that was closed since it broke says what broke it, and one that fails by
// itself says why.
func TestAWriteSaysWhatBrokeTheConnection(t *testing.T) {
	for _, why := range []error{syscall.ECONNRESET, io.EOF} {
		c := &conn{Conn: &severed{why: why}, pool: newPool(1, nil, new(patience)), closed: make(chan struct{})}
		if _, err := c.Write(nil); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if _, err := c.Read(nil); !errors.Is(err, why) {
			t.Error(err)
		}
		if _, err := c.Write(nil); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		must(t, c.Close())
		if _, err := c.Write(nil); !errors.Is(err, why) {
			t.Error(err)
		}
	}
	closed := &conn{Conn: &severed{closed: true}, pool: newPool(1, nil, new(patience)), closed: make(chan struct{})}
	if _, err := closed.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
