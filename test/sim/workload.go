package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/core/pgout"
	"millrace/core/pos"
	"millrace/test/fake/fakepg"
)

const publication = "millrace_shop"

// int4 and text are type OIDs of pg_type.
const (
	int4 = 23
	text = 25
)

// source is the fake PostgreSQL with what was committed to it.
type source struct {
	db  *fakepg.DB
	rng *rand.Rand

	mu      sync.Mutex
	commits map[pos.LSN]int // row changes of each committed transaction, by its final LSN
	lastID  int
	crashes int
}

func newSource(rng *rand.Rand) *source {
	db := fakepg.New()
	db.CreateTable("customers", pgout.IdentityDefault, 1, pgout.Column{Name: "id", Type: int4, Mod: -1},
		pgout.Column{Name: "name", Type: text, Mod: -1}, pgout.Column{Name: "photo", Type: text, Mod: -1})
	db.CreateTable("orders", pgout.IdentityDefault, 2, pgout.Column{Name: "customer", Type: int4, Mod: -1},
		pgout.Column{Name: "n", Type: int4, Mod: -1}, pgout.Column{Name: "note", Type: text, Mod: -1})
	db.CreateTable("visits", pgout.IdentityFull, 0, pgout.Column{Name: "id", Type: int4, Mod: -1},
		pgout.Column{Name: "page", Type: text, Mod: -1})
	db.CreateTable("private", pgout.IdentityDefault, 1, pgout.Column{Name: "id", Type: int4, Mod: -1})
	db.CreatePublication(publication, "customers", "orders", "visits")
	return &source{db: db, rng: rng, commits: map[pos.LSN]int{}}
}

// keys are the replica identities of the published tables, for the fold.
var keys = map[string][]string{"public.customers": {"id"}, "public.orders": {"customer", "n"}}

// writer is one transaction under way.
type writer struct {
	s       *source
	tx      *fakepg.Tx
	changes int
	saved   []int
}

// preload fills the tables before the node sees them, so that the load has work.
func (s *source) preload(rows int) {
	w := &writer{s: s, tx: s.db.Begin()}
	for range rows {
		w.insert()
	}
	w.commit()
}

// run works off that many transactions, several at a time.
func (s *source) run(transactions int) {
	var open []*writer
	for range transactions {
		if s.rng.IntN(3) > 0 {
			time.Sleep(time.Duration(s.rng.IntN(1500)) * time.Millisecond)
		}
		w := &writer{s: s, tx: s.db.Begin()}
		w.change(1 + s.rng.IntN(12))
		open = append(open, w)
		for len(open) > 0 && s.rng.IntN(3) > 0 {
			i := s.rng.IntN(len(open))
			open[i].finish()
			open = slices.Delete(open, i, i+1)
		}
		if s.trouble() {
			open = nil
		}
	}
	for _, w := range open {
		w.commit()
	}
}

// trouble lets the server misbehave now and then; true: running transactions are lost.
func (s *source) trouble() bool {
	switch n := s.rng.IntN(200); {
	case n == 0:
		s.db.Crash()
		s.mu.Lock()
		s.crashes++
		s.mu.Unlock()
		return true
	case n < 3:
		s.db.BreakConnections()
	case n < 12:
		s.db.Noise(1 + s.rng.IntN(5000))
	}
	return false
}

func (w *writer) change(n int) {
	if w.s.rng.IntN(40) == 0 {
		n *= 40
	}
	for range n {
		switch r := w.s.rng.IntN(100); {
		case r < 45:
			w.insert()
		case r < 75:
			w.update()
		case r < 90:
			w.remove()
		case r < 92:
			w.truncate()
		case r < 95:
			w.tx.Insert("private", fakepg.T(fmt.Sprint(w.s.nextID())))
		case r < 98:
			w.tx.Savepoint()
			w.saved = append(w.saved, w.changes)
		case len(w.saved) > 0:
			w.tx.RollbackTo()
			w.changes = w.saved[len(w.saved)-1]
			w.saved = w.saved[:len(w.saved)-1]
		}
	}
}

func (s *source) nextID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	return s.lastID
}

func (w *writer) did(ok bool, changes int) {
	if ok {
		w.changes += changes
	}
}

func (w *writer) insert() {
	id := fakepg.T(fmt.Sprint(w.s.nextID()))
	switch w.s.rng.IntN(3) {
	case 0:
		w.did(w.tx.Insert("customers", id, w.word(), w.word()), 1)
	case 1:
		w.did(w.tx.Insert("orders", fakepg.T(fmt.Sprint(w.s.rng.IntN(10))), id, w.word()), 1)
	default:
		w.did(w.tx.Insert("visits", id, w.word()), 1)
	}
}

func (w *writer) update() {
	table, key, row := w.pick()
	if row == nil {
		return
	}
	switch table {
	case "customers":
		row[1] = w.word()
		row[2] = fakepg.Keep()
		if w.s.rng.IntN(3) == 0 {
			row[2] = w.word()
		}
	case "orders":
		row[2] = w.word()
		if w.s.rng.IntN(4) == 0 {
			row[0] = fakepg.T(fmt.Sprint(w.s.rng.IntN(10)))
		}
	default:
		row[1] = w.word()
	}
	w.did(w.tx.Update(table, key, row...), 1)
}

func (w *writer) remove() {
	if table, key, row := w.pick(); row != nil {
		w.did(w.tx.Delete(table, key), 1)
	}
}

func (w *writer) truncate() {
	if w.s.rng.IntN(2) == 0 {
		w.did(w.tx.Truncate("orders"), 1)
	} else {
		w.did(w.tx.Truncate("visits", "orders"), 2)
	}
}

// pick chooses a committed row at random; another transaction may hold it.
func (w *writer) pick() (table, key string, row []pgout.Value) {
	table = []string{"customers", "orders", "visits"}[w.s.rng.IntN(3)]
	keys := w.s.db.Keys(table)
	if len(keys) == 0 {
		return table, "", nil
	}
	key = keys[w.s.rng.IntN(len(keys))]
	return table, key, w.s.db.Row(table, key)
}

// word is a value of no meaning: NULL, empty, short, or long enough to fill chunks.
func (w *writer) word() pgout.Value {
	switch n := w.s.rng.IntN(20); {
	case n < 3:
		return fakepg.N()
	case n < 5:
		return fakepg.T("")
	case n == 5:
		return fakepg.T(strings.Repeat("long ", 1+w.s.rng.IntN(800)))
	}
	return fakepg.T(fmt.Sprintf("w%d", w.s.rng.IntN(1_000_000)))
}

// finish commits, or now and then rolls back.
func (w *writer) finish() {
	if w.s.rng.IntN(10) == 0 {
		w.tx.Rollback()
		return
	}
	w.commit()
}

func (w *writer) commit() {
	lsn := w.tx.Commit()
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.changes > 0 {
		w.s.commits[lsn] = w.changes
	}
}
