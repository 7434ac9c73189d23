package s3store

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millrace/actors/port"
)

// meeting answers so many requests once all of them are there: each has a connection of its own.
func meeting(n int) http.HandlerFunc {
	var here sync.WaitGroup
	here.Add(n)
	return func(http.ResponseWriter, *http.Request) {
		here.Done()
		here.Wait()
	}
}

// using makes so many connections of a pool idle ones that were used, on a server that holds a
// meeting of as many.
func using(t *testing.T, p *pool, url string, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := ask(t.Context(), p, http.MethodGet, url); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// ask has a pool do one request without a body, and returns the status.
func ask(ctx context.Context, p *pool, method, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := p.Do(req)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// ends closes a connection, behind a part of an answer.
func ends(part string, reset bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		if reset {
			err = c.(*net.TCPConn).SetLinger(0)
		} else {
			_, err = c.Write([]byte(part))
		}
		if err := errors.Join(err, c.Close()); err != nil {
			panic(err)
		}
	}
}

// A read whose connection turns out to be closed is sent once more, and not once for each idle
// connection; one of which an answer began is not, and neither is what writes or met a new connection.
func TestWhatMetAClosedConnectionIsSentOnceMore(t *testing.T) {
	const idle = 6
	for _, c := range []struct {
		what, method string
		used         int
		does         http.HandlerFunc
		reset        bool
		want         int
	}{
		{"a reset", http.MethodGet, idle, ends("", true), true, 2},
		{"a reset of a HEAD", http.MethodHead, idle, ends("", true), true, 2},
		{"an end", http.MethodGet, idle, ends("", false), false, 2},
		{"an end in the answer", http.MethodGet, idle, ends("HTTP/1.1 200", false), false, 1},
		{"a reset of a write", http.MethodPost, idle, ends("", true), true, 1},
		{"a reset of a new connection", http.MethodGet, 0, ends("", true), true, 1},
		{"an end of a new connection", http.MethodGet, 0, ends("", false), false, 1},
	} {
		server := scripted(t)
		s := against(t, server, nil)
		server.set(meeting(c.used))
		using(t, s.general.pool, server.URL, c.used)
		server.set(c.does)
		_, err := ask(t.Context(), s.general.pool, c.method, server.URL)
		err = s.general.begin("get", "").fail(t.Context(), &smithyhttp.RequestSendError{Err: err}) // as the SDK passes it on
		if port.ClassOf(err) != port.Unavailable || c.reset != errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := len(server.requests()); got != c.want {
			t.Errorf("%s: %d requests", c.what, got)
		}
		if r := server.requests()[0]; c.method == http.MethodGet && (len(r.TransferEncoding) != 0 || r.ContentLength != 0 || r.Header.Get("Content-Length") != "") {
			t.Errorf("%s: a body of %d bytes, %v", c.what, r.ContentLength, r.TransferEncoding)
		}
		atRest(t, s.GeneralPool())
	}
}

// The second request may well be answered.
func TestAClosedConnectionIsNoFailure(t *testing.T) {
	server := scripted(t)
	s := against(t, server, nil)
	server.set(meeting(3))
	using(t, s.general.pool, server.URL, 3)
	var asked atomic.Int32
	server.set(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			ends("", true)(w, r)
		}
	})
	if status, err := ask(t.Context(), s.general.pool, http.MethodGet, server.URL); err != nil || status != http.StatusOK || asked.Load() != 2 {
		t.Errorf("%d, %v after %d requests", status, err, asked.Load())
	}
}

// An answer is waited for once, however many connections were used before, and teaches that once.
func TestALateAnswerIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, held := make(chan struct{}), meeting(4)
		defer close(silent)
		var late atomic.Int32
		s := wired(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/late") {
				late.Add(1)
				<-silent
				return
			}
			held(w, r)
		}))
		using(t, s.general.pool, "http://store/p", 4)
		began := time.Now()
		_, err := s.General().Get(t.Context(), "p/late")
		if took := time.Since(began); took != 15*time.Second || port.ClassOf(err) != port.Timeout || late.Load() != 1 {
			t.Errorf("%d requests in %s: %v", late.Load(), took, err)
		}
		if got := s.general.pool.patience.bound(new(question)); got != 30*time.Second {
			t.Errorf("the next one is given %s", got)
		}
	})
}

// What is given another connection is not sent yet there.
func TestANewConnectionHasSentNothing(t *testing.T) {
	q := &question{write: true}
	trace := q.trace()
	for range 2 {
		c := &conn{Conn: &deadlines{at: time.Now()}, pool: newPool(1, nil, new(patience))}
		trace.GotConn(httptrace.GotConnInfo{Conn: c})
		if q.sent.Load() != 0 {
			t.Error("it counts as sent")
		}
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
}
