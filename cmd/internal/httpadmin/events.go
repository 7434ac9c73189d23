package httpadmin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"millrace/actors/admin"
)

// maxFollowers is how many may follow the events at once.
const maxFollowers = 32

// heartbeat is how often a follower is sent an empty line, so that one that is gone is
// noticed.
const heartbeat = 30 * time.Second

// BootHeader names, in the answer to a follower, the run of the node whose events follow:
// numbers begin anew with each.
const BootHeader = "Millrace-Boot"

// MissingEvents is a line for a follower that was too slow: so many events, of those that
// follow or before them, are not sent, since the node has forgotten them.
type MissingEvents struct {
	Missing uint64 `json:"missing"`
}

func (s *surface) events(w http.ResponseWriter, r *http.Request) {
	var since uint64
	var follow bool
	err := parameters(r.URL.RawQuery, map[string]func(string) error{
		"follow": flag(&follow),
		"since": func(text string) (err error) {
			if since, err = strconv.ParseUint(text, 10, 64); err != nil {
				return fmt.Errorf("want the number of an event")
			}
			return nil
		},
	})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), "parameters are since, the number of the last event that you have, and follow")
		return
	}
	happened := s.cfg.Node.Events(since)
	if !follow {
		if happened.Events == nil {
			happened.Events = []admin.Event{}
		}
		answer(w, http.StatusOK, happened)
		return
	}
	select {
	case s.followers <- struct{}{}:
		defer func() { <-s.followers }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d follow the events already", maxFollowers), "end one of them, or ask without follow")
		return
	}
	w.Header().Set(BootHeader, happened.Boot)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if err := s.follow(r.Context(), newLines(w), happened); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("admin: a follower of events is gone")
	}
}

// follow sends what happened, and then events as they happen, until the client or the
// node goes.
func (s *surface) follow(ctx context.Context, out *lines, happened admin.Events) error {
	if err := out.lift(); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		if happened.Missing > 0 {
			if err := out.line(MissingEvents{happened.Missing}); err != nil {
				return err
			}
		}
		for _, e := range happened.Events {
			if err := out.line(e); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		select {
		case <-happened.More:
		case <-beat.C:
			out.buf.WriteByte('\n')
		case <-ctx.Done():
			return nil
		}
		happened = s.cfg.Node.Events(happened.Next)
	}
}
