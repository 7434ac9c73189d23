package httpadmin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"millrace/actors/admin"
	"millrace/core/pos"
	"millrace/core/settings"
)

const (
	// durableWait is how long a question for durability waits, unless it says otherwise, and
	// maxDurableWait the longest it may.
	durableWait    = 10 * time.Second
	maxDurableWait = 10 * time.Minute
	// resetWait leaves the node the time to say that a reset takes too long.
	resetWait = admin.ResetTime + 2*time.Second
)

// cut ends the fragment that is being assembled.
func (s *surface) cut(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	st, err := s.cfg.Node.CutStream(ctx, r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, st)
}

// reset gives up what the store has lost of a stream, in the time that the node takes.
func (s *surface) reset(w http.ResponseWriter, r *http.Request) {
	if err := deadline(w, resetWait); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("admin: no deadline on a connection")
	}
	ctx, cancel := context.WithTimeout(r.Context(), resetWait)
	defer cancel()
	st, err := s.cfg.Node.ResetStream(ctx, r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, st)
}

// durable waits until a record is durable in the store: 200, or 504 when its time is over.
func (s *surface) durable(w http.ResponseWriter, r *http.Request) {
	next, wait, err := parseDurable(r.URL.RawQuery)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), "parameters are offset, of a record (default: the last that is committed), and timeout, such as 30s")
		return
	}
	if err := deadline(w, wait+answerTime); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("admin: no deadline on a connection")
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait+answerTime)
	defer cancel()
	st, err := s.cfg.Node.Durable(ctx, r.PathValue("name"), next, wait)
	switch {
	case err != nil:
		fail(w, err)
	case st.Durable:
		answer(w, http.StatusOK, st)
	default:
		what := fmt.Sprintf("offset %s is not durable in the object store yet", st.Asked-1)
		if st.Next.Valid() {
			what += fmt.Sprintf(", everything below %s is", st.Next)
		}
		if st.Why != "" {
			what += ": " + st.Why
		}
		answer(w, http.StatusGatewayTimeout, Refusal{
			Error: what, Next: &st.Next, Why: st.Why,
			Hint: "ask again; a stream is uploaded by size or age, millrace stream cut NAME does it at once, and millrace status NAME tells what it waits for",
		})
	}
}

func parseDurable(raw string) (next pos.Offset, wait time.Duration, err error) {
	next, wait = pos.NoOffset, durableWait
	err = parameters(raw, map[string]func(string) error{
		"offset": func(text string) error {
			at, err := strconv.ParseInt(text, 10, 64)
			if err != nil || at < 0 || at == 1<<63-1 {
				return errors.New("want a whole number from 0")
			}
			next = pos.Offset(at) + 1
			return nil
		},
		"timeout": func(text string) (err error) {
			if wait, err = settings.ParseSpan(text); err != nil || wait < 0 || wait > maxDurableWait {
				return fmt.Errorf("want a duration of at most %s", settings.FormatSpan(maxDurableWait))
			}
			return nil
		},
	})
	return next, wait, err
}
