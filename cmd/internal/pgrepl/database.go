package pgrepl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"millrace/actors/port"
	"millrace/core/pgout"
)

// Options are what is fixed about the connections.
type Options struct {
	Application    string        // application_name; "" is "millrace"
	ConnectTimeout time.Duration // 0: 10 s
	LockTimeout    time.Duration // longest wait for running transactions when a slot is created; 0: 60 s
	ReadAhead      int           // bytes a stream reads ahead of its consumer; 0: 4 MiB
	StatusEvery    time.Duration // longest time between two status messages; 0: 10 s
}

// Database is one PostgreSQL database. It holds no connection of its own.
type Database struct {
	config *pgconn.Config
	opt    Options
}

var _ port.Postgres = (*Database)(nil)

// pinned are the session settings under which COPY and the stream print values alike,
// and under which a session may take as long as it takes. row_security=off makes a
// policy that would hide rows an error.
var pinned = map[string]string{
	"datestyle":          "ISO",
	"intervalstyle":      "iso_8601",
	"timezone":           "UTC",
	"extra_float_digits": "3",
	"bytea_output":       "hex",
	"lc_monetary":        "C",
	"client_encoding":    "UTF8",
	"search_path":        "pg_catalog",
	"xmlbinary":          "base64",
	"row_security":       "off",
	"statement_timeout":  "0",
	"lock_timeout":       "0",

	"idle_in_transaction_session_timeout": "0",
	"replication":                         "database",
}

// Open takes a connection string (a URL or key=value pairs); it does not connect. The
// error never repeats the string, which may hold a password.
func Open(dsn string, opt Options) (*Database, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the PostgreSQL connection string can't be read: want postgres://user@host:port/database?sslmode=... or key=value pairs")
	}
	if opt.Application == "" {
		opt.Application = "millrace"
	}
	opt.ConnectTimeout = orDuration(opt.ConnectTimeout, 10*time.Second)
	opt.LockTimeout = orDuration(opt.LockTimeout, time.Minute)
	opt.StatusEvery = orDuration(opt.StatusEvery, 10*time.Second)
	if opt.ReadAhead <= 0 {
		opt.ReadAhead = 4 << 20
	}
	maps.Copy(config.RuntimeParams, pinned)
	config.RuntimeParams["application_name"] = opt.Application
	config.ConnectTimeout = opt.ConnectTimeout
	return &Database{config: config, opt: opt}, nil
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// connect opens a connection. A context that ends cancels what runs on the server, so
// that no backend is left asleep holding a slot.
func (d *Database) connect(ctx context.Context, op string) (*pgconn.PgConn, error) {
	return d.cancelling(ctx, d.config.Copy(), op)
}

// ordinary is connect without a walsender at the other end.
func (d *Database) ordinary(ctx context.Context, op string) (*pgconn.PgConn, error) {
	config := d.config.Copy()
	delete(config.RuntimeParams, "replication")
	return d.cancelling(ctx, config, op)
}

func (d *Database) cancelling(ctx context.Context, config *pgconn.Config, op string) (*pgconn.PgConn, error) {
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 2 * time.Second}
	}
	return d.dial(ctx, config, op)
}

func (d *Database) dial(ctx context.Context, config *pgconn.Config, op string) (*pgconn.PgConn, error) {
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, d.classify(op, fmt.Errorf("connecting to database %q on %s:%d as %q: %w", config.Database, config.Host, config.Port, config.User, bare(err)))
	}
	return conn, nil
}

// bare leaves out what pgconn puts around a failed attempt: hosts and users of every
// address tried.
func bare(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg
	}
	if c, ok := errors.AsType[*pgconn.ConnectError](err); ok && c.Unwrap() != nil {
		return onceEach{c.Unwrap()}
	}
	return err
}

// onceEach says what several attempts (with and without TLS, at each address) came to, in
// one line, and once what is the same for all.
type onceEach struct{ error }

// Error joins the lines of the error.
func (e onceEach) Error() string {
	var told []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	return strings.Join(told, "; ")
}

// Unwrap returns the error.
func (e onceEach) Unwrap() error { return e.error }

// hangUp closes a connection without waiting long for the server.
func hangUp(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// A connection that can't be closed politely is closed anyway.
	if err := conn.Close(ctx); err != nil {
		return
	}
}

// query runs SQL that returns rows, as text; nil is NULL.
func query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][][]byte, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("%d results in place of one", len(results))
	}
	return results[0].Rows, results[0].Err
}

func run(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}

func fail(op string, class pgout.Class, hint string, err error) error {
	return &port.PostgresError{Op: op, Class: class, Hint: hint, Err: err}
}
