package shop

import (
	"context"
	_ "embed" // the SQL of the schema and its first rows
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Names that Create makes and a capture is configured with.
const (
	Database    = "shop"
	Publication = "millrace_shop"
	Role        = "millrace" // may replicate and read the published tables; has no password
)

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed odd.sql
	oddSQL string
	//go:embed preload.sql
	preloadSQL string
)

// pinned are the settings under which a capture prints values; Rows reads under
// the same.
var pinned = map[string]string{
	"datestyle":          "ISO",
	"intervalstyle":      "iso_8601",
	"timezone":           "UTC",
	"extra_float_digits": "3",
	"bytea_output":       "hex",
	"lc_monetary":        "C",
}

// URL is the connection string of the database for a role, given that of a
// superuser's database on the same server.
func URL(admin, role, database string) (string, error) {
	cfg, err := pgconn.ParseConfig(admin)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", role, cfg.Host, cfg.Port, database), nil
}

// Create makes the database, its schema and publication, and loads about ten
// times `scale` rows. It gives the superuser's connection string of the database.
func Create(ctx context.Context, admin string, scale int) (string, error) {
	cfg, err := pgconn.ParseConfig(admin)
	if err != nil {
		return "", err
	}
	if err := run(ctx, admin, "CREATE DATABASE "+Database); err != nil {
		return "", err
	}
	url, err := URL(admin, cfg.User, Database)
	if err != nil {
		return "", err
	}
	for _, sql := range []string{schemaSQL, oddSQL, strings.ReplaceAll(preloadSQL, ":scale", strconv.Itoa(scale))} {
		if err := run(ctx, url, sql); err != nil {
			return "", err
		}
	}
	return url, nil
}

// run executes statements on a connection of its own.
func run(ctx context.Context, url, sql string) error {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql).ReadAll()
	if cerr := conn.Close(ctx); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%.60s...: %w", strings.Join(strings.Fields(sql), " "), err)
	}
	return nil
}

// Mark commits a last transaction after the writers have stopped: the row of audit
// with this writer and n ends the stream.
func Mark(ctx context.Context, url string, writer, n int) error {
	return run(ctx, url, fmt.Sprintf("INSERT INTO public.audit VALUES (%d, %d, 0)", writer, n))
}

// Table is a published table.
type Table struct {
	Name string   // schema.table, unquoted
	Key  []string // columns that tell its rows apart in the stream; none: the whole row
	sql  string   // the name, quoted
}

// Tables lists the published tables, partitions as themselves, by name.
func Tables(ctx context.Context, url string) ([]Table, error) {
	const sql = `
SELECT p.schemaname || '.' || p.tablename, format('%I.%I', p.schemaname, p.tablename), a.attname
FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
LEFT JOIN pg_index i ON i.indrelid = c.oid AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
LEFT JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (att, place) ON true
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.att
WHERE p.pubname = '` + Publication + `' ORDER BY 1, k.place`
	var tables []Table
	err := query(ctx, url, sql, func(_ []string, row [][]byte) error {
		name := string(row[0])
		if n := len(tables); n == 0 || tables[n-1].Name != name {
			tables = append(tables, Table{Name: name, sql: string(row[1])})
		}
		if t := &tables[len(tables)-1]; row[2] != nil {
			t.Key = append(t.Key, string(row[2]))
		}
		return nil
	})
	return tables, err
}

// Rows reads a table as text under the settings that a capture pins, row by row; a
// nil value is NULL. The slices are valid during the visit only.
func Rows(ctx context.Context, url string, t Table, visit func(columns []string, row [][]byte) error) error {
	return query(ctx, url, "SELECT * FROM "+t.sql, visit)
}

// query reads the rows of one statement under the pinned settings.
func query(ctx context.Context, url, sql string, visit func(columns []string, row [][]byte) error) error {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return err
	}
	for name, value := range pinned {
		cfg.RuntimeParams[name] = value
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	err = read(conn.Exec(ctx, sql), visit)
	if cerr := conn.Close(ctx); err == nil {
		err = cerr
	}
	return err
}

func read(results *pgconn.MultiResultReader, visit func(columns []string, row [][]byte) error) error {
	var failed error
	for results.NextResult() {
		result := results.ResultReader()
		var columns []string
		for _, f := range result.FieldDescriptions() {
			columns = append(columns, f.Name)
		}
		for failed == nil && result.NextRow() {
			failed = visit(columns, result.Values())
		}
	}
	if err := results.Close(); failed == nil {
		failed = err
	}
	return failed
}

// Streaming reports whether somebody streams the changes of the database.
func Streaming(ctx context.Context, url string) (bool, error) {
	streaming := false
	const sql = "SELECT count(*) > 0 FROM pg_stat_replication WHERE state IN ('catchup', 'streaming')"
	err := query(ctx, url, sql, func(_ []string, row [][]byte) error {
		streaming = string(row[0]) == "t"
		return nil
	})
	return streaming, err
}
