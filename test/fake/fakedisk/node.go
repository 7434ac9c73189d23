package fakedisk

// pageSize is the unit in which PageClone loses bytes.
const pageSize = 4096

// change is one write, or (data nil) one truncate, that was not synced.
type change struct {
	off  int64 // of the write, or the new size
	data []byte
}

// units is what a change weighs in CrashClone: a byte each, a truncate 1.
func (c change) units() int {
	if c.data == nil {
		return 1
	}
	return len(c.data)
}

// node is a file without its names.
type node struct {
	content []byte
	durable []byte
	ops     []change
}

func (n *node) write(p []byte, off int64) {
	c := change{off: off, data: append(make([]byte, 0, len(p)), p...)}
	n.content = apply(n.content, c)
	n.ops = append(n.ops, c)
}

func (n *node) truncate(size int64) {
	c := change{off: size}
	n.content = apply(n.content, c)
	n.ops = append(n.ops, c)
}

// sync makes every op durable. It replays them instead of copying content, because
// ops that a failed sync dropped stay visible and are still not durable.
func (n *node) sync() {
	for _, c := range n.ops {
		n.durable = apply(n.durable, c)
	}
	n.ops = nil
}

// dropOps is a failed fsync: the kernel marked the pages clean and forgot them.
func (n *node) dropOps() { n.ops = nil }

// unsynced is the weight of all ops.
func (n *node) unsynced() int {
	total := 0
	for _, c := range n.ops {
		total += c.units()
	}
	return total
}

// crashed is the node after a power loss that let the first units of the ops through.
func (n *node) crashed(units int) *node {
	b := append([]byte(nil), n.durable...)
	for _, c := range n.ops {
		if units <= 0 {
			break
		}
		if c.data != nil && len(c.data) > units {
			c.data = c.data[:units]
		}
		b = apply(b, c)
		units -= c.units()
	}
	return settled(b)
}

// paged is the node after a power loss that let the size through and, of the
// pages that differ from what is durable, those that keep chooses.
func (n *node) paged(keep func(page int) bool) *node {
	b := append([]byte(nil), n.content...)
	for page := 0; page*pageSize < len(b); page++ {
		lo, hi := page*pageSize, min((page+1)*pageSize, len(b))
		old := make([]byte, hi-lo)
		if lo < len(n.durable) {
			copy(old, n.durable[lo:])
		}
		if string(old) != string(b[lo:hi]) && !keep(page) {
			copy(b[lo:hi], old)
		}
	}
	return settled(b)
}

// clone is the node as another process sees it: what is not synced still isn't.
func (n *node) clone() *node {
	return &node{
		content: append([]byte(nil), n.content...),
		durable: append([]byte(nil), n.durable...),
		ops:     append([]change(nil), n.ops...),
	}
}

// settled is a node that is wholly on the platter.
func settled(b []byte) *node { return &node{content: b, durable: append([]byte(nil), b...)} }

// apply does one change to b and returns the result.
func apply(b []byte, c change) []byte {
	end := c.off
	if c.data != nil {
		end = max(c.off+int64(len(c.data)), int64(len(b)))
	}
	if end > int64(len(b)) {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	b = b[:end]
	copy(b[min(c.off, end):], c.data)
	return b
}
