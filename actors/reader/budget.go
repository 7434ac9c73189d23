package reader

import "sync/atomic"

// Budget is the memory that the readers of a node may use together for what they
// fetched from the object store. When it is used up readers stop reading ahead and
// ask for no more than their next chunk, so that each still gets on. All methods are
// safe from any goroutine.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Used returns how many bytes are in use. It can exceed the limit by what readers
// need for one chunk each.
func (b *Budget) Used() int64 { return b.used.Load() }

// take uses n bytes if there is room for them.
func (b *Budget) take(n int64) bool {
	for {
		used := b.used.Load()
		if used+n > b.limit {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// add uses n bytes more, or fewer if n is negative, room or not.
func (b *Budget) add(n int64) {
	if n != 0 {
		b.used.Add(n)
	}
}
