package pgrepl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"millrace/core/pgout"
	"millrace/core/pos"
)

// Inspect implements port.Postgres.
func (d *Database) Inspect(ctx context.Context, slot, publication string) (pgout.Server, error) {
	conn, err := d.connect(ctx, "inspect")
	if err != nil {
		return pgout.Server{}, err
	}
	defer hangUp(conn)
	id, err := pglogrepl.IdentifySystem(ctx, conn)
	if err != nil {
		return pgout.Server{}, d.classify(opIdentify, err)
	}
	s := pgout.Server{SystemID: id.SystemID, Timeline: int(id.Timeline), Flush: pos.LSN(id.XLogPos), Database: id.DBName, Replication: true}
	if err := readServer(ctx, conn, &s); err != nil {
		return s, d.classify("inspect server", err)
	}
	if s.Slot, err = readSlot(ctx, conn, slot); err != nil {
		return s, d.classify("inspect slot", err)
	}
	if s.Publication, err = readPublication(ctx, conn, publication); err != nil {
		return s, d.classify("inspect publication", err)
	}
	return s, nil
}

func readServer(ctx context.Context, conn *pgconn.PgConn, s *pgout.Server) error {
	rows, err := query(ctx, conn, "SELECT current_setting('wal_level'), current_setting('server_version_num'), current_user")
	if err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("the server's settings came as %d rows", len(rows))
	}
	s.WALLevel, s.Role = string(rows[0][0]), string(rows[0][2])
	s.Version, err = strconv.Atoi(string(rows[0][1]))
	return err
}

func readSlot(ctx context.Context, conn *pgconn.PgConn, name string) (*pgout.Slot, error) {
	rows, err := query(ctx, conn, `SELECT coalesce(plugin, ''), coalesce(database, ''), coalesce(active_pid, 0), coalesce(wal_status, ''),
		coalesce(restart_lsn, '0/0'), coalesce(confirmed_flush_lsn, '0/0') FROM pg_replication_slots WHERE slot_name = `+quoteText(name))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	s := &pgout.Slot{Name: name, Plugin: string(r[0]), Database: string(r[1]), WALStatus: string(r[3])}
	if s.ActivePID, err = strconv.Atoi(string(r[2])); err != nil {
		return nil, err
	}
	if s.Restart, err = pos.ParseLSN(string(r[4])); err != nil {
		return nil, err
	}
	s.Confirmed, err = pos.ParseLSN(string(r[5]))
	return s, err
}

func readPublication(ctx context.Context, conn *pgconn.PgConn, name string) (*pgout.Publication, error) {
	rows, err := query(ctx, conn, `SELECT pubviaroot, pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = `+quoteText(name))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	p := &pgout.Publication{Name: name, ViaRoot: isTrue(rows[0][0])}
	for i, what := range []string{"insert", "update", "delete", "truncate"} {
		if !isTrue(rows[0][i+1]) {
			p.Missing = append(p.Missing, what)
		}
	}
	p.Tables, err = readTables(ctx, conn, name)
	return p, err
}

func isTrue(b []byte) bool { return string(b) == "t" }

// tablesSQL lists tables and columns of a publication. The member OID is that of the
// entry that brought the table in: its own or an ancestor's pg_publication_rel, its
// schema's pg_publication_namespace, or FOR ALL TABLES the publication itself. The key
// columns are those pgoutput flags: all under FULL, else of the immediate unique index
// that is the identity. A privilege on each column is as good as one on the table. Column lists, row filters and schemas exist from 15 on.
const tablesSQL = `
SELECT c.oid, n.nspname, c.relname, c.relreplident, c.reltuples::int8,
	coalesce((SELECT min(r.oid) FROM pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = c.oid OR r.prrelid IN (SELECT pg_partition_ancestors(c.oid)))), %[1]s p.oid),
	%[2]s,
	(p.pubupdate OR p.pubdelete) AND c.relreplident <> 'f' AND i.indexrelid IS NULL,
	NOT has_schema_privilege(n.oid, 'USAGE'), row_security_active(c.oid),
	NOT coalesce(has_column_privilege(c.oid, a.attnum, 'SELECT'), has_table_privilege(c.oid, 'SELECT')),
	a.attname, a.atttypid, a.atttypmod,
	c.relreplident = 'f' OR coalesce(a.attnum = ANY(i.indkey::int2[]), false)
FROM pg_publication p
JOIN pg_publication_tables t ON t.pubname = p.pubname
JOIN pg_namespace n ON n.nspname = t.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
	AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident)
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' %[3]s
WHERE p.pubname = %[4]s
ORDER BY n.nspname, c.relname, a.attnum`

func readTables(ctx context.Context, conn *pgconn.PgConn, publication string) ([]pgout.Table, error) {
	bySchema, filter, columns := "", "''", ""
	rows, err := query(ctx, conn, "SELECT current_setting('server_version_num')::int >= 150000")
	if err != nil {
		return nil, err
	}
	if len(rows) == 1 && isTrue(rows[0][0]) {
		bySchema = "(SELECT s.oid FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = n.oid),"
		filter, columns = "coalesce(t.rowfilter, '')", "AND a.attname = ANY(t.attnames)"
	}
	rows, err = query(ctx, conn, fmt.Sprintf(tablesSQL, bySchema, filter, columns, quoteText(publication)))
	if err != nil {
		return nil, err
	}
	var tables []pgout.Table
	for _, r := range rows {
		oid, err := parseOID(r[0])
		if err != nil {
			return nil, err
		}
		if n := len(tables); n == 0 || tables[n-1].OID != oid {
			t, err := readTable(oid, r)
			if err != nil {
				return nil, err
			}
			tables = append(tables, t)
		}
		last := &tables[len(tables)-1]
		last.NoSelect = last.NoSelect || isTrue(r[10])
		if r[11] == nil {
			continue
		}
		c, err := readColumn(r[11:])
		if err != nil {
			return nil, err
		}
		last.Columns = append(last.Columns, c)
	}
	return tables, nil
}

func readTable(oid uint32, r [][]byte) (pgout.Table, error) {
	t := pgout.Table{Relation: pgout.Relation{OID: oid, Schema: string(r[1]), Name: string(r[2]), Identity: pgout.Identity(r[3][0])},
		Filter: string(r[6]), Keyless: isTrue(r[7]), NoUsage: isTrue(r[8]), RowSecurity: isTrue(r[9])}
	var err error
	if t.Rows, err = strconv.ParseInt(string(r[4]), 10, 64); err != nil {
		return t, err
	}
	t.Member, err = parseOID(r[5])
	return t, err
}

func readColumn(r [][]byte) (pgout.Column, error) {
	c := pgout.Column{Name: string(r[0]), Key: isTrue(r[3])}
	var err error
	if c.Type, err = parseOID(r[1]); err != nil {
		return c, err
	}
	mod, err := strconv.ParseInt(string(r[2]), 10, 32)
	c.Mod = int32(mod)
	return c, err
}

func parseOID(b []byte) (uint32, error) {
	n, err := strconv.ParseUint(string(b), 10, 32)
	return uint32(n), err
}
