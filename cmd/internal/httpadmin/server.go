package httpadmin

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"millrace/actors/admin"
)

const (
	maxConns   = 256
	maxReaders = 64 // that read records at once
	maxHeader  = 16 << 10
	maxBody    = 64 << 10

	headerTime = 5 * time.Second
	idleTime   = 2 * time.Minute
	answerTime = 30 * time.Second // of anything but records
	tellTime   = 5 * time.Second  // to tell that it is over
	stallTime  = 15 * time.Minute // for a reader of records that takes nothing
	stopTime   = 2 * time.Second  // for open requests to end

	// refuseTime is how long the answer of a reading waits for its first records, so that
	// a refusal has its status: longer than the node tries to find them. heardTime is that
	// of a reading that follows, which may have none for days and is told that it is heard.
	refuseTime = answerTime + 5*time.Second
	heardTime  = 500 * time.Millisecond
)

// Config is what the surface needs.
type Config struct {
	Listen    string // host:port
	TokenFile string // made if it is missing
	Node      admin.Node
	Metrics   http.Handler // of /metrics
	Log       zerolog.Logger
	// Listening, if not nil, is told the address once the port is open.
	Listening func(addr string)
}

// Server implements admin.Server.
type Server struct {
	cfg     Config
	readers chan struct{} // one slot for each open reading
	// followers has one slot for each who follows the events.
	followers chan struct{}
}

// New makes the surface; it opens nothing before Serve.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, readers: make(chan struct{}, maxReaders), followers: make(chan struct{}, maxFollowers)}
}

// Serve reads the token, listens, and answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	token, err := loadToken(s.cfg.TokenFile)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("admin: %w: end what uses the port, or set another one in admin.listen", err)
	}
	if s.cfg.Listening != nil {
		s.cfg.Listening(ln.Addr().String())
	}
	return s.answer(ctx, newCapped(ln, maxConns), token)
}

// answer serves ln until ctx ends. A request's context is a child of ctx, so readings
// that follow a stream end by themselves.
func (s *Server) answer(ctx context.Context, ln net.Listener, token string) error {
	requests := &gate{next: (&surface{Server: s, run: ctx, token: token}).handler()}
	defer requests.shut()
	srv := &http.Server{
		Handler:           requests,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
		ErrorLog:          log.New(s.cfg.Log, "", 0),
	}
	stopped := make(chan error, 1)
	cancel := context.AfterFunc(ctx, func() { stopped <- shut(srv) })
	err := srv.Serve(ln)
	if cancel() { // ctx goes on: the listener failed
		return errors.Join(fmt.Errorf("admin: %w", err), srv.Close())
	}
	return <-stopped
}

// gate counts the requests that are being answered, so that none outlives the server:
// the node's parts are closed behind it.
type gate struct {
	next http.Handler
	open sync.RWMutex // held for reading by each request
	down bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.open.RLock()
	defer g.open.RUnlock()
	if g.down {
		panic(http.ErrAbortHandler)
	}
	g.next.ServeHTTP(w, r)
}

// shut waits for the requests and lets no other in. Their contexts and connections have
// ended, so that they end.
func (g *gate) shut() {
	g.open.Lock()
	defer g.open.Unlock()
	g.down = true
}

// shut lets open requests end for a moment, then closes their connections.
func shut(srv *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return srv.Close()
	}
	return nil
}
