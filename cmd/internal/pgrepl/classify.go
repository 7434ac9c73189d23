package pgrepl

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/actors/port"
	"millrace/core/pgout"
)

// direct is the hint for what only a connection without a pooler can do.
const direct = "connect to PostgreSQL itself: a pooler does not pass replication connections or session settings"

// states are the SQLSTATEs that mean one thing whatever was done.
var states = map[string]struct {
	class pgout.Class
	hint  string
}{
	"28000": {pgout.Denied, "let the role in for database replication connections: a line \"host <database> <role> <address> scram-sha-256\" in pg_hba.conf"},
	"28P01": {pgout.Denied, "the password is wrong"},
	"3D000": {pgout.Misconfigured, "name a database that exists"},
	"42501": {pgout.Denied, "grant the role SELECT on the published tables and USAGE on their schemas"},
	"42710": {pgout.Misconfigured, "configure another slot name, or drop that slot with pg_drop_replication_slot"},
	"53400": {pgout.Unavailable, "raise max_replication_slots, or drop a slot that nobody uses"},
	"53300": {pgout.Unavailable, "raise max_wal_senders or max_connections, or the connection limit of the role or the database, whichever the message names"},
	"58P01": {pgout.SlotLost, ""},
	"42704": {pgout.NotFound, ""},
	"42P01": {pgout.NotFound, ""},
	"42703": {pgout.NotFound, ""},
}

var activePID = regexp.MustCompile(`is active for PID (\d+)`)

// classify turns an error of pgconn into a *port.PostgresError. Of the server's error
// it keeps message and code: details may hold data.
func (d *Database) classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if done, ok := errors.AsType[*port.PostgresError](err); ok {
		return done
	}
	out := &port.PostgresError{Op: op, Class: pgout.Unavailable, Err: err}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return out
	}
	out.Err = d.serverError(err, pg)
	if s, ok := states[pg.Code]; ok {
		out.Class, out.Hint = s.class, s.hint
	}
	d.refine(out, pg)
	return out
}

// serverError is the server's message, with what we put in front of it.
func (d *Database) serverError(err error, pg *pgconn.PgError) error {
	text := fmt.Sprintf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	if before, _, ok := strings.Cut(err.Error(), pg.Error()); ok {
		text = before + text
	}
	return errors.New(text)
}

// refine tells apart what shares a SQLSTATE.
func (d *Database) refine(out *port.PostgresError, pg *pgconn.PgError) {
	has := func(part string) bool { return strings.Contains(pg.Message, part) }
	switch {
	case pg.Code == "55006":
		out.Class = pgout.SlotInUse
		if m := activePID.FindStringSubmatch(pg.Message); m != nil {
			if pid, err := strconv.Atoi(m[1]); err == nil { // else it is not known
				out.PID = pid
			}
		}
	case pg.Code == "55000" && has("wal_level"):
		out.Class, out.Hint = pgout.Misconfigured, "run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL"
	case pg.Code == "55000" && has("replication slot"), pg.Code == "57P01" && has("replication slot"):
		out.Class = pgout.SlotLost
	case pg.Code == "42501" && (has("replication") || has("REPLICATION")):
		out.Class, out.Hint = pgout.Misconfigured, fmt.Sprintf("run ALTER ROLE %s REPLICATION", quoteIdent(d.config.User))
	case pg.Code == "42501" && has("row-level security"):
		out.Class, out.Hint = pgout.Misconfigured, fmt.Sprintf("rows would be hidden; run ALTER ROLE %s BYPASSRLS", quoteIdent(d.config.User))
	case pg.Code == "42704" && has("publication") && out.Op == opStream:
		out.Class = pgout.Unreadable
	case pg.Code == "42601" && out.Op == opIdentify, pg.Code == "08P01" && has("startup parameter"):
		out.Class, out.Hint = pgout.Misconfigured, direct
	}
}

const (
	opIdentify = "identify system"
	opStream   = "stream"
	opHeld     = "look where the slot is"
)

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func quoteText(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
