package shop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// tx is one transaction. events counts the row events that it will have in the
// stream if it commits: one for each row that a statement reports, and one for
// each table truncated.
type tx struct {
	conn       *pgconn.PgConn
	rng        *rand.Rand
	events     int64
	rolledBack bool
	err        error // the first; what follows is not run
}

// statementTimeout bounds a statement: the server may be gone without a word.
const statementTimeout = 30 * time.Second

// kinds are what transactions do, each as often as its weight says.
var kinds = []struct {
	weight int
	do     func(*tx)
}{
	{30, (*tx).placeOrder},
	{14, (*tx).payOrders},
	{10, (*tx).touchProducts},
	{10, (*tx).fillCart},
	{8, (*tx).deleteOrders},
	{8, (*tx).oddities},
	{6, (*tx).moveKeys},
	{6, (*tx).savepoints},
	{6, (*tx).visits},
	{5, (*tx).storeBlobs},
	{4, (*tx).bulkInsert},
	{3, (*tx).bulkUpdate},
	{3, (*tx).bulkDelete},
	{3, (*tx).customers},
	{2, (*tx).truncate},
	{2, (*tx).nothing},
	{1, (*tx).large},
}

// all runs one whole transaction, which ends with its row in audit, or is rolled
// back on purpose.
func (t *tx) all(writer, n int) error {
	t.run("BEGIN")
	t.pick()
	for t.rng.IntN(4) == 0 {
		t.pick()
	}
	if t.rng.IntN(12) == 0 {
		t.rolledBack = true
		t.run("ROLLBACK")
		return t.err
	}
	t.run(fmt.Sprintf("INSERT INTO public.audit VALUES (%d, %d, %d)", writer, n, t.events))
	t.run("COMMIT")
	return t.err
}

func (t *tx) pick() {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := t.rng.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			k.do(t)
			return
		}
	}
}

// command runs a statement, after a failure too.
func (t *tx) command(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	results, err := t.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return fmt.Errorf("%.200s: %w", sql, err)
	}
	if len(results) > 0 {
		if tag := results[len(results)-1].CommandTag; tag.Insert() || tag.Update() || tag.Delete() {
			t.events += tag.RowsAffected()
		}
	}
	return nil
}

// run runs a statement unless one failed before.
func (t *tx) run(sql string) {
	if t.err == nil {
		t.err = t.command(sql)
	}
}

// size draws 1 to most, small ones far more often.
func (t *tx) size(most int) int {
	for most > 1 && t.rng.IntN(3) > 0 {
		most = max(most/4, 1)
	}
	return 1 + t.rng.IntN(most)
}

// some is a condition that picks up to n rows of a table by its numeric key.
func (t *tx) some(table, key string, n int) string {
	return fmt.Sprintf("%[2]s IN (SELECT %[2]s FROM %[1]s WHERE %[2]s >= (SELECT floor(%[3]f * max(%[2]s)) FROM %[1]s) ORDER BY %[2]s LIMIT %[4]d)",
		table, key, t.rng.Float64(), n)
}

func (t *tx) placeOrder() {
	t.run(fmt.Sprintf("INSERT INTO orders (customer, status, total, note) VALUES (%d, 'new', %d.%02d, %s)",
		1+t.rng.IntN(1000), t.rng.IntN(5000), t.rng.IntN(100), t.note()))
	t.run(fmt.Sprintf(`INSERT INTO order_items SELECT currval('orders_id_seq'), l, 'sku-' || l, l %% 3, l + 0.25, random(), l = 1, make_interval(secs => l * 1.5)
		FROM generate_series(1, %d) l`, 1+t.rng.IntN(8)))
	t.run(fmt.Sprintf("UPDATE products SET stock = stock - 1 WHERE sku = 'sku-%d'", 1+t.rng.IntN(100)))
}

// note is a literal: NULL, empty, plain or with all that needs an escape.
func (t *tx) note() string {
	return [...]string{"NULL", "''", "'by hand'", `E'tab\t "quoted" back\\slash \u00e9 \U0001F418 line\nnext'`, "repeat('long ', 300)"}[t.rng.IntN(5)]
}

func (t *tx) payOrders() {
	t.run("UPDATE orders SET status = CASE status WHEN 'new' THEN 'paid' WHEN 'paid' THEN 'sent' ELSE '' END WHERE " + t.some("orders", "id", t.size(60)))
}

func (t *tx) touchProducts() {
	set := "price = price * 1.01, stock = stock + 1"
	if t.rng.IntN(4) == 0 {
		set = "photo = CASE WHEN photo IS NULL THEN decode(repeat(md5(sku || stock), 90), 'hex') END"
	}
	t.run(fmt.Sprintf("UPDATE products SET %s WHERE sku IN (SELECT sku FROM products OFFSET %d LIMIT %d)", set, t.rng.IntN(200), t.size(20)))
}

func (t *tx) fillCart() {
	id := 1 + t.rng.IntN(300)
	t.run(fmt.Sprintf(`INSERT INTO carts VALUES (%d, '[{"sku": "sku-1",  "n": %d}]', repeat('new %d ', 500))
		ON CONFLICT (id) DO UPDATE SET items = excluded.items, changed = clock_timestamp()`, id, t.rng.IntN(9), id))
	if t.rng.IntN(5) == 0 {
		t.run(fmt.Sprintf("DELETE FROM carts WHERE id = %d", 1+t.rng.IntN(300)))
	}
}

func (t *tx) deleteOrders() {
	some := t.some("orders", "id", t.size(30))
	t.run("DELETE FROM order_items WHERE order_id IN (SELECT id FROM orders WHERE " + some + ")")
	t.run("DELETE FROM orders WHERE " + some)
}

// oddColumns are those of the table of odd values but its key.
const oddColumns = `i2, i8, f4, f8, num, cash, d, ts, tz, clock, clocktz, span, yes, raw, bits, one, padded, words, ints, grid, texts, days,
	js, jb, x, u, addr, net, mac, spot, r, rr, v, m, moods, pct, box, o`

func (t *tx) oddities() {
	const odd = `"back office"."odd ""values"""`
	from, to := 1+t.rng.IntN(10), 11+t.rng.IntN(200)
	t.run(fmt.Sprintf("INSERT INTO %[1]s SELECT %[2]d, %[3]s FROM %[1]s WHERE id = %[4]d ON CONFLICT (id) DO NOTHING", odd, to, oddColumns, from))
	t.run(fmt.Sprintf("UPDATE %[1]s SET (%[2]s) = (SELECT %[2]s FROM %[1]s WHERE id = %[3]d) WHERE id = %[4]d", odd, oddColumns, 1+t.rng.IntN(10), to))
	if t.rng.IntN(3) == 0 {
		t.run(fmt.Sprintf("DELETE FROM %s WHERE id = %d", odd, 11+t.rng.IntN(200)))
	}
}

// moveKeys changes keys: a primary key of two columns, a text with a value out of
// line beside it, and the index that is a replica identity.
func (t *tx) moveKeys() {
	switch t.rng.IntN(3) {
	case 0:
		t.run("UPDATE order_items SET line = line + 1000 WHERE " + t.some("order_items", "order_id", t.size(20)))
	case 1:
		t.run(fmt.Sprintf("UPDATE products SET sku = sku || '+' WHERE sku = (SELECT sku FROM products WHERE length(sku) < 12 OFFSET %d LIMIT 1)", 100+t.rng.IntN(100)))
	default:
		t.run("UPDATE blobs SET ref = gen_random_uuid() WHERE " + t.some("blobs", "id", t.size(4)))
	}
}

// savepoints keeps some of its work and rolls the rest back; one time in four with
// more subtransactions than PostgreSQL holds in memory for each connection (64).
func (t *tx) savepoints() {
	rounds := 1 + t.rng.IntN(5)
	if t.rng.IntN(4) == 0 {
		rounds = 70
	}
	for i := range rounds {
		kept := t.events
		t.run("SAVEPOINT a")
		t.run(fmt.Sprintf("INSERT INTO orders (customer, status) VALUES (%d, 'saved')", i))
		t.run("SAVEPOINT b")
		t.run(fmt.Sprintf("UPDATE products SET stock = stock + 2 WHERE sku = 'sku-%d'", 1+t.rng.IntN(50)))
		switch t.rng.IntN(3) {
		case 0:
			t.run("RELEASE SAVEPOINT b")
			t.run("RELEASE SAVEPOINT a")
		case 1:
			t.run("ROLLBACK TO SAVEPOINT a")
			t.run("RELEASE SAVEPOINT a")
			t.events = kept
		default:
			t.run("ROLLBACK TO SAVEPOINT b")
			t.run("RELEASE SAVEPOINT b")
			t.run("RELEASE SAVEPOINT a")
			t.events = kept + 1
		}
	}
}

func (t *tx) visits() {
	t.run(fmt.Sprintf("INSERT INTO visits SELECT %d + v, '::1', now() FROM generate_series(1, %d) v ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp()",
		t.rng.IntN(100000), t.size(100)))
	if t.rng.IntN(3) == 0 {
		t.run("DELETE FROM visits WHERE " + t.some("visits", "id", t.size(50)))
	}
}

func (t *tx) storeBlobs() {
	t.run(fmt.Sprintf("INSERT INTO blobs (kind, body, doc) SELECT 'new', decode(repeat(md5(random()::text), %d), 'hex'), repeat(md5(random()::text), %d) FROM generate_series(1, %d)",
		1+t.rng.IntN(4000), 1+t.rng.IntN(2000), 1+t.rng.IntN(2)))
	t.run("UPDATE blobs SET kind = kind || '.' WHERE length(kind) < 20 AND " + t.some("blobs", "id", t.size(5)))
	if t.rng.IntN(2) == 0 {
		t.run("DELETE FROM blobs WHERE " + t.some("blobs", "id", 1))
	}
}

func (t *tx) bulkInsert() {
	t.run(fmt.Sprintf(`INSERT INTO clicks SELECT '/p/' || i %% 70, 'bulk', i %% 3, jsonb_build_object('i', i %% 9, 'pad', repeat('y', 150)) FROM generate_series(1, %d) i`, t.size(5000)))
}

// rowsOf picks rows of a table without a key.
func (t *tx) rowsOf(table string, n int) string {
	return fmt.Sprintf("ctid IN (SELECT ctid FROM %s OFFSET %d LIMIT %d)", table, t.rng.IntN(3000), n)
}

func (t *tx) bulkUpdate() {
	t.run("UPDATE clicks SET visits = visits + 1, kind = NULL WHERE " + t.rowsOf("clicks", t.size(2000)))
}

func (t *tx) bulkDelete() {
	t.run("DELETE FROM clicks WHERE " + t.rowsOf("clicks", t.size(5000)))
}

func (t *tx) customers() {
	t.run(fmt.Sprintf("INSERT INTO customers (name, email, code, feeling, tags, born) VALUES (%s, '', 'é', 'very happy', '{\"\",NULL,\"a,b\"}', '0044-03-15 BC')",
		strings.Replace(t.note(), "NULL", "'nobody'", 1)))
	t.run(`UPDATE customers SET profile = jsonb_set(coalesce(profile, '{}'), '{seen}', to_jsonb(clock_timestamp())) WHERE ` + t.some("customers", "id", t.size(30)))
}

// truncate empties tables, one or two at once, between writes to them.
func (t *tx) truncate() {
	t.run(fmt.Sprintf("INSERT INTO scratch SELECT i, 'before' FROM generate_series(%d, %[1]d + 20) i ON CONFLICT DO NOTHING", t.rng.IntN(500)))
	if t.rng.IntN(3) == 0 {
		t.run("TRUNCATE scratch, carts")
		t.events += 2
	} else {
		t.run("TRUNCATE scratch")
		t.events++
	}
	t.run(fmt.Sprintf("INSERT INTO scratch SELECT i, 'after' FROM generate_series(%d, %[1]d + 20) i", t.rng.IntN(500)))
}

// nothing changes no row: the transaction is its row in audit alone.
func (t *tx) nothing() { t.run("UPDATE orders SET note = note WHERE id < 0") }

// large is one of 5,000 rows over several tables, with a part rolled back.
func (t *tx) large() {
	t.run("INSERT INTO orders (customer, status, note) SELECT i, 'large', repeat('n', i % 200) FROM generate_series(1, 2500) i")
	kept := t.events
	t.run("SAVEPOINT large")
	t.run("INSERT INTO clicks SELECT 'gone', 'gone', i, '{}' FROM generate_series(1, 3000) i")
	t.run("ROLLBACK TO SAVEPOINT large")
	t.events = kept
	t.run("UPDATE orders SET total = coalesce(total, 0) + 1 WHERE " + t.some("orders", "id", 1500))
	t.run("DELETE FROM order_items WHERE " + t.some("order_items", "order_id", 1000))
}
