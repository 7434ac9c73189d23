package httpadmin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"millrace/actors/admin"
	"millrace/cmd/internal/console"
	"millrace/core/pos"
)

// surface is the server during one run of Serve.
type surface struct {
	*Server
	run   context.Context // ends when the node stops
	token string
}

// route is one thing that can be asked for.
type route struct {
	pattern string // of http.ServeMux
	takes   takes
	answer  http.HandlerFunc
}

// takes is what a request may carry. All but an open one want the token.
type takes uint8

const (
	open          takes = iota // anything, which is not looked at
	bare                       // nothing: neither parameters nor a body
	parameterized              // parameters
	withBody                   // JSON
)

// routes are all there are.
func (s *surface) routes() []route {
	return []route{
		{"GET /livez", open, s.livez},
		{"GET /readyz", open, s.readyz},
		{"GET /metrics", open, s.cfg.Metrics.ServeHTTP},
		{"GET /{$}", open, console.Page},
		{"GET /console/{file}", open, s.asset},

		{"GET " + viewPath, parameterized, s.console},
		{"GET /status", bare, s.status},
		{"GET /tree", parameterized, s.tree},
		{"GET /streams", bare, s.streams},
		{"POST /streams", withBody, s.create},
		{"GET /streams/{name}", bare, s.stream},
		{"GET /streams/{name}/records", parameterized, s.records},
		{"GET /streams/{name}/retention", bare, s.retention},
		{"PUT /streams/{name}/retention", withBody, s.retention},
		{"POST /streams/{name}/cut", bare, s.cut},
		{"POST /streams/{name}/reset", bare, s.reset},
		{"GET /streams/{name}/durable", parameterized, s.durable},
		{"POST /tree/terminate", withBody, s.operate("terminated", s.cfg.Node.Terminate)},
		{"POST /tree/restart", withBody, s.operate("restarted", s.cfg.Node.Restart)},
		{"GET /registry", parameterized, s.registry},
		{"GET /registry/{stream}", bare, s.names},
		{"GET /events", parameterized, s.events},
		{"GET /tiering", bare, s.tiering},
		{"POST /tiering/enable", bare, s.setTiering(true)},
		{"POST /tiering/disable", bare, s.setTiering(false)},
		{"POST /tiering/claim", bare, s.claim},
	}
}

// handler is everything there is, guarded by the token.
func (s *surface) handler() http.Handler {
	public, guarded := http.NewServeMux(), http.NewServeMux()
	for _, r := range s.routes() {
		if r.takes == open {
			public.HandleFunc(r.pattern, r.answer)
		} else {
			guarded.HandleFunc(r.pattern, r.takes.only(r.answer))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trusted := authorized(r, s.token)
		if c := connOf(r.Context()); c != nil {
			if !c.begin(trusted) {
				panic(http.ErrAbortHandler)
			}
			defer c.end()
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := deadline(w, answerTime); err != nil {
			s.cfg.Log.Debug().Err(err).Msg("admin: no deadline on a connection")
		}
		mux := public
		if !known(public, r) || r.URL.Path == viewPath {
			if !trusted {
				w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
				w.Header().Set("Connection", "close")
				refuse(w, http.StatusUnauthorized, "the token is missing or wrong",
					"send the header Authorization: Bearer TOKEN; the token stands in the node's admin.token_file")
				return
			}
			mux = guarded
		}
		if !known(mux, r) {
			nowhere(w, r, public, guarded)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func known(mux *http.ServeMux, r *http.Request) bool {
	_, pattern := mux.Handler(r)
	return pattern != ""
}

// nowhere refuses a path that is not there, or a method it does not take.
func nowhere(w http.ResponseWriter, r *http.Request, muxes ...*http.ServeMux) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		other := r.Clone(r.Context())
		other.Method = method
		if slices.ContainsFunc(muxes, func(mux *http.ServeMux) bool { return known(mux, other) }) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		refuse(w, http.StatusMethodNotAllowed, r.Method+" is not possible here", "use "+strings.Join(allowed, " or "))
		return
	}
	notFound(w)
}

func notFound(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "there is nothing at this path",
		"try /status, /streams, /streams/NAME, /streams/NAME/records, /tree, /registry, /events, /tiering, /livez, /readyz or /metrics")
}

func authorized(r *http.Request, token string) bool {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return sameToken(strings.TrimSpace(given), token) && ok && strings.EqualFold(scheme, "Bearer")
}

func deadline(w http.ResponseWriter, d time.Duration) error {
	rc := http.NewResponseController(w)
	until := time.Now().Add(d + tellTime)
	return errors.Join(rc.SetReadDeadline(until), rc.SetWriteDeadline(until))
}

func (s *surface) livez(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]bool{"live": true})
}

func (s *surface) readyz(w http.ResponseWriter, _ *http.Request) {
	ok, reasons := s.cfg.Node.Ready()
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, struct {
		Ready   bool     `json:"ready"`
		Reasons []string `json:"reasons,omitempty"`
	}{ok, reasons})
}

func (s *surface) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	answer(w, http.StatusOK, s.cfg.Node.Status(ctx))
}

func (s *surface) streams(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	list, err := s.cfg.Node.Streams(ctx)
	if err != nil {
		fail(w, err)
		return
	}
	if list == nil {
		list = []admin.StreamStatus{}
	}
	answer(w, http.StatusOK, map[string]any{"streams": list})
}

func (s *surface) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	st, err := s.cfg.Node.Stream(ctx, r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, st)
}

// CreateRequest is the body of POST /streams.
type CreateRequest struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitempty"`
}

func (s *surface) create(w http.ResponseWriter, r *http.Request) {
	var req CreateRequest
	if !body(w, r, &req, `send {"name":"NAME","arguments":{"KEY":"VALUE"}}`) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	st, err := s.cfg.Node.CreateStream(ctx, req.Name, req.Arguments)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusCreated, st)
}

// Refusal is the body of every answer that is not a success, and the last line of
// records that broke off.
type Refusal struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	// Next is the offset after the last record that was sent, to read on from.
	Next *pos.Offset `json:"next,omitempty"`
	// Why is what keeps a record from being durable, as far as is known.
	Why string `json:"why,omitempty"`
}

func refuse(w http.ResponseWriter, status int, what, hint string) {
	answer(w, status, Refusal{Error: what, Hint: hint})
}

// fail refuses with what the node said.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var e *admin.Error
	if errors.As(err, &e) {
		switch e.Class {
		case admin.NotFound:
			status = http.StatusNotFound
		case admin.Exists:
			status = http.StatusConflict
		case admin.Invalid:
			status = http.StatusBadRequest
		case admin.Unavailable:
			status = http.StatusServiceUnavailable
		case admin.Forbidden:
			status = http.StatusForbidden
		case admin.Internal:
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	answer(w, status, refusal(err))
}

func refusal(err error) Refusal {
	r := Refusal{Error: err.Error()}
	var e *admin.Error
	if errors.As(err, &e) {
		r.Hint = e.Hint
	}
	return r
}

// answer writes v as JSON. A client that is gone gets nothing, and that is all.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		panic(http.ErrAbortHandler)
	}
}
