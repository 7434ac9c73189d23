package manifestreplica

import (
	"sync"
	"sync/atomic"

	"millrace/actors/port"
	"millrace/core/manifest"
	"millrace/core/pos"
)

// Table is a node's cached rows. It is made once for a node and outlives the
// processes that fill it, one after the other. All methods are safe from any
// goroutine; reading takes no lock.
type Table struct {
	rows atomic.Pointer[rows]
}

// rows are those of one incarnation of the process: one that was abandoned and still
// runs writes where nobody looks.
type rows struct{ byStream sync.Map } // pos.StreamID -> manifest.Row

var _ port.Manifests = (*Table)(nil)

// NewTable returns a table without rows.
func NewTable() *Table {
	t := &Table{}
	t.rows.Store(&rows{})
	return t
}

// Manifest returns a stream's row, not ok if there is none.
func (t *Table) Manifest(id pos.StreamID) (manifest.Row, bool) { return t.rows.Load().get(id) }

// renew empties the table and returns where its new owner writes.
func (t *Table) renew() *rows {
	r := &rows{}
	t.rows.Store(r)
	return r
}

// leave empties the table if r's owner still has it.
func (t *Table) leave(r *rows) { t.rows.CompareAndSwap(r, &rows{}) }

func (r *rows) get(id pos.StreamID) (manifest.Row, bool) {
	v, ok := r.byStream.Load(id)
	if !ok {
		return manifest.Row{}, false
	}
	row, ok := v.(manifest.Row)
	return row, ok
}

func (r *rows) put(id pos.StreamID, row manifest.Row) { r.byStream.Store(id, row) }

func (r *rows) drop(id pos.StreamID) { r.byStream.Delete(id) }
