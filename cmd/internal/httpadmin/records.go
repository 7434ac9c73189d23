package httpadmin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/resolve"
)

// CompleteTrailer is the HTTP trailer of an answer that is whole; its value is "true".
const CompleteTrailer = "X-Millrace-Complete"

// flushAt is how many bytes of lines are gathered before they are sent. Every batch is
// sent at its end, so this bounds memory and delays nothing.
const flushAt = 64 << 10

// query is what a reading asks for.
type query struct {
	spec  admin.ReadSpec
	limit int64 // 0: none
}

func parseQuery(raw string) (query, error) {
	q := query{spec: admin.ReadSpec{From: resolve.First()}}
	err := parameters(raw, map[string]func(string) error{
		"from": func(text string) (err error) {
			q.spec.From, err = resolve.ParseSpec(text)
			return err
		},
		"limit": func(text string) (err error) {
			if q.limit, err = strconv.ParseInt(text, 10, 64); err != nil || q.limit < 1 {
				return errors.New("want a whole number from 1")
			}
			return nil
		},
		"follow": flag(&q.spec.Follow),
	})
	return q, err
}

func (s *surface) records(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), "parameters are from (first, last, next, an offset or a time), limit and follow")
		return
	}
	select {
	case s.readers <- struct{}{}:
		defer func() { <-s.readers }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d readings are open already", maxReaders), "end one of them, or try again later")
		return
	}
	reader, err := s.open(r, q)
	if err != nil {
		fail(w, err)
		return
	}
	defer reader.Close()
	if r.Method == http.MethodHead {
		return
	}
	s.send(w, r, q, newSource(r.Context(), reader))
}

// open bounds the opening in time; the reader itself lives until it is closed.
func (s *surface) open(r *http.Request, q query) (admin.Reader, error) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	return s.cfg.Node.Open(ctx, r.PathValue("name"), q.spec)
}

// source is what a reading draws its batches from. The first is asked for before the
// answer begins, so that a read that is refused has its status.
type source struct {
	reader admin.Reader
	cancel context.CancelFunc
	ready  chan struct{} // closed once batch and err are the first Pull's
	batch  admin.Batch
	err    error
	taken  bool // the first batch was handed out
}

func newSource(ctx context.Context, reader admin.Reader) *source {
	ctx, cancel := context.WithCancel(ctx)
	s := &source{reader: reader, cancel: cancel, ready: make(chan struct{})}
	go func() {
		defer close(s.ready)
		s.batch, s.err = reader.Pull(ctx)
	}()
	return s
}

// wait waits for the first batch, but not longer than d. An error says that there is none.
func (s *source) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.ready:
		return s.err
	case <-timer.C:
		return nil
	}
}

// pull returns the next batch.
func (s *source) pull(ctx context.Context) (admin.Batch, error) {
	if s.taken {
		return s.reader.Pull(ctx)
	}
	<-s.ready
	batch := s.batch
	s.taken, s.batch = true, admin.Batch{}
	return batch, s.err
}

// close ends the first Pull, if it still runs.
func (s *source) close() {
	s.cancel()
	<-s.ready
}

// send sends the records and ends the answer in one of the three ways there are: refused
// with a status; whole, with the trailer; or broken off, with an error line and an aborted
// connection.
func (s *surface) send(w http.ResponseWriter, r *http.Request, q query, src *source) {
	defer src.close()
	out := newLines(w)
	err := out.lift()
	if err == nil {
		heard := refuseTime
		if q.spec.Follow {
			heard = heardTime
		}
		if err := s.cause(r, src.wait(heard)); refusable(err, q) {
			s.cfg.Log.Warn().Err(err).Str("stream", r.PathValue("name")).Msg("admin: a reading is refused")
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Trailer", CompleteTrailer)
		w.WriteHeader(http.StatusOK)
		err = out.flush()
	}
	if err == nil {
		err = pump(r.Context(), q, src, out)
	}
	if err == nil {
		w.Header().Set(CompleteTrailer, "true")
		return
	}
	err = s.cause(r, err)
	var gone *goneError
	if !errors.As(err, &gone) {
		s.cfg.Log.Warn().Err(err).Str("stream", r.PathValue("name")).Msg("admin: a reading broke off")
		if err := out.fail(err); err != nil {
			s.cfg.Log.Debug().Err(err).Msg("admin: the client does not hear why")
		}
	}
	panic(http.ErrAbortHandler)
}

// cause is why a reading ended: what ends because the node stops, or the client went,
// does not say so by itself.
func (s *surface) cause(r *http.Request, err error) error {
	var gone *goneError
	switch {
	case err == nil || errors.As(err, &gone):
		return err
	case s.run.Err() != nil:
		return &admin.Error{Class: admin.Unavailable, What: "the node is stopping", Hint: "read on once it is up again"}
	case r.Context().Err() != nil:
		return &goneError{err}
	}
	return err
}

// refusable reports whether the first batch's error can be told by a status: not the end of
// what there is, which is an answer, and not to a client that is gone.
func refusable(err error, q query) bool {
	var gone *goneError
	return err != nil && !errors.As(err, &gone) && (q.spec.Follow || !errors.Is(err, io.EOF))
}

// pump moves what the source yields to out, until the limit, the tail, or an error.
func pump(ctx context.Context, q query, src *source, out *lines) error {
	left := q.limit
	low := pos.Offset(0) // nothing below it is sent
	if q.spec.From.Kind == resolve.KindOffset {
		low = q.spec.From.Offset
	}
	for {
		batch, err := src.pull(ctx)
		switch {
		case errors.Is(err, io.EOF) && !q.spec.Follow:
			return nil
		case err != nil:
			return err
		}
		if batch.Moved != nil {
			if err := out.moved(*batch.Moved); err != nil {
				return err
			}
		}
		for _, rec := range batch.Records {
			if rec.Offset < low {
				if out.last != pos.NoOffset { // only a first batch may begin early
					return fmt.Errorf("record %s after record %s: the order is broken, read from %s again", rec.Offset, out.last, low)
				}
				continue
			}
			if err := out.record(rec); err != nil {
				return err
			}
			low = rec.Offset + 1
			if left--; left == 0 {
				return out.flush()
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
	}
}
