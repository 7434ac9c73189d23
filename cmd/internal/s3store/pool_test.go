package s3store

import (
	"context"
	"io"
	"net/http"
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
