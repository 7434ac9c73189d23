package fakepg

import (
	"fmt"
	"slices"
	"time"

	"millrace/core/pgout"
	"millrace/core/pos"
)

// Tx is a transaction. A row (or, for a truncate, a table) that another transaction has
// touched can't be touched: the operation reports false and does nothing.
type Tx struct {
	db      *DB
	xid     uint32
	changes []change
	saves   []int
	done    bool
}

// T is a text value, N the NULL.
func T(text string) pgout.Value { return pgout.Value{Kind: pgout.Text, Text: []byte(text)} }

// N is NULL.
func N() pgout.Value { return pgout.Value{Kind: pgout.Null} }

// Keep is a value that an update leaves alone in TOAST storage.
func Keep() pgout.Value { return pgout.Value{Kind: pgout.Unchanged} }

// Begin opens a transaction.
func (db *DB) Begin() *Tx {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.nextXID++
	tx := &Tx{db: db, xid: db.nextXID}
	db.running[tx] = true
	return tx
}

// Exec runs f in a transaction of its own and returns where its commit record begins.
func (db *DB) Exec(f func(tx *Tx)) pos.LSN {
	tx := db.Begin()
	f(tx)
	return tx.Commit()
}

// row is a row as this transaction sees it.
func (tx *Tx) row(name, key string) (pgout.Tuple, bool) {
	row, ok := tx.db.tables[name].rows[key]
	for i := range tx.changes {
		c := &tx.changes[i]
		if !slices.Contains(c.tables, name) {
			continue
		}
		switch {
		case c.op == pgout.OpTruncate:
			row, ok = nil, false
		case c.op != pgout.OpCreate && c.was == key:
			row, ok = nil, false
		}
		if c.op != pgout.OpTruncate && c.op != pgout.OpDelete && c.key == key {
			row, ok = c.new, true
		}
	}
	return row, ok
}

func (tx *Tx) lock(name, key string) bool {
	t := tx.db.tables[name]
	holder, table := t.locks[key], t.locks[wholeTable]
	if holder != nil && holder != tx || table != nil && table != tx {
		return false
	}
	t.locks[key] = tx
	return true
}

// wholeTable is the key of a truncate's lock; no row has it.
const wholeTable = "\x00table"

func (tx *Tx) add(c change, name string) {
	c.tables = []string{name}
	c.shapes = []*pgout.Relation{tx.db.tables[name].shape}
	tx.changes = append(tx.changes, c)
}

// Insert adds a row; false if its key is taken.
func (tx *Tx) Insert(name string, row ...pgout.Value) bool {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	key := rowKey(row, tx.db.tables[name].pk)
	if _, taken := tx.row(name, key); taken || !tx.lock(name, key) {
		return false
	}
	tx.add(change{op: pgout.OpCreate, key: key, new: slices.Clone(row), sent: slices.Clone(row)}, name)
	return true
}

// Update replaces the row of a key; values that are Keep stay.
func (tx *Tx) Update(name, key string, row ...pgout.Value) bool {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	old, ok := tx.row(name, key)
	if !ok || !tx.lock(name, key) {
		return false
	}
	fresh := slices.Clone(row)
	for i := range fresh {
		if fresh[i].Kind == pgout.Unchanged {
			fresh[i] = old[i]
		}
	}
	to := rowKey(fresh, tx.db.tables[name].pk)
	if _, taken := tx.row(name, to); to != key && (taken || !tx.lock(name, to)) {
		return false
	}
	tx.add(change{op: pgout.OpUpdate, key: to, was: key, old: old, new: fresh, sent: slices.Clone(row)}, name)
	return true
}

// Delete removes the row of a key.
func (tx *Tx) Delete(name, key string) bool {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	old, ok := tx.row(name, key)
	if !ok || !tx.lock(name, key) {
		return false
	}
	tx.add(change{op: pgout.OpDelete, was: key, old: old}, name)
	return true
}

// Truncate empties tables at once; false if another transaction works on one of them.
func (tx *Tx) Truncate(names ...string) bool {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	c := change{op: pgout.OpTruncate, tables: slices.Clone(names)}
	for _, name := range names {
		for _, holder := range tx.db.tables[name].locks {
			if holder != tx {
				return false
			}
		}
		c.shapes = append(c.shapes, tx.db.tables[name].shape)
	}
	for _, name := range names {
		tx.lock(name, wholeTable)
	}
	tx.changes = append(tx.changes, c)
	return true
}

// Savepoint marks where RollbackTo goes back to.
func (tx *Tx) Savepoint() { tx.saves = append(tx.saves, len(tx.changes)) }

// RollbackTo undoes what was done since the last Savepoint, which goes.
func (tx *Tx) RollbackTo() {
	n := len(tx.saves) - 1
	tx.changes, tx.saves = tx.changes[:tx.saves[n]], tx.saves[:n]
}

// Rollback ends the transaction without a trace.
func (tx *Tx) Rollback() {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	tx.end()
}

// Commit ends the transaction and returns where its commit record begins.
func (tx *Tx) Commit() pos.LSN {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if tx.done {
		panic(fmt.Sprintf("transaction %d has ended", tx.xid))
	}
	tx.end()
	for i := range tx.changes {
		db.apply(&tx.changes[i])
	}
	r := &record{final: db.lsn, end: db.lsn + 48, xid: tx.xid, micros: time.Now().UnixMicro(), changes: tx.changes}
	db.wal = append(db.wal, r)
	db.advance(48)
	return r.final
}

func (tx *Tx) end() {
	tx.done = true
	delete(tx.db.running, tx)
	for _, t := range tx.db.tables {
		for key, holder := range t.locks {
			if holder == tx {
				delete(t.locks, key)
			}
		}
	}
	tx.db.touch()
}
